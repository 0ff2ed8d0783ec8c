// Cuts a model into stages, and places the plan of one stage on the devices of all.
#include "partita/search/pipeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "partita/base/error.h"
#include "partita/cost/alone.h"
#include "partita/graph/parts.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/search/search_text.h"
#include "partita/search/stage_memory.h"
#include "partita/search/stages.h"

namespace partita {

namespace {

// The rank's devices in a mesh of the first rank's.
Mesh on_stage(const Mesh& mesh, const std::vector<DeviceId>& devices, int rank, int each) {
  Mesh out{mesh.extents, {}};
  for (DeviceId d : mesh.devices) out.devices.push_back(devices[static_cast<size_t>(rank * each) + d.index()]);
  return out;
}

std::vector<int64_t> op_times(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  const CostModel cost(cluster);
  DerivationCache cache;
  // Layers repeat: by derived strategies (one for all ops of one formula and sizes), devices and dtypes.
  std::map<std::tuple<const tdl::Derived*, std::vector<DeviceId>, std::vector<DType>>, int64_t> known;
  std::vector<int64_t> ns;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const OpChoice& choice = plan.ops[i];
    const auto derived = cache.get(graph.ops[i].bound, choice.mesh.extents, choice.strategies);
    ensure(derived != nullptr, "op '{}' has no such strategy", graph.ops[i].name);
    std::vector<DType> dtypes;
    for (const std::vector<TensorId>* tensors : {&graph.ops[i].operands, &graph.ops[i].results})
      for (const TensorId t : *tensors) dtypes.push_back(graph.tensor(t).dtype);
    const auto [at, fresh] = known.try_emplace({derived.get(), choice.mesh.devices.list(), std::move(dtypes)}, 0);
    if (fresh) at->second = kernels_ns(cost, graph, graph.ops[i], *derived, choice.mesh);
    ns.push_back(graph.acts(graph.ops[i]) * at->second);
  }
  return ns;
}

// By tensor that no op makes: the stage of its first reader.
std::vector<int> stages_of_sources(const Graph& graph, const std::vector<int>& stage_of_op) {
  std::vector<int> stage(graph.tensors.size(), 0);
  const auto read_by = readers(graph);
  for (size_t t = 0; t < stage.size(); ++t)
    if (!read_by[t].empty()) stage[t] = stage_of_op[read_by[t][0].op.index()];
  return stage;
}

// What neither samples nor weights reach (masks, rotary tables) is made on each rank that reads it, since it is cheaper
// to make than to send.
class EachItsOwn {
 public:
  EachItsOwn(const Graph& graph, const std::vector<int>& stage_of_op, int ranks)
      : graph_(graph), read_by_(readers(graph)), ranks_of_(graph.ops.size()) {
    for (size_t i = 0; i < graph.ops.size(); ++i) ranks_of_[i] = {stage_of_op[i] % ranks};
    for (const Op& op : graph.ops) own_.push_back(op.phase == Phase::kForward && made_of_constants(op));
    for (size_t i = graph.ops.size(); i-- > 0;)  // readers first
      if (own_[i]) {
        ranks_of_[i].clear();
        for (const TensorId t : graph.ops[i].results) ranks_of_[i].merge(readers_of(t));
        if (ranks_of_[i].empty()) ranks_of_[i] = {stage_of_op[i] % ranks};
      }
  }
  // The ranks that an op runs on; those that read a tensor which no op makes.
  const std::set<int>& ranks_of(OpId id) const { return ranks_of_[id.index()]; }
  std::set<int> readers_of(TensorId t) const {
    std::set<int> ranks;
    for (const Reader& r : read_by_[t.index()])
      ranks.insert(ranks_of_[r.op.index()].begin(), ranks_of_[r.op.index()].end());
    return ranks;
  }

