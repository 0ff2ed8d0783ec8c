// Reads sharding problems in the public format of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism
// (IOPDDL); docs/reference/solve.md.
#pragma once
#include <string>

#include "partita/base/watch.h"
#include "partita/network/network.h"

namespace partita::solver {

// Reads a .json or .json.gz file, told apart by content. Every node has one use. Throws (bad input), naming file and
// place: `p.json: problem.nodes.usages[7][2] is negative: -1`. A repeated key in one object is such an error. Reading
// ends when `watch` does.
Network read_problem(const std::string& path, const Watch& watch = {});
Network parse_problem(const std::string& json, const std::string& file, const Watch& watch = {});

// Reads a file's text, unpacked if it is packed with gzip. Throws (bad input) if it is cut off or broken.
std::string read_text(const std::string& path, const Watch& watch = {});
// Writes text, packed if the path ends with .gz. PATH.partial is written and renamed, so that PATH is always whole.
void write_text(const std::string& path, const std::string& text);

}  // namespace partita::solver
