// explain: finds the requested op or tensor; has the words of its text and its JSON.
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/nearest.h"
#include "partita/cli/commands.h"
#include "partita/cli/explanation.h"
#include "partita/pipeline/in_file.h"
#include "partita/schedule/representatives.h"
#include "partita/search/device_placement/placed_plan.h"
#include "partita/search/evaluate.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kMemoryPlans = 8;  // cheaper alternatives whose memory is planned
// Operations times devices, about: beyond these the memory of representatives is planned.
constexpr int64_t kTasksOfAll = 10'000;

}  // namespace

std::string text_of(const std::vector<tdl::AxisStrategy>& strategies) {
  std::vector<std::string> names;
  for (const tdl::AxisStrategy& s : strategies) names.push_back(tdl::to_string(s));
  return fmt::format("[{}]", fmt::join(names, ", "));
}

std::string text_of(const Explained& e, const Layout& layout) {
  if (layout.mesh.devices.size() == 1) return e.planned.cluster.device(layout.mesh.devices[0]).name;
  const auto name = name_of(layout);
  return name ? to_string(*name) : "boxes without a name";
}

std::string text_of(const TensorAlternative& other) {
  return other.kept ? to_string(other.kept->sbp) : "as it is made";
}

std::string steps_of(Explained& e, const Moved& moved) {
  return e.explainer.steps_of(moved, [&](const Step& step) {
    std::string name(name_of(step.kind));
    if (step.groups.empty()) return name;
    std::vector<DeviceId> devices;
    for (int position : step.groups[0]) devices.push_back(step.to.mesh.devices[position]);
    const Collective& found = e.collectives.of(step.kind, devices);
    const double sent = static_cast<double>(step.bytes) / static_cast<double>(step.groups.size() * devices.size());
    return fmt::format("{} ({})", name, found.names[found.costs.fastest(sent)]);
  });
}

std::vector<std::string> readers_of(const Graph& graph, const Moved& moved) {
  std::vector<std::string> names;
  for (const Reader& r : moved.readers)
    if (const std::string& name = graph.op(r.op).name; names.empty() || names.back() != name) names.push_back(name);
  return names;
}

std::optional<int64_t> deficit_of(Explained& e, const std::function<Plan()>& alternative) {
  if (e.memory_plans++ >= kMemoryPlans) return std::nullopt;
  const Graph& graph = e.planned.training;
  const Cluster& cluster = e.planned.cluster;
  if (static_cast<int64_t>(graph.ops.size()) * cluster.compute_count <= kTasksOfAll)
    return evaluate_memory(graph, alternative(), cluster).memory_deficit;
  return evaluate_memory(graph, alternative(), cluster, {}, representative_devices(cluster)).memory_deficit;
}

int explain_command(const Arguments& a) {
  Runner runner(true, a.dump);
  Planned p = open_plan(a.target, runner, Follow::kCheck, {a.request.profile_file});
  const bool places = runs_ops_whole(p.plan);
  if (places) in_file(a.target, [&] { finish(p, runner); });
  Explained e(p);
  e.places = places && p.is_whole();
  if (e.places) e.placed = PlacedExplainer::of(p.training, p.cluster, p.plan);
  if (a.name.empty()) {
    if (a.json) print_json(summary_json(e));
    else print_summary(e);
    return 0;
  }
  const OpId op = p.training.find_op(a.name);
  const TensorId tensor = p.training.find_tensor(a.name);
  if (!op.valid() && !tensor.valid()) {
    std::vector<std::string> known;
    for (const Op& o : p.training.ops) known.push_back(o.name);
    for (const Tensor& t : p.training.tensors) known.push_back(t.name);
    const std::vector<std::string> near = near_names(a.name, known);
    fail("{}: the model has no op or tensor '{}'; {}", a.target, a.name,
         near.empty() ? "'ops' and 'kept' in the file list names, and `partita explain` of it alone shows some"
                      : fmt::format("near it are: {}", fmt::join(near, ", ")));
  }
  // An op's result often has its name.
  Json json;
  if (op.valid()) {
    if (a.json) json["op"] = op_json(e, op);
    else print_op(e, op);
  }
  if (tensor.valid()) {
    if (a.json) json["tensor"] = tensor_json(e, tensor);
    else print_tensor(e, tensor);
  }
  if (a.json) print_json(std::move(json));
  return 0;
}

}  // namespace partita
