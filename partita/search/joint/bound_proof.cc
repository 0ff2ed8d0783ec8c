// Prints and parses the proof of a bound, and checks it on the network of a plan's own graph.
#include "partita/search/joint/bound_proof.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "partita/base/error.h"
#include "partita/search/joint/joint.h"

namespace partita {

namespace {

using Json = nlohmann::ordered_json;

int64_t integer(const Json& json) {
  if (!json.is_number_integer() || (json.is_number_unsigned() && !std::in_range<int64_t>(json.get<uint64_t>())))
    fail("{} is not an integer of 64 bits", json.dump());
  return json.get<int64_t>();
}

int count(const Json& json) {
  const int64_t number = integer(json);
  if (number < 0 || number > INT32_MAX) fail("{} is out of range", number);
  return static_cast<int>(number);
}

Mesh mesh_of(const Json& json) {
  Mesh mesh;
  for (const Json& extent : json.at("extents")) mesh.extents.push_back(count(extent));
  for (const Json& device : json.at("devices")) mesh.devices.push_back(DeviceId(static_cast<size_t>(count(device))));
  return mesh;
}

Constraints constraints_of(const BoundProof& proof, const Graph& graph, const Plan& plan) {
  Constraints constraints;
  for (const std::string& name : proof.pinned_ops) {
    const OpId op = graph.find_op(name);
    if (!op.valid()) fail("the proof is of plans with a pinned op '{}', which the model has not", name);
    constraints.ops[op] = plan.ops[op.index()];
  }
  for (const std::string& name : proof.pinned_tensors) {
    const TensorId tensor = graph.find_tensor(name);
    if (!tensor.valid() || !plan.kept.contains(tensor))
      fail("the proof is of plans with a pinned tensor '{}', which this plan has not", name);
    constraints.kept[tensor] = plan.kept.at(tensor);
  }
  return constraints;
}

}  // namespace

std::string print_proof(const BoundProof& proof) {
  std::vector<int> devices;
  for (DeviceId d : proof.mesh.devices) devices.push_back(d.value);
  Json space = {{"search", proof.search},
                {"objective", proof.objective},
                {"mesh", {{"extents", proof.mesh.extents}, {"devices", devices}}},
                {"memory_limit_bytes", proof.memory_limit_bytes},
                {"model_sha256", proof.model_sha256},
                {"variables", proof.variables},
                {"tensor_entries", proof.tensor_entries}};
  if (!proof.pinned_ops.empty()) space["pinned_ops"] = proof.pinned_ops;
  if (!proof.pinned_tensors.empty()) space["pinned_tensors"] = proof.pinned_tensors;
  return fmt::format("{{\"space\": {},\n {}", space.dump(), solver::print_certificate(proof.certificate).substr(1));
}

BoundProof parse_proof(const std::string& text, const std::string& file) {
  BoundProof proof;
  proof.certificate = solver::parse_certificate(text, file);
  const Json json = Json::parse(text);
  if (!json.contains("space"))
    fail("{}: has no space: it is the proof of a problem's bound, not of a plan search's", file);
  try {
    const Json& space = json["space"];
    proof.search = space.at("search").get<std::string>();
    proof.objective = space.at("objective").get<std::string>();
    proof.mesh = mesh_of(space.at("mesh"));
    proof.memory_limit_bytes = integer(space.at("memory_limit_bytes"));
    proof.model_sha256 = space.at("model_sha256").get<std::string>();
    proof.variables = count(space.at("variables"));
    proof.tensor_entries = integer(space.value("tensor_entries", Json(JointLimits::kEntries)));
    if (proof.tensor_entries < 1 || proof.tensor_entries > JointLimits::kManyEntries)
      fail("tensor_entries is {}; there are 1 to {}", proof.tensor_entries, JointLimits::kManyEntries);
    proof.pinned_ops = space.value("pinned_ops", std::vector<std::string>());
    proof.pinned_tensors = space.value("pinned_tensors", std::vector<std::string>());
  } catch (const std::exception& e) {  // of the JSON's structure, or ours
    fail("{}: space: {}", file, e.what());
  }
  return proof;
}

int64_t check_proof(const BoundProof& proof, const Graph& graph, const Cluster& cluster, const Plan& plan) {
  if (proof.model_sha256 != plan.model.sha256)
    fail("the proof is of another model than '{}', or of other settings of it (its SHA-256 differs)", plan.model.model);
  const auto objective = objective_of(proof.objective);
  if (!objective) fail("the proof is of the objective '{}'; there are comm and time", proof.objective);
  const Problem problem{
      .graph = graph, .cluster = cluster, .objective = *objective, .constraints = constraints_of(proof, graph, plan)};
  int64_t positions = 1;
  for (int extent : proof.mesh.extents)
    positions = extent > 0 && positions <= cluster.compute_count ? positions * extent : 0;
  if (positions != cluster.compute_count || proof.mesh.devices != slowest_link_first(cluster))
    fail("the proof is of plans over mesh {}, this plan's cluster has devices {}", to_string(proof.mesh),
         to_string(Mesh{{cluster.compute_count}, slowest_link_first(cluster)}));
  std::optional<JointProblem> joint =
      joint_problem(problem, {proof.mesh, {}}, {.tensor_entries = proof.tensor_entries});
  if (joint->network.variables() != proof.variables)
    fail("the proof is of a network of {} variables, this plan's has {}: another version of Partita wrote it",
         proof.variables, joint->network.variables());
  joint->network.limit = proof.memory_limit_bytes;
  const auto bound = [&] {
    try {
      return solver::check(joint->network, proof.certificate);
    } catch (const Error& error) {
      const size_t pins = proof.pinned_ops.size() + proof.pinned_tensors.size();
      if (error.code() != ExitCode::kBadInput || pins == 0) throw;
      fail("{}; it is of plans with choices pinned (in all {}), such as '{}', which this plan has perhaps otherwise",
           error.what(), pins, proof.pinned_ops.empty() ? proof.pinned_tensors[0] : proof.pinned_ops[0]);
    }
  }();
  if (!bound) fail("the proof says that no plan fits into {} bytes, but there is this one", proof.memory_limit_bytes);
  return static_cast<int64_t>(*bound);
}

}  // namespace partita
