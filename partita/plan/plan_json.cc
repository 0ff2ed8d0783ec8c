// Reads meshes, choices and layouts for plans and pins.
#include "partita/plan/plan_json.h"

#include <vector>

#include "partita/base/error.h"

namespace partita {

using Json = Fields::Json;

namespace {

const Mesh& find_mesh(const std::map<std::string, Mesh>& meshes, const std::string& name, const std::string& where) {
  auto found = meshes.find(name);
  if (found == meshes.end()) fail("{}: unknown mesh '{}'", where, name);
  return found->second;
}

// Reads a text inside `where`; an error names the place.
template <typename Read>
auto read_at(const std::string& where, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
}

}  // namespace

std::map<std::string, Mesh> read_meshes(const Json& json) {
  std::map<std::string, Mesh> meshes;
  for (const auto& [name, value] : json.items()) {
    Fields in(value, fmt::format("plan: mesh '{}'", name));
    Mesh mesh;
    mesh.extents = in.value<std::vector<int>>("extents");
    for (int d : in.value<std::vector<int>>("devices")) {
      DeviceId id;
      id.value = d;
      mesh.devices.push_back(id);
    }
    in.done();
    meshes[name] = mesh;
  }
  return meshes;
}

OpChoice read_choice(const Json& json, const std::map<std::string, Mesh>& meshes, const std::string& where) {
  Fields in(json, where);
  OpChoice choice;
  choice.mesh = find_mesh(meshes, in.value<std::string>("mesh"), where);
  for (const std::string& s : in.value<std::vector<std::string>>("strategy"))
    choice.strategies.push_back(read_at(where, [&] { return tdl::parse_strategy(s); }));
  if (in.optional("stage")) choice.stage = in.value<int>("stage");
  if (choice.stage < 0) fail("{}: stage {} is below 0", where, choice.stage);
  in.done();
  return choice;
}

Placement read_placement(const Json& json, const std::map<std::string, Mesh>& meshes, const std::string& where) {
  Fields in(json, where);
  Placement placement;
  placement.mesh = find_mesh(meshes, in.value<std::string>("mesh"), where);
  for (const std::string& s : in.value<std::vector<std::string>>("sbp"))
    placement.sbp.push_back(read_at(where, [&] { return parse_sbp(s); }));
  if (in.optional("radices")) placement.radices = in.value<std::vector<Shape>>("radices");
  in.done();
  return placement;
}

void check_version(Fields& in) {
  int version = in.value<int>("schema_version");
  if (version < 1 || version > kSchemaVersion)
    fail("plan: schema_version {} is not one that this program reads (1 to {}); plan again with this program", version,
         kSchemaVersion);
}

}  // namespace partita
