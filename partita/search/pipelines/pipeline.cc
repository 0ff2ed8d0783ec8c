// Cuts a model into stages, and places the plan of one stage on the devices of all.
#include "partita/search/pipelines/pipeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/micro_batches.h"
#include "partita/physical/for_stages.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/schedule/choose_order.h"
#include "partita/schedule/representatives.h"
#include "partita/search/entry.h"
#include "partita/search/pipelines/stage_cuts.h"
#include "partita/search/pipelines/stages.h"

namespace partita {

namespace {

// By tensor that no op makes: the stage of its first reader.
std::vector<int> stages_of_sources(const Graph& graph, const std::vector<int>& stage_of_op) {
  std::vector<int> stage(graph.tensors.size(), 0);
  const auto read_by = readers_by_tensor(graph);
  for (size_t t = 0; t < stage.size(); ++t)
    if (!read_by[t].empty()) stage[t] = stage_of_op[read_by[t][0].op.index()];
  return stage;
}

// Tensors that neither samples nor weights reach (masks, rotary tables) are made on each rank that reads them. They are
// cheaper to make than to send.
class EachItsOwn {
 public:
  EachItsOwn(const Graph& graph, const std::vector<int>& stage_of_op, int ranks)
      : graph_(graph), read_by_(readers_by_tensor(graph)), ranks_of_(graph.ops.size()) {
    for (size_t i = 0; i < graph.ops.size(); ++i) ranks_of_[i] = {stage_of_op[i] % ranks};
    for (const Op& op : graph.ops) own_.push_back(op.phase == Phase::kForward && made_of_constants(op));
    for (size_t i = graph.ops.size(); i-- > 0;)  // readers first
      if (own_[i]) {
        ranks_of_[i].clear();
        for (const TensorId t : graph.ops[i].results) ranks_of_[i].merge(readers_of(t));
        if (ranks_of_[i].empty()) ranks_of_[i] = {stage_of_op[i] % ranks};
      }
  }
  // The ranks that an op runs on; for a tensor that no op makes, those that read it.
  const std::set<int>& ranks_of(OpId id) const { return ranks_of_[id.index()]; }
  std::set<int> readers_of(TensorId t) const {
    std::set<int> ranks;
    for (const Reader& r : read_by_[t.index()])
      ranks.insert(ranks_of_[r.op.index()].begin(), ranks_of_[r.op.index()].end());
    return ranks;
  }

 private:
  bool made_of_constants(const Op& op) const {
    return !op.per_micro_batch && std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId t) {
      const Tensor& operand = graph_.tensor(t);
      return operand.producer.valid() ? static_cast<bool>(own_[operand.producer.index()])
                                      : operand.role == Role::kConstant;
    });
  }

  const Graph& graph_;
  const std::vector<std::vector<Reader>> read_by_;
  std::vector<char> own_;                // by op
  std::vector<std::set<int>> ranks_of_;  // by op
};

// Whole on every device of these ranks.
Mesh on_ranks(const std::set<int>& ranks, const RankDevices& all) {
  Mesh out;
  for (const int rank : ranks)
    for (int d = rank * all.each; d < (rank + 1) * all.each; ++d)
      out.devices.push_back(all.devices[static_cast<size_t>(d)]);
  out.extents = {out.positions()};
  return out;
}

// Compares a pipeline's plans.
class PlanEvaluator {
 public:
  PlanEvaluator(const Problem& problem, const Watch& watch)
      : problem_(problem), watch_(watch), roomy_(problem.cluster) {
    constexpr int64_t kPlenty = std::numeric_limits<int64_t>::max() / 4;
    for (Device& d : roomy_.devices) d.memory_bytes = kPlenty;
  }
  // Chooses how many plans like this one are compared, and how well, so that it takes a second or two. Each takes about
  // as long as it has firings, and kAllOrders times as long in all of its orders.
  int64_t most(const Plan& plan) {
    constexpr int64_t kFirings = 400'000, kMost = 40, kAllOrders = 4;
    const Representatives from = choose_few_representatives(problem_.graph, plan, problem_.cluster);
    int64_t firings = 1;
    for (size_t i = 0; i < plan.ops.size(); ++i)
      firings += std::min(problem_.graph.firings(problem_.graph.ops[i]), from.micro_batches) *
                 (from.devices.empty() ? static_cast<int64_t>(plan.ops[i].mesh.devices.size()) : 1);
    roughly_ = kAllOrders * firings * kMost > kFirings;
    return std::min(kMost, kFirings / firings);
  }
  int64_t step_ns(const Plan& plan) const {
    const Graph graph = for_stages(problem_.graph, plan);
    const Representatives from = choose_few_representatives(graph, plan, roomy_);
    Resolved resolved = resolve(graph, plan, roomy_, mask_with_hosts(from.devices, roomy_));
    resolved.bucket_bytes = problem_.bucket_bytes;
    return choose_order(graph, plan, resolved, from, roomy_,
                        {.out_of_memory = OutOfMemoryPolicy::kSimulate, .watch = watch_, .roughly = roughly_})
        .breakdown->step_ns();
  }
  PlanEvaluation evaluated(const Plan& plan) const { return evaluate_in_time(problem_, plan, watch_); }

 private:
  const Problem& problem_;
  const Watch watch_;
  Cluster roomy_;
  bool roughly_ = true;
};

// None: a plan that cannot run, or time is over.
template <typename Evaluate>
auto if_it_can(const Evaluate& evaluator) -> std::optional<decltype(evaluator())> {
  try {
    return evaluator();
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBug) throw;
    return std::nullopt;
  }
}

}  // namespace

