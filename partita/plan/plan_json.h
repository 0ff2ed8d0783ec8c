// Reads the JSON that plans and pins share, internal to plan/: meshes, one op's choice, one tensor's layout.
#pragma once
#include <map>
#include <string>

#include "partita/base/json_fields.h"
#include "partita/plan/plan.h"

namespace partita {

constexpr int kSchemaVersion = 2;  // 1 is read: `recompute` was a field of the model, and a step had one part

// Throws bad input if the version is another than this program reads.
void check_version(Fields& in);
// Reads meshes by name.
std::map<std::string, Mesh> read_meshes(const Fields::Json& json);
// `where` begins the messages of bad input: "pins: op 'fc1'".
OpChoice read_choice(const Fields::Json& json, const std::map<std::string, Mesh>& meshes, const std::string& where);
Placement read_placement(const Fields::Json& json, const std::map<std::string, Mesh>& meshes, const std::string& where);

}  // namespace partita