 private:
  bool made_of_constants(const Op& op) const {
    return !op.in_parts && std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId t) {
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
Mesh on_ranks(const std::set<int>& ranks, const std::vector<DeviceId>& devices, int each) {
  Mesh out;
  for (const int rank : ranks)
    for (int d = rank * each; d < (rank + 1) * each; ++d) out.devices.push_back(devices[static_cast<size_t>(d)]);
  out.extents = {out.positions()};
  return out;
}

// Whether a run of stretches fits as a chunk of its rank, by an estimate. A rank has several chunks, each a part of its
// memory and of what is in flight. The estimate is up to a tenth below what is planned: so much is left free.
class ChunksFit {
 public:
  ChunksFit(const std::vector<StretchMemory>& memory, const Pipelining& pipelining, int64_t limit)
      : ends_(memory.size() + 1),
        pipelining_(pipelining),
        limit_(std::max<int64_t>(1, limit / 10 * 9 / pipelining.virtual_stages)) {
    runs_.resize(ends_ * ends_);
    for (size_t begin = 0; begin < memory.size(); ++begin)
      for (size_t end = begin + 1; end < ends_; ++end)
        runs_[begin * ends_ + end] =
            end == begin + 1 ? memory[begin] : joined(runs_[begin * ends_ + end - 1], memory[end - 1]);
  }
  // With so many times the memory that there is.
  bool operator()(double times, int chunk, int begin, int end) const {
    const int v = pipelining_.virtual_stages, all = in_flight(pipelining_, chunk % pipelining_.ranks);
    const StretchMemory& run = runs_[static_cast<size_t>(begin) * ends_ + static_cast<size_t>(end)];
    return static_cast<double>(bytes_of(run, (all + v - 1) / v)) <= static_cast<double>(limit_) * times;
  }

 private:
  size_t ends_;
  std::vector<StretchMemory> runs_;  // by begin and end
  Pipelining pipelining_;
  int64_t limit_;
};

// The evenest cut that fits; where none does, the one that comes nearest to it, to a hundredth.
std::vector<int> even_chunks(const std::vector<double>& cost, int chunks, const ChunksFit& fit) {
  const auto cut = [&](double times) {
    return even_parts(cost, chunks, [&](int chunk, int begin, int end) { return fit(times, chunk, begin, end); });
  };
  double fails = 1, works = 1;
  std::vector<int> found;
  while ((found = cut(works)).empty()) fails = works, works *= 2;
  while (works > fails * 1.01) {
    const double middle = (fails + works) / 2;
    if (std::vector<int> nearer = cut(middle); !nearer.empty()) found = std::move(nearer), works = middle;
    else fails = middle;
  }
  return found;
}

// By op: its chunk. Runs of stretches (stages.h) in their order, the longest as short as it can be where all fit;
// `one`: the plan for a rank's devices, `limit`: the memory of the smallest.
std::vector<int> chunks_of(const Graph& graph, const Plan& one, const Cluster& first, const Pipelining& pipelining,
                           int64_t limit) {
  const int chunks = pipelining.chunks();
  Stretches stretches = stretches_of(graph, chunks);
  if (stretches.cuts < chunks)
    throw DoesNotApply(fmt::format(
        "pipeline: '{}' has {} layers, which can be cut into {} parts, fewer than {} stages; choose fewer stages, or a "
        "smaller virtual=V",
        graph.name, stretches.layers, stretches.cuts, chunks));
  const std::vector<int64_t> op_ns = op_times(graph, one, first);
  std::vector<double> cost(static_cast<size_t>(stretches.cuts), 0);
  for (size_t i = 0; i < graph.ops.size(); ++i)
    if (graph.ops[i].phase != Phase::kUpdate)
      cost[static_cast<size_t>(stretches.of_op[i])] += static_cast<double>(op_ns[i]);
  const ChunksFit fit(stretch_memory(graph, one, stretches.of_op, stretches.cuts), pipelining, limit);
  const std::vector<int> chunk = even_chunks(cost, chunks, fit);
  for (int& of : stretches.of_op) of = chunk[static_cast<size_t>(of)];
  return std::move(stretches.of_op);
}

int64_t least_memory(const Cluster& cluster) {
  int64_t least = INT64_MAX;
  for (int d = 0; d < cluster.compute_count; ++d) least = std::min(least, cluster.devices[d].memory_bytes);
  return least;
}

}  // namespace

Plan staged(const Graph& graph, const Plan& inner, const std::vector<int>& stage_of_op, int ranks,
            const Cluster& cluster) {
  const std::vector<DeviceId> devices = slowest_link_first(cluster);
  const int each = static_cast<int>(devices.size()) / ranks;
  Plan plan = inner;
  plan.paper_cost.reset();  // it is of one rank's devices
  plan.order.clear();       // stages take turns
  const EachItsOwn own(graph, stage_of_op, ranks);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    plan.ops[i].stage = stage_of_op[i];
    const std::set<int>& on = own.ranks_of(OpId(i));
    if (on.size() > 1) plan.ops[i] = {on_ranks(on, devices, each), {{}}, stage_of_op[i]};
    else plan.ops[i].mesh = on_stage(plan.ops[i].mesh, devices, *on.begin(), each);
  }
  const std::vector<int> of_source = stages_of_sources(graph, stage_of_op);
  for (auto& [id, placement] : plan.kept) {
    const OpId producer = graph.tensor(id).producer;
    const int stage = producer.valid() ? stage_of_op[producer.index()] : of_source[id.index()];
    const bool constant = graph.tensor(id).role == Role::kConstant;
    if (const std::set<int> on = constant ? own.readers_of(id) : std::set<int>(); on.size() > 1)
      placement = {on_ranks(on, devices, each), {Sbp::broadcast()}, {}};
    else placement.mesh = on_stage(placement.mesh, devices, stage % ranks, each);
  }
  return plan;
}

Plan pinned(Plan plan, const Pins& pins) {
  for (const auto& [id, choice] : pins.ops) plan.ops[id.index()] = choice;
  for (const auto& [id, placement] : pins.kept) plan.kept[id] = placement;
  return plan;
}

Cluster rank_of(const Cluster& cluster, int ranks) {
  Cluster first = parse_cluster(cluster.text, cluster.name, cluster.compute_count / ranks);
  for (Device& d : first.devices) d.memory_bytes = INT64_MAX / 4;
  return first;
}

Plan pipeline_plan(const Graph& graph, const Cluster& cluster, int ranks, const Pipeline& pipeline,
                   const InnerPlan& inner) {
  if (cluster.compute_count % ranks != 0)
    throw DoesNotApply(fmt::format("pipeline: {} stages do not divide {} devices; choose a divisor of {}", ranks,
                                   cluster.compute_count, cluster.compute_count));
  const Pipelining pipelining{pipeline.schedule, ranks, pipeline.virtual_stages, graph.micro_batches()};
  if (const auto why = why_not(pipelining)) throw DoesNotApply("pipeline: " + *why);
  const Cluster first = rank_of(cluster, ranks);
  const Plan one = inner(first);
  const std::vector<int> stage_of_op = chunks_of(graph, one, first, pipelining, least_memory(cluster));
  Plan plan = staged(graph, one, stage_of_op, ranks, cluster);
  if (ranks > 1) plan.pipeline = pipeline;
  return plan;
}

Pipeline pipeline_of(const std::map<std::string, std::string>& options) {
  const std::string &schedule = options.at("schedule"), &chunks = options.at("virtual");
  const int given = chunks == "auto" ? 0 : std::stoi(chunks);
  if (schedule == "auto") return {given > 1 ? Schedule::kInterleaved : Schedule::k1F1B, std::max(given, 1)};
  const Schedule named = find_schedule(schedule).value();
  return {named, given > 0 ? given : named == Schedule::kInterleaved ? 2 : 1};
}

namespace {

// The plan that another search makes for one stage's devices.
InnerPlan by_search(const std::string& name, const Problem& problem, const Budget& budget, Rng& rng) {
  return [&, name](const Cluster& cluster) {
    const SearchChoice choice = parse_search(name);
    const Problem part{
        .graph = problem.graph, .cluster = cluster, .objective = problem.objective, .options = choice.options};
    const SearchResult found = choice.entry->search(part, budget, rng);
    if (!found.plan)
      throw DoesNotApply(fmt::format("pipeline: '{}' has no plan for a stage's devices: {}", name, found.reason));
    return *found.plan;
  };
}

int stages_wanted(const Problem& problem) {
  const std::string& wanted = problem.options.at("stages");
  if (wanted != "most") return std::stoi(wanted);
  const int devices = problem.cluster.compute_count;
  int stages = std::clamp(stretches_of(problem.graph, 1).layers, 1, devices);
  while (devices % stages != 0) --stages;
  return stages;
}

// As many replicas as the inner search makes of a rank's devices, or all of them where it does not say.
Sharing sharing(const Problem& problem) {
  const int stages = stages_wanted(problem);
  Sharing out{.stages = stages};
  if (pipeline_of(problem.options).schedule == Schedule::kInterleaved) out.multiple = stages;
  if (problem.cluster.compute_count % stages) return out;
  const Cluster rank = rank_of(problem.cluster, stages);
  const SearchChoice inner = parse_search(problem.options.at("inner"));
  out.replicas =
      inner.entry->sharing
          ? inner.entry->sharing({.graph = problem.graph, .cluster = rank, .options = inner.options}).replicas
          : rank.compute_count;
  return out;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  const int devices = problem.cluster.compute_count, stages = stages_wanted(problem);
  SearchResult result;
  Plan plan = pipeline_plan(problem.graph, problem.cluster, stages, pipeline_of(problem.options),
                            by_search(problem.options.at("inner"), problem, budget, rng));
  result.plan = pinned(std::move(plan), problem.pins);
  result.counters["stages"] = stages;
  result.notes.push_back(fmt::format("{} stages of {} devices", stages, devices / stages));
  return result;
}

// In bytes a pipeline is always cheap, however long its stages wait.
bool keeps_stages_busy(const Problem& problem, const Budget&) {
  return problem.in_time() && problem.graph.micro_batches() > 1;
}

}  // namespace

SearchEntry pipeline_search() {
  return {
      .name = "pipeline",
      .source = "GPipe; PipeDream-Flush",
      .summary = "stages of whole layers, as even in time as they can be, one behind the other on the micro-batches",
      .options = {{"stages", {"most", "N"}},
                  {"schedule", {"auto", "1f1b", "gpipe", "interleaved"}},
                  {"virtual", {"auto", "N"}},
                  {"inner", {"data-parallel", "megatron", "model-parallel", "soybean", "tofu", "zero", "exact"}}},
      .search = search,
      .begins_auto = {.work = rule_work, .every = {"stages"}, .quick = keeps_stages_busy},
      .sharing = sharing};
}

}  // namespace partita
