// Tests `exact` against brute force over plans, against the other searches, and under a memory limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>
#include <string_view>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/base/testing/patterns.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/graph/micro_batches.h"
#include "partita/models/testing/training.h"
#include "partita/ops/ops.h"
#include "partita/plan/check.h"
#include "partita/schedule/lower.h"
#include "partita/search/all/search_text.h"
#include "partita/search/joint/bound_proof.h"
#include "plain_serial.h"

namespace partita {
namespace {

SearchResult searched(const std::string& name, const Graph& graph, const Cluster& cluster, const Budget& budget = {},
                      Objective objective = Objective::kComm) {
  const SearchChoice choice = parse_search(name);
  const Problem problem{graph, cluster, objective, {}, choice.options};
  Rng rng(1);
  return choice.entry->search(problem, budget, rng);
}

// A few products of one or two inputs, element-wise functions and sums of earlier tensors, on extents that do not all
// divide.
Graph random_graph(Rng& rng, int ops = 3) {
  GraphBuilder b("random", standard_ops());
  const int64_t batch = rng.between(2, 5);
  auto extent = [&] { return rng.between(2, 6); };
  std::vector<TensorId> values = {b.input("x", {batch, extent()})};
  for (int i = 0; i < ops; ++i) {
    const TensorId x = values[rng.below(values.size())];
    switch (rng.below(3)) {
      case 0:
        values.push_back(b.op("matmul", {x, b.parameter(fmt::format("w{}", i), {b.shape(x)[1], extent()})}));
        break;
      case 1:
        values.push_back(b.op("tanh", {x}));
        break;
      default:
        values.push_back(b.op("mul", {x, x}));
    }
  }
  return b.finish({values.back()});
}

// Every strategy that divides an op's work, and element-wise ones that pass partial values on; `replicate` if no other
// is left, or always.
std::vector<tdl::AxisStrategy> strategies_of(const Op& op, int p, bool also_replicated) {
  std::vector<tdl::AxisStrategy> dividing, passing, whole;
  for (const tdl::AxisStrategy& s : tdl::strategies(*op.bound, p)) {
    bool fits = tdl::derive(*op.bound, {p}, {s}).has_value();
    for (const std::string& name : s.names) fits &= op.bound->indices[op.bound->find_index(name)].extent >= p;
    if (!fits) continue;
    if (!s.names.empty()) dividing.push_back(s);
    else if (s.partial.empty()) whole.push_back(s);
    else if (tdl::is_elementwise(*op.bound)) passing.push_back(s);
  }
  if (dividing.empty() || also_replicated) dividing.insert(dividing.end(), whole.begin(), whole.end());
  dividing.insert(dividing.end(), passing.begin(), passing.end());
  return dividing;
}

// The least cost of all plans: every strategy of every op, every tensor that is read kept in every way.
template <typename CostOf>
auto least_cost(const Graph& graph, const Cluster& cluster, bool also_replicated, const CostOf& cost_of) {
  const int p = cluster.compute_count;
  Mesh mesh{{p}, slowest_link_first(cluster)};
  std::vector<std::vector<OpChoice>> ops;
  for (const Op& op : graph.ops) {
    ops.emplace_back();
    for (const tdl::AxisStrategy& s : strategies_of(op, p, also_replicated)) ops.back().push_back({mesh, {s}});
  }
  std::vector<std::pair<TensorId, std::vector<std::optional<Placement>>>> kept;
  const auto read_by = readers_by_tensor(graph);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (read_by[t].empty() && tensor.producer.valid()) continue;
    std::vector<std::optional<Placement>> ways;
    if (tensor.producer.valid()) ways.push_back(std::nullopt);
    ways.push_back(Placement{mesh, {Sbp::broadcast()}, {}});
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
      if (tensor.shape[axis] >= p) ways.push_back(Placement{mesh, {Sbp::split(static_cast<int>(axis))}, {}});
    kept.emplace_back(TensorId(t), std::move(ways));
  }
  std::vector<size_t> at(ops.size() + kept.size(), 0);
  auto best = std::numeric_limits<decltype(cost_of(Plan()))>::max();
  for (;;) {
    Plan plan;
    for (size_t i = 0; i < ops.size(); ++i) plan.ops.push_back(ops[i][at[i]]);
    for (size_t k = 0; k < kept.size(); ++k)
      if (const auto& placement = kept[k].second[at[ops.size() + k]]) plan.kept[kept[k].first] = *placement;
    best = std::min(best, cost_of(plan));
    size_t a = at.size();
    while (a > 0 && ++at[a - 1] == (a <= ops.size() ? ops[a - 1].size() : kept[a - 1 - ops.size()].second.size()))
      at[--a] = 0;
    if (a == 0) return best;
  }
}

TEST(Exact, EqualsBruteForceOverPlans) {
  constexpr uint64_t kSeed = 5;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (int i = 0; i < 8; ++i) {
    const Graph graph = random_graph(rng);
    const Cluster cluster = load_cluster(fmt::format("local:{}", 2 + i % 2));
    SCOPED_TRACE(print(graph));
    const SearchResult found = searched("exact", graph, cluster);
    ASSERT_TRUE(found.plan);
    const int64_t bytes = check(graph, *found.plan, cluster).comm_bytes;
    EXPECT_EQ(bytes, least_cost(graph, cluster, false,
                                [&](const Plan& plan) { return check(graph, plan, cluster).comm_bytes; }));
    ASSERT_TRUE(found.lower_bound_comm_bytes);
    EXPECT_EQ(*found.lower_bound_comm_bytes, bytes);
  }
}

// With micro-batches, bytes that each of them moves count for each: the least that moves in a step, not in a
// micro-batch.
TEST(Exact, OfABatchInPartsIsNoDearerThanOthers) {
  constexpr uint64_t kSeed = 7;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  int looked_at = 0;
  for (int i = 0; i < 12; ++i) {
    GraphBuilder b("random", standard_ops());
    const TensorId x = b.input("x", {rng.between(4, 6), rng.between(2, 6)});
    const TensorId w = b.parameter("w", {b.shape(x)[1], rng.between(2, 6)});
    const Graph step = add_backward(b.finish({b.op("matmul", {x, w})}), {.kind = "mse"}, {});
    const Graph graph = in_micro_batches(step, 2);
    const Cluster cluster = load_cluster("local:2");
    const SearchResult found = searched("exact", graph, cluster);
    ASSERT_TRUE(found.plan);
    const int64_t bytes = check(graph, *found.plan, cluster).comm_bytes;
    ASSERT_TRUE(found.lower_bound_comm_bytes);
    EXPECT_EQ(*found.lower_bound_comm_bytes, bytes);
    for (const char* other : {"data-parallel", "model-parallel", "soybean", "tofu"}) {
      const SearchResult plan = searched(other, graph, cluster);
      EXPECT_LE(bytes, check(graph, *plan.plan, cluster).comm_bytes) << other << print(graph);
      ++looked_at;
    }
  }
  EXPECT_EQ(looked_at, 48);
}

// In time: the isolated costs, summed up in another way.
TEST(Exact, InTimeEqualsBruteForceOverPlans) {
  constexpr uint64_t kSeed = 6;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (int i = 0; i < 10; ++i) {
    const Graph graph = random_graph(rng, i < 8 ? 2 : 3);
    Cluster cluster = load_cluster("p2.8xlarge", 2 + i % 2);
    if (i % 4 > 1)  // so that bytes count, not only latencies
      for (Link& l : cluster.links) l.bandwidth_bytes_per_s = 1e6;
    SCOPED_TRACE(print(graph));
    const SearchResult found = searched("exact", graph, cluster, {}, Objective::kTime);
    ASSERT_TRUE(found.plan);
    PlainSerial serial(graph, cluster);
    const double least = least_cost(graph, cluster, true, [&](const Plan&plan) { return serial.ns(plan); }),
                 slack = 10;  // costs are whole ns
    EXPECT_NEAR(serial.ns(*found.plan), least, slack);
    EXPECT_NEAR(static_cast<double>(serial_ns(graph, *found.plan, cluster)), least, slack);
    EXPECT_FALSE(found.lower_bound_comm_bytes);
    ASSERT_TRUE(found.lower_bound_serial_ns);
    EXPECT_NEAR(static_cast<double>(*found.lower_bound_serial_ns), least, slack);
  }
}

TEST(ManyExact, IsNoDearerThanAnyOtherSearchThatDividesTheWork) {
  for (const char* model : {"mlp?layers=3,width=48,batch=24", "lenet?batch=12",
                            "transformer?layers=1,hidden=24,heads=2,steps=6,vocabulary=30,batch=6"}) {
    const Graph graph = training(model);
    for (int devices : {2, 3, 4}) {
      const Cluster cluster = load_cluster(fmt::format("local:{}", devices));
      SCOPED_TRACE(fmt::format("{} on {}", model, devices));
      const SearchResult found = searched("exact", graph, cluster, {.steps = 60});
      ASSERT_TRUE(found.plan);
      const int64_t bytes = check(graph, *found.plan, cluster).comm_bytes;
      EXPECT_LE(found.lower_bound_comm_bytes.value(), bytes);
      std::printf("%s on %d: exact %lld, bound %lld", model, devices, static_cast<long long>(bytes),
                  static_cast<long long>(found.lower_bound_comm_bytes.value_or(-1)));
      for (const SearchEntry& other : searches()) {
        if (other.name == "exact" || other.name == "single" || other.name == "layer-placement" ||
            other.name == "pipeline")
          continue;                                             // these divide no work
        if (other.estimates || other.name == "auto") continue;  // have no plan; begins with exact's own
        if (other.measure == Objective::kTime) continue;        // leave devices without work
        if (other.seconds > 0) continue;                        // a minute each
        if (other.name == "megatron") continue;  // each device of a group does the work that the group cannot split
        const SearchResult theirs = searched(other.name, graph, cluster);
        if (!theirs.plan) continue;
        const int64_t dearer = check(graph, *theirs.plan, cluster).comm_bytes;
        std::printf(", %s %lld", other.name.c_str(), static_cast<long long>(dearer));
        EXPECT_LE(bytes, dearer) << other.name;
      }
      std::printf("\n");
    }
  }
}

int64_t peak(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  const PhysicalGraph physical = lower(graph, plan, cluster);
  return *std::max_element(physical.peak_bytes.begin(), physical.peak_bytes.begin() + cluster.compute_count);
}

TEST(Exact, KeepsWithinTheMemoryOrSaysThatNothingFits) {
  const Graph graph = training("mlp?layers=4,width=64,batch=32");
  for (const Objective objective : {Objective::kComm, Objective::kTime}) {
    SCOPED_TRACE(text_of(objective));
    Cluster cluster = load_cluster("local:4");
    auto cost = [&](const Plan& plan) {
      return objective == Objective::kTime ? serial_ns(graph, plan, cluster) : check(graph, plan, cluster).comm_bytes;
    };
    const SearchResult free = searched("exact", graph, cluster, {}, objective);
    ASSERT_TRUE(free.plan);
    const int64_t needed = peak(graph, *free.plan, cluster), least = cost(*free.plan);
    for (double share : {0.95, 0.8}) {
      for (int d = 0; d < cluster.compute_count; ++d)
        cluster.devices[d].memory_bytes = static_cast<int64_t>(share * static_cast<double>(needed));
      const SearchResult tight = searched("exact", graph, cluster, {.steps = 100}, objective);
      std::printf("%s, %.0f%% of %lld bytes: %s\n", text_of(objective).c_str(), 100 * share,
                  static_cast<long long>(needed), tight.plan ? "fits" : tight.reason.c_str());
      if (!tight.plan) continue;
      EXPECT_LE(peak(graph, *tight.plan, cluster), cluster.devices[0].memory_bytes);
      EXPECT_GE(cost(*tight.plan), least);
    }
    for (int d = 0; d < cluster.compute_count; ++d) cluster.devices[d].memory_bytes = needed / 20;
    const SearchResult none = searched("exact", graph, cluster, {}, objective);
    EXPECT_FALSE(none.plan);
    EXPECT_TRUE(has_match(none.reason, "needs [0-9.]+ [kMG]?B on one device, [0-9.]+ [kMG]?B more than it has"))
        << none.reason;
  }
}

// Equal layers, which are folded. The memory of the plan that is being proved is planned meanwhile.
TEST(Exact, ProvesWithinTheMemory) {
  const Graph graph = training("mlp?layers=16,width=64,batch=32");
  Cluster cluster = load_cluster("local:4");
  const SearchChoice choice = parse_search("exact");
  int64_t needed = 0, before = 0;
  for (const double share : {1.0, 0.97, 0.93}) {
    SCOPED_TRACE(share);
    if (needed > 0)
      for (int d = 0; d < cluster.compute_count; ++d)
        cluster.devices[d].memory_bytes = static_cast<int64_t>(share * static_cast<double>(needed));
    Problem problem{graph, cluster, Objective::kComm, {}, choice.options};
    problem.prove = true;
    Rng rng(1);
    const SearchResult found = choice.entry->search(problem, {.steps = 100}, rng);
    ASSERT_TRUE(found.plan) << found.reason;
    const int64_t bytes = check(graph, *found.plan, cluster).comm_bytes;
    if (needed > 0) EXPECT_LE(peak(graph, *found.plan, cluster), cluster.devices[0].memory_bytes);
    else needed = peak(graph, *found.plan, cluster);
    ASSERT_TRUE(found.proof);
    EXPECT_LE(check_proof(*found.proof, graph, cluster, *found.plan), bytes);
    EXPECT_GE(bytes, before);
    before = bytes;
  }
}

// If not all weights fit whole, it keeps shards, and gathers some once more for the backward pass.
TEST(Exact, UnderATightLimitFetchesAgain) {
  const Graph graph = training("mlp?layers=8,width=256,batch=512", {});
  Cluster cluster = load_cluster("local:4");
  int64_t before = 0;
  bool again = false;
  for (const int64_t limit : {int64_t{6'000'000}, int64_t{4'000'000}, int64_t{3'750'000}}) {
    for (int d = 0; d < cluster.compute_count; ++d) cluster.devices[d].memory_bytes = limit;
    const SearchResult found = searched("exact", graph, cluster);
    ASSERT_TRUE(found.plan) << limit << ": " << found.reason;
    EXPECT_LE(peak(graph, *found.plan, cluster), limit);
    const int64_t bytes = check(graph, *found.plan, cluster).comm_bytes;
    EXPECT_LE(found.lower_bound_comm_bytes.value(), bytes);
    EXPECT_GE(bytes, before);  // less memory is not for less
    before = bytes;
    if (found.plan->resharded.empty()) continue;
    again = true;
    Plan once = *found.plan;
    once.resharded.clear();
    EXPECT_GT(peak(graph, once, cluster), limit);  // that is what it is for
  }
  EXPECT_TRUE(again);
}

TEST(Exact, IsNeverDearerThanThePlanItBeganWith) {
  const Graph graph = training("mlp?layers=2,width=20,batch=24");
  const Cluster cluster = load_cluster("local:8");
  const std::atomic<bool> stop = true;
  for (const SearchEntry& entry : searches()) {
    if (entry.seconds > 0) continue;  // a minute each
    SearchResult begun;
    try {
      begun = searched(entry.name, graph, cluster);
    } catch (const Error&) {
    }
    if (!begun.plan) continue;  // it has none for this model
    SCOPED_TRACE(entry.name);
    const int64_t bytes = check(graph, *begun.plan, cluster).comm_bytes;
    const SearchChoice choice = parse_search("exact");
    const Problem problem{
        .graph = graph, .cluster = cluster, .constraints = {}, .options = choice.options, .from = &*begun.plan};
    for (const Budget& budget : {Budget{.steps = 1}, Budget{.stop = &stop}}) {
      Rng rng(1);
      const SearchResult warm = choice.entry->search(problem, budget, rng);
      ASSERT_TRUE(warm.plan);
      EXPECT_LE(check(graph, *warm.plan, cluster).comm_bytes, bytes);
      EXPECT_LE(warm.lower_bound_comm_bytes.value_or(0), bytes);
    }
  }
}

TEST(Exact, PlansOverTheMeshThatIsGiven) {
  const Graph graph = training("mlp?layers=2,width=20,batch=24");
  const Cluster cluster = load_cluster("local:8");
  for (const std::vector<int>& extents : {std::vector<int>{8}, {2, 4}, {4, 2}, {2, 2, 2}}) {
    const std::string text = fmt::format("exact?mesh={}", fmt::join(extents, "x"));
    SCOPED_TRACE(text);
    EXPECT_EQ(text_of(parse_search(text)), text);
    const SearchResult found = searched(text, graph, cluster);
    ASSERT_TRUE(found.plan);
    for (const OpChoice& choice : found.plan->ops) EXPECT_EQ(choice.mesh, (Mesh{extents, slowest_link_first(cluster)}));
    EXPECT_LE(found.lower_bound_comm_bytes.value(), check(graph, *found.plan, cluster).comm_bytes);
  }
  EXPECT_EQ(searched("exact?mesh=4x2", graph, cluster).lower_bound_comm_bytes,
            searched("exact", graph, cluster).lower_bound_comm_bytes);
  auto message = [&](const std::string& text) -> std::string {
    try {
      searched(text, graph, cluster);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("exact?mesh=2x8"), "exact: mesh 2x8 is of 16 devices, cluster 'local:8' has 8");
  EXPECT_EQ(message("exact?mesh=999999x999999"),
            "exact: mesh 999999x999999 is of 999998000001 devices, cluster 'local:8' has 8");
  EXPECT_EQ(message("exact?mesh=1x8"), "exact: mesh 1x8 has an axis of 1; leave it out");
  EXPECT_EQ(message("exact?mesh=4x2,axes=3"), "exact: a mesh has its own number of axes; give axes or mesh");
  for (const char* bad : {"", "x", "4x", "x2", "4x-2", "4x0", "4xx2", "PxQ", "4*2", "4X2"})
    EXPECT_EQ(message(fmt::format("exact?mesh={}", bad)),
              fmt::format("search 'exact': option 'mesh' is axes or a mesh's extents, such as 2x4, not '{}'", bad));
}

TEST(Exact, StoppedItKeepsTheBestSoFar) {
  const Graph graph = training("rnnlm?steps=8,hidden=32,vocabulary=100,batch=32");
  const Cluster cluster = load_cluster("local:8");
  std::atomic<bool> stop = false;
  std::optional<SearchProgress> last;
  const SearchChoice choice = parse_search("exact");
  const Problem problem{
      graph, cluster, Objective::kComm, {}, choice.options, nullptr, false, [&](const SearchProgress& p) {
        last = p;
        stop = p.cost && p.bound;
      }};
  Rng rng(1);
  const SearchResult best = choice.entry->search(problem, {.stop = &stop}, rng);
  ASSERT_TRUE(best.plan && last && last->cost && last->bound && best.lower_bound_comm_bytes);
  const int64_t bytes = check(graph, *best.plan, cluster).comm_bytes;
  std::printf("stopped at %lld, bound %lld\n", static_cast<long long>(bytes),
              static_cast<long long>(*best.lower_bound_comm_bytes));
  EXPECT_LE(bytes, *last->cost);
  EXPECT_GE(*best.lower_bound_comm_bytes, *last->bound);
  EXPECT_LT(*best.lower_bound_comm_bytes, bytes) << "it had ended by itself";
}

TEST(EverySearchOfCutsAndExact, StoppedBeforeAnyPlanIsInterrupted) {
  const Graph graph = training("mlp?layers=2,width=12,batch=10");
  const Cluster cluster = load_cluster("local:4");
  const std::atomic<bool> stop = true;
  for (const char* name : {"auto", "exact", "soybean", "tofu", "icml18", "allrow-greedy", "spartan", "equal-chop"})
    try {
      searched(name, graph, cluster, {.stop = &stop});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInterrupted) << error.what();
    }
}

}  // namespace
}  // namespace partita
