// Prints and parses plans and the references in them as JSON.
#include "partita/plan/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/json_append.h"
#include "partita/base/json_fields.h"
#include "partita/graph/name_index.h"
#include "partita/plan/plan_json.h"

namespace partita {

namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace partita
