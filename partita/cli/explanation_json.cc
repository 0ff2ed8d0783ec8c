// Prints `explain --json`: an op, a tensor, or the plan as a whole.
#include "partita/cli/explanation.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

Json names(const std::vector<tdl::AxisStrategy>& strategies) {
  Json json = Json::array();
  for (const tdl::AxisStrategy& s : strategies) json.push_back(tdl::to_string(s));
  return json;
}

Json moved_json(Explained& e, const std::vector<Moved>& moved) {
  const Graph& graph = e.planned.training;
  Json json = Json::array();
  for (const Moved& m : moved)
    json.push_back({{"tensor", graph.tensor(m.tensor).name},
                    {"from", text_of(e, m.from)},
                    {"to", text_of(e, m.to)},
                    {"steps", steps_of(e, m)},
                    {"bytes", m.bytes},
                    {"readers", readers_of(graph, m)}});
  return json;
}

// The change by an alternative, and whether it fits if it is cheaper.
Json alternative_json(Explained& e, Json json, const Difference& d, const std::function<Plan()>& plan) {
  json["change_bytes"] = d.bytes;
  json["inner_change_bytes"] = d.inner_bytes;
  json["more"] = moved_json(e, d.more);
  json["less"] = moved_json(e, d.less);
  if (d.bytes >= 0) return json;
  if (const std::optional<int64_t> missing = deficit_of(e, plan)) {
    json["fits"] = *missing <= 0;
    if (*missing > 0) json["missing_memory_bytes"] = *missing;
  }
  return json;
}

}  // namespace

Json op_json(Explained& e, OpId id) {
  const OpExplanation explained = e.explainer.op(id);
  const Op& op = e.planned.training.op(id);
  const Plan& plan = e.planned.plan;
  Json json = {{"name", op.name},
               {"definition", op.definition},
               {"mesh", plan.ops[id.index()].mesh.extents},
               {"strategy", names(plan.ops[id.index()].strategies)},
               {"inner_bytes", explained.inner_bytes}};
  json["conversions"] = moved_json(e, explained.moved);
  if (e.places) {
    json["placement"] = placed_op_json(e, id);
    return json;
  }
  json["alternatives"] = Json::array();
  for (const OpAlternative& other : explained.alternatives)
    json["alternatives"].push_back(alternative_json(e, {{"strategy", names(other.strategies)}}, other.difference,
                                                    [&] { return with(plan, id, other.strategies); }));
  json["impossible"] = Json::array();
  for (const auto& [why, all] : explained.impossible)
    for (const auto& strategies : all) json["impossible"].push_back({{"strategy", names(strategies)}, {"why", why}});
  return json;
}

Json tensor_json(Explained& e, TensorId id) {
  const TensorExplanation explained = e.explainer.tensor(id);
  const Graph& graph = e.planned.training;
  Json json = {{"name", graph.tensor(id).name},
               {"kept_with", graph.tensor(explained.keeper).name},
               {"mesh", explained.kept_layout.mesh.extents},
               {"home", text_of(e, explained.kept_layout)}};
  if (explained.made) {
    json["made"] = text_of(e, *explained.made);
    json["producer"] = graph.op(graph.tensor(id).producer).name;
  }
  json["conversions"] = moved_json(e, explained.moved);
  json["alternatives"] = Json::array();
  for (const TensorAlternative& other : explained.alternatives)
    json["alternatives"].push_back(alternative_json(e, {{"home", text_of(other)}}, other.difference, [&] {
      return with(e.planned.plan, explained.keeper, other.kept);
    }));
  return json;
}

Json summary_json(Explained& e) {
  const std::vector<Moved> moved = e.explainer.conversions();
  Json json = {{"comm_bytes", e.planned.report.comm_bytes},
               {"inner_bytes", e.planned.report.inner_bytes},
               {"bytes_by_step", e.explainer.bytes_by_step()},
               {"conversions", moved_json(e, moved)}};
  if (e.places) json["placement"] = placed_json(e);
  return json;
}

}  // namespace partita
