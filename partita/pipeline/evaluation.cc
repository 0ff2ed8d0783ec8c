// Makes the evaluated graph of a model, and gives plans of a training step to the graphs that follow from it.
#include "partita/pipeline/evaluation.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/factors.h"
#include "partita/graph/micro_batches.h"
#include "partita/graph/name_index.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"

namespace partita {

Graph evaluation_of(const Graph& forward) {
  return carry_factors(evaluation_graph(cut_parts_alike(forward, may_factor)), may_factor);
}

Graph evaluation_in_micro_batches(const Planned& training) {
  return in_micro_batches(evaluation_of(training.forward), training.training.micro_batches(), may_factor);
}

Plan evaluation_plan(const Graph& evaluation, const Planned& training) {
  Constraints constraints;
  DerivationCache cache;
  const NameIndex names(training.training);
  for (size_t i = 0; i < evaluation.ops.size(); ++i) {
    OpId same = names.find_op(evaluation.ops[i].name);
    if (!same.valid()) continue;
    const OpChoice& choice = training.plan.ops[same.index()];
    // Running statistics stand for batch statistics: an index that the evaluation form lacks can't be split.
    if (cache.get(evaluation.ops[i].bound, choice.mesh.extents, choice.strategies)) constraints.ops[OpId(i)] = choice;
  }
  for (size_t t = 0; t < evaluation.tensors.size(); ++t) {
    TensorId same = names.find_tensor(evaluation.tensors[t].name);
    if (!same.valid()) continue;
    auto kept = training.plan.kept.find(same);
    if (kept == training.plan.kept.end()) continue;
    Placement& placement = constraints.kept[TensorId(t)] = kept->second;
    for (Sbp& sbp : placement.sbp)  // running statistics that are terms of a sum: evaluation reads them in every step
      if (sbp.kind == Sbp::Kind::kPartial) sbp = Sbp::broadcast();
  }
  Plan plan = filled_in_plan(evaluation, training.cluster, constraints);
  plan.pipeline = training.plan.pipeline;
  return plan;
}

Plan for_other_extents(Plan plan, const Graph& from, const Graph& to) {
  const auto same_name = [](const auto& a, const auto& b) { return a.name == b.name; };
  ensure(std::equal(from.ops.begin(), from.ops.end(), to.ops.begin(), to.ops.end(), same_name) &&
             std::equal(from.tensors.begin(), from.tensors.end(), to.tensors.begin(), to.tensors.end(), same_name),
         "'{}': the step with other extents has other ops", from.name);
  for (auto& [tensor, placement] : plan.kept)
    for (size_t a = 0; a < placement.radices.size(); ++a)
      if (placement.radices[a].size() == 1) placement.radices[a] = {to.tensor(tensor).shape[a]};
  return plan;
}

}  // namespace partita
