// Cuts a model into stages by their own devices' time and memory, and compares cuts by the simulated step.
#include "partita/search/pipelines/stage_cuts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/cost/isolated_costs.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/search/pipelines/stage_memory.h"

namespace partita {

RankDevices::RankDevices(const Cluster& cluster, int ranks)
    : devices(slowest_link_first(cluster)), each(static_cast<int>(devices.size()) / ranks) {}

Mesh RankDevices::on(const Mesh& mesh, int rank) const {
  Mesh out{mesh.extents, {}};
  for (DeviceId d : mesh.devices) out.devices.push_back(devices[static_cast<size_t>(rank * each) + d.index()]);
  return out;
}

namespace {

// By op of a plan for one rank: its ns in a step on the devices of this rank.
std::vector<int64_t> op_times(const Graph& graph, const std::vector<ResolvedOp>& ops, const CostModel& cost,
                              const RankDevices& ranks, int rank) {
  // Layers repeat: remembered by derived strategies (one for all ops of one formula and sizes), devices and dtypes.
  std::map<std::tuple<const tdl::Derived*, std::vector<DeviceId>, std::vector<DType>>, int64_t> known;
  std::vector<int64_t> ns;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    std::vector<DType> dtypes;
    for (const std::vector<TensorId>* tensors : {&graph.ops[i].operands, &graph.ops[i].results})
      for (const TensorId t : *tensors) dtypes.push_back(graph.tensor(t).dtype);
    const auto [at, fresh] =
        known.try_emplace({ops[i].derived.get(), ops[i].mesh.devices.list(), std::move(dtypes)}, 0);
    if (fresh) at->second = kernels_ns(cost, graph, graph.ops[i], *ops[i].derived, ranks.on(ops[i].mesh, rank));
    ns.push_back(graph.firings(graph.ops[i]) * at->second);
  }
  return ns;
}

// By rank and layer block: the ns of forward and backward pass in a step. Ranks with devices of the same types share
// them.
std::vector<std::vector<double>> layer_block_times(const Graph& graph, const Plan& one, const Cluster& cluster,
                                                   const LayerBlocks& blocks, int ranks) {
  const CostModel cost(cluster);
  const RankDevices devices(cluster, ranks);
  const std::vector<ResolvedOp> ops = resolve_ops(graph, one);
  std::map<std::vector<std::string>, std::vector<double>> known;  // by types of devices
  std::vector<std::vector<double>> times;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> types;
    for (int d = rank * devices.each; d < (rank + 1) * devices.each; ++d)
      types.push_back(cluster.device(devices.devices[static_cast<size_t>(d)]).model);
    const auto [at, fresh] = known.try_emplace(std::move(types), static_cast<size_t>(blocks.cuts), 0.0);
    if (fresh) {
      const std::vector<int64_t> op_ns = op_times(graph, ops, cost, devices, rank);
      for (size_t i = 0; i < graph.ops.size(); ++i)
        if (graph.ops[i].phase != Phase::kUpdate)
          at->second[static_cast<size_t>(blocks.of_op[i])] += static_cast<double>(op_ns[i]);
    }
    times.push_back(at->second);
  }
  return times;
}

// The estimated memory of runs of layer blocks as a stage of their rank. A rank has several virtual stages, each a part
// of its memory and of its micro-batches in flight. The estimate is up to a tenth below the planner's: so much is left
// free.
class StageNeeds {
 public:
  StageNeeds(const std::vector<LayerBlockMemory>& memory, const Pipelining& pipelining, const Cluster& cluster)
      : ends_(memory.size() + 1), pipelining_(pipelining) {
    const RankDevices ranks(cluster, pipelining.ranks);
    for (int rank = 0; rank < pipelining.ranks; ++rank) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (int d = rank * ranks.each; d < (rank + 1) * ranks.each; ++d)
        least = std::min(least, cluster.device(ranks.devices[static_cast<size_t>(d)]).memory_bytes);
      limits_.push_back(std::max<int64_t>(1, least / 10 * 9 / pipelining.virtual_stages));
    }
    runs_.resize(ends_ * ends_);
    for (size_t begin = 0; begin < memory.size(); ++begin)
      for (size_t end = begin + 1; end < ends_; ++end)
        runs_[begin * ends_ + end] =
            end == begin + 1 ? memory[begin] : join_memory(runs_[begin * ends_ + end - 1], memory[end - 1]);
  }
  // The share of the memory of its rank's smallest device.
  double operator()(int stage, int begin, int end) const {
    const int v = pipelining_.virtual_stages, rank = stage % pipelining_.ranks, all = in_flight(pipelining_, rank);
    const LayerBlockMemory& run = runs_[static_cast<size_t>(begin) * ends_ + static_cast<size_t>(end)];
    return static_cast<double>(bytes_of(run, (all + v - 1) / v)) /
           static_cast<double>(limits_[static_cast<size_t>(rank)]);
  }
  // The share of the stage with the largest.
  double of(const StageCut& cut) const {
    double most = 0;
    for (size_t begin = 0, end = 0; begin < cut.size(); begin = end) {
      while (end < cut.size() && cut[end] == cut[begin]) ++end;
      most = std::max(most, (*this)(cut[begin], static_cast<int>(begin), static_cast<int>(end)));
    }
    return most;
  }

 private:
  size_t ends_;
  std::vector<LayerBlockMemory> runs_;  // by begin and end
  Pipelining pipelining_;
  std::vector<int64_t> limits_;  // by rank
};

}  // namespace

