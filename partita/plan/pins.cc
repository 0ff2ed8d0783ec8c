// Reads a file of pins: names of ops, patterns of names, groups.
#include "partita/plan/pins.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/graph/name_index.h"
#include "partita/plan/pin_error.h"
#include "partita/plan/plan_json.h"

namespace partita {

using Json = Fields::Json;

namespace {

// An op's own name is no pattern, stars or not.
bool is_pattern(const std::string& name, const NameIndex& names) {
  return name.find('*') != std::string::npos && !names.find_op(name).valid();
}

// A star stands for any characters, or none.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// The op of that name, or all that a pattern matches.
std::vector<OpId> ops_of_pins(const std::string& name, const Graph& graph, const NameIndex& names) {
  if (const OpId id = names.find_op(name); id.valid()) return {id};
  const auto like = [&](const std::string& pattern) {
    std::vector<OpId> ops;
    for (size_t i = 0; i < graph.ops.size(); ++i)
      if (matches(pattern, graph.ops[i].name)) ops.emplace_back(i);
    return ops;
  };
  if (!is_pattern(name, names))
    fail_pin("op '{}' is not in model '{}'{}", name, graph.name,
             like(name + ".*").empty() ? "" : fmt::format("; '{}.*' names the ops of that layer", name));
  std::vector<OpId> ops = like(name);
  if (ops.empty()) fail_pin("no op of model '{}' is named like '{}'", graph.name, name);
  return ops;
}

// Reads an object that gives names of ops values, each by `read`. An op's own name counts more than patterns, which
// agree.
template <typename Read>
auto read_by_op(const Json& object, const Graph& graph, const NameIndex& names, const Read& read) {
  std::map<OpId, std::decay_t<decltype(read("", object))>> values;
  std::map<OpId, std::string> pattern_of;
  for (const bool patterns : {true, false})
    for (const auto& [name, json] : object.items()) {
      if (is_pattern(name, names) != patterns) continue;
      const auto value = read(name, json);
      for (OpId id : ops_of_pins(name, graph, names)) {
        const auto [known, fresh] = values.try_emplace(id, value);
        if (patterns && !fresh && !(known->second == value))
          fail_pin("op '{}' is pinned in two ways, by '{}' and by '{}'; pin it by its own name, which counts more",
                   graph.op(id).name, pattern_of.at(id), name);
        known->second = value;
        pattern_of.try_emplace(id, name);
      }
    }
  return values;
}

void read_device_types(Fields& in, const Graph& graph, const NameIndex& names, Pins& pins) {
  if (!in.optional("device_types")) return;
  pins.device_types =
      read_by_op(in.object("device_types"), graph, names, [](const std::string& name, const Json& value) {
        const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
        const auto type = device_type_of(text);
        if (!type) fail_pin("op '{}': device type '{}' is none of gpu, cpu, launch", name, text);
        return *type;
      });
}

// An op's own name counts more than patterns, as in read_by_op.
void read_colocation(Fields& in, const Graph& graph, const NameIndex& names, Pins& pins) {
  if (!in.optional("colocation")) return;
  std::map<OpId, std::string> by_name;
  for (const auto& [group, members] : in.object("colocation").items()) {
    if (group.empty()) fail_pin("a colocation group has a name");
    if (!members.is_array()) fail_pin("colocation group '{}' is a list of ops", group);
    for (const Json& json : members) {
      if (!json.is_string()) fail_pin("colocation group '{}' is a list of ops; {} is no name", group, json.dump());
      const std::string name = json.get<std::string>();
      if (is_pattern(name, names)) continue;
      for (OpId id : ops_of_pins(name, graph, names))
        if (const auto [known, fresh] = by_name.emplace(id, group); !fresh && known->second != group)
          fail_pin("op '{}' is in two colocation groups, '{}' and '{}'; take it out of one, or make one of the two",
                   name, known->second, group);
    }
  }
  pins.colocation = by_name;
  for (const auto& [group, members] : in.object("colocation").items())
    for (const std::string& name : members.get<std::vector<std::string>>()) {
      if (!is_pattern(name, names)) continue;
      for (OpId id : ops_of_pins(name, graph, names))
        if (const auto [known, fresh] = pins.colocation.emplace(id, group);
            !fresh && known->second != group && !by_name.contains(id))
          fail_pin(
              "op '{}' is in two colocation groups, '{}' and '{}' by '{}'; name it in one of them by its own "
              "name, which counts more than names with stars",
              graph.op(id).name, known->second, group, name);
    }
}

}  // namespace

Pins parse_pins(std::string_view text, const Graph& graph) {
  Json json = parse_json_object(text, "plan");
  Fields in(json, "pins");
  // A whole plan serves as pins as well.
  bool whole = false;
  for (const char* of_plans : {"schema_version", "model"}) whole |= in.optional(of_plans) != nullptr;
  if (whole) check_version(in);
  for (const char* other :
       {"cluster", "memory_limit_bytes", "measured_on", "search", "objective", "recompute", "micro_batches", "pipeline",
        "bucket_bytes", "paper_cost", "refetched", "order", "transfers"})
    in.optional(other);
  Pins pins;
  const NameIndex names(graph);
  std::map<std::string, Mesh> meshes;
  if (in.optional("meshes")) meshes = read_meshes(in.object("meshes"));
  if (in.optional("ops"))
    pins.ops = read_by_op(in.object("ops"), graph, names, [&](const std::string& name, const Json& value) {
      return read_choice(value, meshes, fmt::format("pins: op '{}'", name));
    });
  if (in.optional("kept"))
    for (const auto& [name, value] : in.object("kept").items()) {
      TensorId id = names.find_tensor(name);
      if (!id.valid()) fail_pin("tensor '{}' is not in model '{}'", name, graph.name);
      pins.kept[id] = read_placement(value, meshes, fmt::format("pins: tensor '{}'", name));
    }
  read_device_types(in, graph, names, pins);
  read_colocation(in, graph, names, pins);
  in.done();
  if (pins.ops.empty() && pins.kept.empty() && pins.device_types.empty() && pins.colocation.empty())
    fail_pin("none of 'ops', 'kept', 'device_types' and 'colocation' pins anything");
  return pins;
}

}  // namespace partita
