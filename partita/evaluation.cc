// A model as it is evaluated, and the plan for that which follows from a training plan.
#include "partita/evaluation.h"

#include "partita/graph/autodiff.h"
#include "partita/graph/factors.h"
#include "partita/graph/name_index.h"
#include "partita/graph/parts.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"

namespace partita {

Graph evaluation_of(const Graph& forward) {
  return carry_factors(evaluation_graph(cut_parts_alike(forward, may_factor)), may_factor);
}

Graph evaluation_in_parts(const Planned& training) {
  return in_parts(evaluation_of(training.forward), training.training.micro_batches(), may_factor);
}

Plan evaluation_plan(const Graph& evaluation, const Planned& training) {
  Pins pins;
  DerivationCache cache;
  const NameIndex names(training.training);
  for (size_t i = 0; i < evaluation.ops.size(); ++i) {
    OpId same = names.find_op(evaluation.ops[i].name);
    if (!same.valid()) continue;
    const OpChoice& choice = training.plan.ops[same.index()];
    // Running statistics stand for batch statistics: an index that the evaluation form lacks can't be split.
    if (cache.get(evaluation.ops[i].bound, choice.mesh.extents, choice.strategies)) pins.ops[OpId(i)] = choice;
  }
  for (size_t t = 0; t < evaluation.tensors.size(); ++t) {
    TensorId same = names.find_tensor(evaluation.tensors[t].name);
    if (!same.valid()) continue;
    auto kept = training.plan.kept.find(same);
    if (kept == training.plan.kept.end()) continue;
    Placement& placement = pins.kept[TensorId(t)] = kept->second;
    for (Sbp& sbp : placement.sbp)  // running statistics that are terms of a sum: evaluation reads them in every step
      if (sbp.kind == Sbp::Kind::kPartial) sbp = Sbp::broadcast();
  }
  Plan plan = filled_in_plan(evaluation, training.cluster, pins);
  plan.pipeline = training.plan.pipeline;
  return plan;
}

}  // namespace partita
