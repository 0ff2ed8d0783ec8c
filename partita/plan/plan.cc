// Plans, pins and the references in them as JSON.
#include "partita/plan/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/json_append.h"
#include "partita/base/json_fields.h"
#include "partita/graph/name_index.h"
#include "partita/plan/pin_error.h"

namespace partita {

namespace {

using Json = nlohmann::ordered_json;
constexpr int kSchemaVersion = 2;  // 1 is read: `recompute` was a field of the model, and a step had one part

// Meshes are listed once, by name, since most ops share one.
class MeshTable {
 public:
  std::string name_of(const Mesh& mesh) {
    for (size_t i = 0; i < meshes_.size(); ++i)
      if (meshes_[i] == mesh) return fmt::format("m{}", i);
    meshes_.push_back(mesh);
    return fmt::format("m{}", meshes_.size() - 1);
  }
  const std::vector<Mesh>& meshes() const { return meshes_; }

 private:
  std::vector<Mesh> meshes_;
};

Json mesh_json(const Mesh& mesh) {
  Json devices = Json::array();
  for (DeviceId d : mesh.devices) devices.push_back(d.value);
  return {{"extents", mesh.extents}, {"devices", devices}};
}

Json choice_json(const OpChoice& choice, MeshTable& meshes) {
  Json strategies = Json::array();
  for (const tdl::AxisStrategy& s : choice.strategies) strategies.push_back(tdl::to_string(s));
  Json json = {{"mesh", meshes.name_of(choice.mesh)}, {"strategy", strategies}};
  if (choice.stage != 0) json["stage"] = choice.stage;
  return json;
}

Json placement_json(const Placement& placement, MeshTable& meshes) {
  Json sbp = Json::array();
  for (const Sbp& s : placement.sbp) sbp.push_back(to_string(s));
  Json json = {{"mesh", meshes.name_of(placement.mesh)}, {"sbp", sbp}};
  if (!placement.radices.empty()) json["radices"] = placement.radices;
  return json;
}

Json model_json(const ModelReference& model) {
  Json json = {{"model", model.model}};
  if (!model.bindings.empty()) json["bindings"] = model.bindings;
  if (!model.config.empty()) json["config"] = model.config;
  if (!model.tdl.empty()) json["tdl"] = model.tdl;
  json["loss"] = model.loss;
  json["optimizer"] = model.optimizer.kind;
  json["lr"] = model.optimizer.lr;
  json["momentum"] = model.optimizer.momentum;
  json["weight_decay"] = model.optimizer.weight_decay;
  if (model.optimizer.clip_norm != 0) json["clip_norm"] = model.optimizer.clip_norm;
  if (model.optimizer.schedule != "constant") json["schedule"] = model.optimizer.schedule;
  json["dtype"] = std::string(name_of(model.dtype));
  if (model.loss_scale != 1) json["loss_scale"] = model.loss_scale;
  if (model.batch_norm_groups != 1) json["batch_norm_groups"] = model.batch_norm_groups;
  json["sha256"] = model.sha256;
  return json;
}

// An object's entries, one a line, so that two plans can be compared by diff.
std::string object_lines(const Json& object) {
  std::string text = "{";
  bool first = true;
  for (const auto& [key, value] : object.items()) {
    text += fmt::format("{}\n    {}: {}", first ? "" : ",", Json(key).dump(), value.dump());
    first = false;
  }
  return text + (first ? "}" : "\n  }");
}

// The plan's own fields that determine the graph besides the model.
void read_rewrites(Fields& in, ModelReference& model) {
  if (in.optional("recompute")) model.recompute = in.value<std::string>("recompute");
  if (in.optional("micro_batches")) model.micro_batches = in.value<int>("micro_batches");
  if (model.micro_batches < 1) fail("plan: micro_batches is {}, not 1 or more", model.micro_batches);
}

Pipeline read_pipeline(const Json& json) {
  Fields in(json, "plan: pipeline");
  Pipeline pipeline;
  const auto name = in.value<std::string>("schedule");
  const std::optional<Schedule> schedule = find_schedule(name);
  if (!schedule) fail("plan: pipeline: there is no schedule '{}'; there are: {}", name, schedule_words());
  pipeline.schedule = *schedule;
  if (in.optional("virtual")) pipeline.virtual_stages = in.value<int>("virtual");
  in.done();
  return pipeline;
}

ModelReference read_model(const Json& json) {
  Fields in(json, "plan: model");
  ModelReference model;
  model.model = in.value<std::string>("model");
  if (in.optional("bindings")) model.bindings = in.value<std::map<std::string, std::string>>("bindings");
  if (in.optional("config")) model.config = in.value<std::string>("config");
  if (in.optional("tdl")) model.tdl = in.value<std::string>("tdl");
  model.loss = in.value<std::string>("loss");
  model.optimizer.kind = in.value<std::string>("optimizer");
  model.optimizer.lr = in.value<double>("lr");
  model.optimizer.momentum = in.value<double>("momentum");
  model.optimizer.weight_decay = in.value<double>("weight_decay");
  if (in.optional("clip_norm")) model.optimizer.clip_norm = in.value<double>("clip_norm");
  if (in.optional("schedule")) model.optimizer.schedule = in.value<std::string>("schedule");
  model.dtype = parse_dtype(in.value<std::string>("dtype"));
  if (in.optional("loss_scale")) model.loss_scale = in.value<double>("loss_scale");
  if (in.optional("batch_norm_groups")) model.batch_norm_groups = in.value<int64_t>("batch_norm_groups");
  if (model.batch_norm_groups < 1) fail("plan: model: batch_norm_groups is {}, not 1 or more", model.batch_norm_groups);
  if (in.optional("recompute")) model.recompute = in.value<std::string>("recompute");
  model.sha256 = in.value<std::string>("sha256");
  in.done();
  return model;
}

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

}  // namespace

std::string print(const Plan& plan, const Graph& graph) {
  MeshTable meshes;
  Json ops = Json::object(), kept = Json::object(), mesh_list = Json::object();
  for (size_t i = 0; i < plan.ops.size(); ++i) append(ops, graph.ops[i].name, choice_json(plan.ops[i], meshes));
  for (const auto& [id, placement] : plan.kept) append(kept, graph.tensor(id).name, placement_json(placement, meshes));
  for (const Mesh& mesh : meshes.meshes()) append(mesh_list, meshes.name_of(mesh), mesh_json(mesh));
  std::string text = "{\n";
  text += fmt::format("  \"schema_version\": {},\n", kSchemaVersion);
  text += fmt::format("  \"model\": {},\n", model_json(plan.model).dump());
  text += fmt::format("  \"cluster\": {},\n", Json{{"name", plan.cluster}, {"text", plan.cluster_text}}.dump());
  if (plan.memory_limit_bytes) text += fmt::format("  \"memory_limit_bytes\": {},\n", *plan.memory_limit_bytes);
  if (!plan.measured_on.empty()) text += fmt::format("  \"measured_on\": {},\n", Json(plan.measured_on).dump());
  text += fmt::format("  \"search\": {},\n", Json(plan.search).dump());
  text += fmt::format("  \"objective\": {},\n", Json(plan.objective).dump());
  if (plan.model.recompute != "none") text += fmt::format("  \"recompute\": {},\n", Json(plan.model.recompute).dump());
  if (plan.model.micro_batches != 1) text += fmt::format("  \"micro_batches\": {},\n", plan.model.micro_batches);
  if (plan.pipeline != Pipeline()) {
    Json pipeline = {{"schedule", name_of(plan.pipeline.schedule)}};
    if (plan.pipeline.virtual_stages != 1) pipeline["virtual"] = plan.pipeline.virtual_stages;
    text += fmt::format("  \"pipeline\": {},\n", pipeline.dump());
  }
  if (plan.bucket_bytes != 0) text += fmt::format("  \"bucket_bytes\": {},\n", plan.bucket_bytes);
  if (plan.paper_cost) text += fmt::format("  \"paper_cost\": {},\n", Json(*plan.paper_cost).dump());
  text += fmt::format("  \"meshes\": {},\n", object_lines(mesh_list));
  text += fmt::format("  \"ops\": {},\n", object_lines(ops));
  text += fmt::format("  \"kept\": {}", object_lines(kept));
  if (!plan.resharded.empty()) {
    Json names = Json::array();
    for (TensorId id : plan.resharded) names.push_back(graph.tensor(id).name);
    text += fmt::format(",\n  \"refetched\": {}", names.dump());
  }
  if (!plan.order.empty()) {
    Json order = Json::array();
    for (OpId id : plan.order) order.push_back(graph.op(id).name);
    text += fmt::format(",\n  \"order\": {}", order.dump());
  }
  if (plan.transfers) {
    Json transfers = Json::array();
    for (const PlannedTransfer& t : *plan.transfers) {
      transfers.push_back(Json::array({graph.tensor(t.tensor).name, t.to.value}));
      if (t.reader.valid()) transfers.back().push_back(graph.op(t.reader).name);
    }
    text += fmt::format(",\n  \"transfers\": {}", transfers.dump());
  }
  text += "\n";
  return text + "}\n";
}

namespace {

std::vector<PlannedTransfer> read_transfers(const Json& json, const Graph& graph, const NameIndex& names) {
  std::vector<PlannedTransfer> transfers;
  if (!json.is_array()) fail("plan: transfers is a list of [tensor, device, reader], not {}", json.type_name());
  for (const Json& entry : json) {
    const bool has_reader = entry.is_array() && entry.size() == 3;
    if (!entry.is_array() || (entry.size() != 2 && !has_reader) || !entry[0].is_string() || !is_a<int>(entry[1]) ||
        (has_reader && !entry[2].is_string()))
      fail("plan: transfers: an entry is [tensor, device] or [tensor, device, reader], not {}", entry.dump());
    const auto name = entry[0].get<std::string>();
    transfers.push_back({names.find_tensor(name), DeviceId(entry[1].get<int>()), OpId()});
    if (!transfers.back().tensor.valid()) fail("plan: transfers: tensor '{}' is not in model '{}'", name, graph.name);
    if (!has_reader) continue;
    const auto reader = entry[2].get<std::string>();
    transfers.back().reader = names.find_op(reader);
    if (!transfers.back().reader.valid()) fail("plan: transfers: op '{}' is not in model '{}'", reader, graph.name);
  }
  return transfers;
}

}  // namespace

Plan parse_plan(std::string_view text, const Graph& graph) {
  Json json = parse_json_object(text, "plan");
  Fields in(json, "plan");
  check_version(in);
  Plan plan;
  plan.model = read_model(in.get("model"));
  read_rewrites(in, plan.model);
  if (const Json* pipeline = in.optional("pipeline")) plan.pipeline = read_pipeline(*pipeline);
  if (in.optional("bucket_bytes")) plan.bucket_bytes = in.value<int64_t>("bucket_bytes");
  if (plan.bucket_bytes < 0)
    fail("plan: bucket_bytes is {}: write 0 or more, 0 for each tensor by itself", plan.bucket_bytes);
  Fields cluster(in.get("cluster"), "plan: cluster");
  plan.cluster = cluster.value<std::string>("name");
  plan.cluster_text = cluster.value<std::string>("text");
  cluster.done();
  if (in.optional("memory_limit_bytes")) plan.memory_limit_bytes = in.value<int64_t>("memory_limit_bytes");
  if (plan.memory_limit_bytes && *plan.memory_limit_bytes < 1)
    fail("plan: memory_limit_bytes is {}: write what a device may use, 1 or more", *plan.memory_limit_bytes);
  if (in.optional("measured_on")) plan.measured_on = in.value<std::string>("measured_on");
  plan.search = in.value<std::string>("search");
  plan.objective = in.value<std::string>("objective");
  if (plan.objective != "comm" && plan.objective != "time")
    fail("plan: 'objective' is comm or time, not '{}'", plan.objective);
  if (in.optional("paper_cost")) plan.paper_cost = in.value<double>("paper_cost");
  auto meshes = read_meshes(in.object("meshes"));
  const NameIndex names(graph);
  plan.ops.resize(graph.ops.size());
  std::vector<bool> seen(graph.ops.size());
  for (const auto& [name, value] : in.object("ops").items()) {
    OpId id = names.find_op(name);
    if (!id.valid()) fail("plan: op '{}' is not in model '{}': the plan is for another model", name, graph.name);
    plan.ops[id.index()] = read_choice(value, meshes, fmt::format("plan: op '{}'", name));
    seen[id.index()] = true;
  }
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i])
      fail("plan: op '{}' of model '{}' has no entry: the plan is for another model, or was cut", graph.ops[i].name,
           graph.name);
  for (const auto& [name, value] : in.object("kept").items()) {
    TensorId id = names.find_tensor(name);
    if (!id.valid()) fail("plan: tensor '{}' is not in model '{}': the plan is for another model", name, graph.name);
    plan.kept[id] = read_placement(value, meshes, fmt::format("plan: tensor '{}'", name));
  }
  if (in.optional("refetched"))
    for (const std::string& name : in.value<std::vector<std::string>>("refetched")) {
      const TensorId id = names.find_tensor(name);
      if (!id.valid()) fail("plan: refetched: tensor '{}' is not in model '{}'", name, graph.name);
      if (!plan.resharded.insert(id).second) fail("plan: refetched: tensor '{}' stands twice", name);
    }
  if (in.optional("order"))
    for (const std::string& name : in.value<std::vector<std::string>>("order")) {
      plan.order.push_back(names.find_op(name));
      if (!plan.order.back().valid()) fail("plan: order: op '{}' is not in model '{}'", name, graph.name);
    }
  if (const Json* transfers = in.optional("transfers")) plan.transfers = read_transfers(*transfers, graph, names);
  in.done();
  return plan;
}

ModelReference parse_model_reference(std::string_view text) {
  Json json = parse_json_object(text, "plan");
  Fields in(json, "plan");
  check_version(in);  // first: another version may have other fields
  ModelReference model = read_model(in.get("model"));
  read_rewrites(in, model);
  return model;
}

std::string parse_cluster_text(std::string_view text) {
  Json json = parse_json_object(text, "plan");
  if (!json.contains("cluster")) fail("plan: the field 'cluster' is missing: this is not a plan file");
  Fields in(json["cluster"], "plan: cluster");
  return in.value<std::string>("text");
}

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

// What an object of names says of ops, each read by `read`. An op's own name counts more than patterns, which agree.
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
  // A whole plan serves as well.
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

Graph with_device_types(Graph graph, const Pins& pins) {
  for (const auto& [id, type] : pins.device_types) graph.op(id).device_type = type;
  for (const auto& [id, group] : pins.colocation) graph.op(id).colocation = group;
  if (!pins.device_types.empty() || !pins.colocation.empty()) verify_groups(graph);
  return graph;
}

}  // namespace partita