size_t StageCuts::estimated() const {
  const auto fits = std::find_if(cuts.begin(), cuts.end(), [&](const StageCut& cut) { return need(cut) <= 1; });
  return fits == cuts.end() ? cuts.size() - 1 : static_cast<size_t>(fits - cuts.begin());
}

StageCuts stage_cuts(const Graph& graph, const Plan& one, const Cluster& cluster, const Pipelining& pipelining) {
  constexpr double kLess = 1.01;
  const int stages = pipelining.stages();
  StageCuts out{layer_blocks_of(graph, stages), {}, {}};
  if (out.blocks.cuts < stages)
    throw DoesNotApply(fmt::format(
        "pipeline: '{}' has {} layers, which can be cut into {} parts, fewer than {} stages; choose fewer stages, or a "
        "smaller virtual=V",
        graph.name, out.blocks.layers, out.blocks.cuts, stages));
  const auto times = layer_block_times(graph, one, cluster, out.blocks, pipelining.ranks);
  const StageNeeds needs(layer_block_memory(graph, one, out.blocks.of_op, out.blocks.cuts), pipelining, cluster);
  double limit = std::numeric_limits<double>::infinity();
  for (;;) {
    StageCut cut =
        even_parts(times, stages, [&](int stage, int begin, int end) { return needs(stage, begin, end) <= limit; });
    if (cut.empty()) break;
    limit = needs.of(cut) / kLess;
    out.cuts.push_back(std::move(cut));
  }
  out.need = [needs](const StageCut& cut) { return needs.of(cut); };
  return out;
}

std::vector<int> stages_of(const LayerBlocks& blocks, const StageCut& cut) {
  std::vector<int> stage = blocks.of_op;
  for (int& of : stage) of = cut[static_cast<size_t>(of)];
  return stage;
}