Plan staged_plan(const Graph& graph, const Plan& inner, const std::vector<int>& stage_of_op, int ranks,
                 const Cluster& cluster) {
  const std::set<int> stages(stage_of_op.begin(), stage_of_op.end());
  if (static_cast<int>(stages.size()) <= *stages.rbegin())
    throw DoesNotApply(fmt::format("pipeline: '{}' has operations for {} of {} stages; choose fewer", graph.name,
                                   stages.size(), *stages.rbegin() + 1));
  const RankDevices devices(cluster, ranks);
  Plan plan = inner;
  plan.paper_cost.reset();  // it counts one rank's devices
  plan.order.clear();       // stages take turns
  const EachItsOwn own(graph, stage_of_op, ranks);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    plan.ops[i].stage = stage_of_op[i];
    const std::set<int>& on = own.ranks_of(OpId(i));
    if (on.size() > 1) plan.ops[i] = {on_ranks(on, devices), {{}}, stage_of_op[i]};
    else plan.ops[i].mesh = devices.on(plan.ops[i].mesh, *on.begin());
  }
  const std::vector<int> of_source = stages_of_sources(graph, stage_of_op);
  for (auto& [id, placement] : plan.kept) {
    const OpId producer = graph.tensor(id).producer;
    const int stage = producer.valid() ? stage_of_op[producer.index()] : of_source[id.index()];
    const bool constant = graph.tensor(id).role == Role::kConstant;
    if (const std::set<int> on = constant ? own.readers_of(id) : std::set<int>(); on.size() > 1)
      placement = {on_ranks(on, devices), {Sbp::broadcast()}, {}};
    else placement.mesh = devices.on(placement.mesh, stage % ranks);
  }
  return plan;
}

Cluster first_devices(const Cluster& cluster, int devices) {
  Cluster first = parse_cluster(cluster.text, cluster.name, devices);
  for (Device& d : first.devices) d.memory_bytes = INT64_MAX / 4;
  return first;
}

Cluster rank_of(const Cluster& cluster, int ranks) { return first_devices(cluster, cluster.compute_count / ranks); }

namespace {

Pipelining checked_pipelining(const Problem& problem, int ranks, const Pipeline& pipeline) {
  const Cluster& cluster = problem.cluster;
  if (cluster.compute_count % ranks != 0)
    throw DoesNotApply(fmt::format("pipeline: {} stages do not divide {} devices; choose a divisor of {}", ranks,
                                   cluster.compute_count, cluster.compute_count));
  const Pipelining pipelining{pipeline.schedule, ranks, pipeline.virtual_stages, problem.graph.micro_batches()};
  if (const auto why = pipelining_error(pipelining)) throw DoesNotApply("pipeline: " + *why);
  return pipelining;
}

// The plan with these stages, by op.
Plan plan_of_stages(const Problem& problem, const Plan& one, const std::vector<int>& stages, int ranks,
                    const Pipeline& pipeline) {
  Plan plan = staged_plan(problem.graph, one, stages, ranks, problem.cluster);
  if (ranks > 1) plan.pipeline = pipeline;
  return with_constraints(std::move(plan), problem.constraints);
}

}  // namespace

Plan pipeline_plan(const Problem& problem, int ranks, const Pipeline& pipeline, const InnerPlan& inner,
                   const Budget& budget) {
  constexpr double kComparing = 0.2;  // of the time left
  const Pipelining pipelining = checked_pipelining(problem, ranks, pipeline);
  const Plan one = inner(rank_of(problem.cluster, ranks));
  const StageCuts cuts = stage_cuts(problem.graph, one, problem.cluster, pipelining);
  const auto plan_of = [&](const StageCut& cut) {
    return plan_of_stages(problem, one, stages_of(cuts.blocks, cut), ranks, pipeline);
  };
  PlanEvaluator evaluator(problem, budget.watch());
  const int64_t most = evaluator.most(plan_of(cuts.cuts[cuts.estimated()]));
  return plan_of(shortest_cut(
      cuts, {std::min(most, budget.steps.value_or(most)), budget.watch().share(kComparing)},
      {.step_ns = [&](const StageCut& cut) { return if_it_can([&] { return evaluator.step_ns(plan_of(cut)); }); },
       .evaluated =
           [&](const StageCut& cut) { return if_it_can([&] { return evaluator.evaluated(plan_of(cut)); }); }}));
}

Plan pipeline_plan_of_layers(const Problem& problem, int ranks, const Pipeline& pipeline, const InnerPlan& inner,
                             const std::string& layers) {
  const Pipelining pipelining = checked_pipelining(problem, ranks, pipeline);
  const LayerBlocks blocks = layer_blocks_of(problem.graph, 0);
  const std::vector<int> counts =
      layers == "even" ? even_layers(blocks.layers, pipelining.stages()) : counts_of(layers);
  if (static_cast<int>(counts.size()) != pipelining.stages())
    throw DoesNotApply(fmt::format("pipeline: layers={}: {} stages need {} numbers of layers, and '{}' has {} layers",
                                   layers, pipelining.stages(), pipelining.stages(), problem.graph.name,
                                   blocks.layers));
  const Plan one = inner(rank_of(problem.cluster, ranks));
  return plan_of_stages(problem, one, stages_of(blocks, stages_of_layers(blocks, counts)), ranks, pipeline);
}

Pipeline pipeline_of(const std::map<std::string, std::string>& options) {
  const std::string &schedule = options.at("schedule"), &chunks = options.at("virtual");
  const int given = chunks == "auto" ? 0 : std::stoi(chunks);
  if (schedule == "auto") return {given > 1 ? Schedule::kInterleaved : Schedule::k1F1B, std::max(given, 1)};
  const Schedule named = find_schedule(schedule).value();
  return {named, given > 0 ? given : named == Schedule::kInterleaved ? 2 : 1};
}

}  // namespace partita