namespace {

// By stage but the last, the first layer block behind it.
std::vector<int> ends_of(const StageCut& cut) {
  std::vector<int> ends;
  for (size_t i = 1; i < cut.size(); ++i)
    if (cut[i] != cut[i - 1]) ends.push_back(static_cast<int>(i));
  return ends;
}

// None: a stage would be empty.
std::optional<StageCut> cut_at(const std::vector<int>& ends, int blocks) {
  StageCut cut;
  for (size_t stage = 0; stage <= ends.size(); ++stage) {
    const int end = stage < ends.size() ? ends[stage] : blocks;
    if (end <= static_cast<int>(cut.size()) || end > blocks) return std::nullopt;
    cut.resize(static_cast<size_t>(end), static_cast<int>(stage));
  }
  return cut;
}

// Cuts in which one stage ends a layer block earlier or later. With `apart` another one does too, so many stages behind
// it.
std::vector<StageCut> neighbours(const StageCut& cut, size_t apart = 0) {
  const std::vector<int> ends = ends_of(cut);
  std::vector<StageCut> out;
  for (size_t i = 0; i + apart < ends.size(); ++i)
    for (const auto& [first, second] : {std::pair(1, 1), {-1, -1}, {1, -1}, {-1, 1}}) {
      if (apart == 0 && first != second) continue;
      std::vector<int> moved = ends;
      moved[i] += first;
      if (apart > 0) moved[i + apart] += second;
      if (auto other = cut_at(moved, static_cast<int>(cut.size()))) out.push_back(*std::move(other));
    }
  return out;
}

// All cuts of so many layer blocks; empty if they are more than `most`.
std::vector<StageCut> all_cuts(int blocks, int stages, int64_t most) {
  std::vector<StageCut> out;
  std::vector<int> ends;
  for (int stage = 1; stage < stages; ++stage) ends.push_back(stage);
  for (;;) {
    if (static_cast<int64_t>(out.size()) >= most) return {};
    out.push_back(cut_at(ends, blocks).value());
    size_t i = ends.size();  // the last end that can be later, those behind it as early as can be
    while (i > 0 && ends[i - 1] + static_cast<int>(ends.size() - i) + 1 >= blocks) --i;
    if (i == 0) return out;
    ++ends[i - 1];
    for (; i < ends.size(); ++i) ends[i] = ends[i - 1] + 1;
  }
}

// Cuts that were compared as if memory were plenty.
class Compared {
 public:
  Compared(const CutEffort& effort, const CutEvaluator& evaluator) : effort_(effort), evaluator_(evaluator) {}
  bool full() const { return static_cast<int64_t>(looked_at_.size()) >= effort_.most || effort_.watch.ended(); }
  void add(const StageCut& cut) {
    if (full() || !looked_at_.insert(cut).second) return;
    if (const auto ns = evaluator_.step_ns(cut)) by_step_.push_back({cut, *ns});
    std::stable_sort(by_step_.begin(), by_step_.end(), [](const auto& a, const auto& b) { return a.ns < b.ns; });
  }
  // Looks at the neighbours of the shortest until it is the shortest of them: first at those that differ in one end.
  void climb() {
    for (size_t apart = 0; !by_step_.empty() && !full();) {
      const StageCut last = by_step_[0].cut;
      for (const StageCut& cut : neighbours(last, apart)) add(cut);
      if (last != by_step_[0].cut) apart = 0;
      else if (++apart >= ends_of(last).size()) return;
    }
  }
  struct Step {
    StageCut cut;
    int64_t ns = 0;
  };
  // The shortest first, of equals those that were looked at first.
  const std::vector<Step>& by_step() const { return by_step_; }

 private:
  const CutEffort& effort_;
  const CutEvaluator& evaluator_;
  std::set<StageCut> looked_at_;
  std::vector<Step> by_step_;
};

// Indices of so many cuts, those near `middle` first.
std::vector<size_t> from_the_middle(size_t middle, size_t count) {
  std::vector<size_t> out;
  for (size_t away = 0; out.size() < count; ++away) {
    if (middle + away < count) out.push_back(middle + away);
    if (away > 0 && away <= middle) out.push_back(middle - away);
  }
  return out;
}

}  // namespace

StageCut shortest_cut(const StageCuts& cuts, const CutEffort& effort, const CutEvaluator& evaluator) {
  constexpr int64_t kFew = 3;
  constexpr double kNearly = 0.97;                     // times a compared step is no shorter than this part
  constexpr double kTooMuch = 1.4, kSurelyFits = 0.7;  // of the memory, by the estimate
  const size_t estimated = cuts.estimated();
  const StageCut& by_estimate = cuts.cuts[estimated];
  if (effort.most < kFew || (cuts.cuts.size() == 1 && neighbours(by_estimate).empty())) return by_estimate;
  Compared compared(effort, evaluator);
  for (const size_t i : from_the_middle(estimated, cuts.cuts.size())) compared.add(cuts.cuts[i]);
  for (const StageCut& cut : all_cuts(cuts.blocks.cuts, by_estimate.back() + 1, effort.most)) compared.add(cut);
  compared.climb();
  const auto& by_step = compared.by_step();
  const auto is_far = [&](size_t i, int64_t ns) {
    return i >= by_step.size() || kNearly * static_cast<double>(by_step[i].ns) >= static_cast<double>(ns);
  };
  if (!by_step.empty() && cuts.need(by_step[0].cut) <= kSurelyFits && is_far(1, by_step[0].ns)) return by_step[0].cut;
  std::optional<StageCut> best;
  int64_t best_ns = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; !is_far(i, best_ns); ++i) {
    if (cuts.need(by_step[i].cut) > kTooMuch) continue;
    const auto evaluation = evaluator.evaluated(by_step[i].cut);
    if (!evaluation || !evaluation->fits() || evaluation->cost() >= best_ns) continue;
    best = by_step[i].cut, best_ns = evaluation->cost();
  }
  return best.value_or(by_estimate);
}

}  // namespace partita
