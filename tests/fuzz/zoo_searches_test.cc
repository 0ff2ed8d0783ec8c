// Tests every search on every model of the zoo, cut down.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/base/testing/patterns.h"
#include "partita/graph/factors.h"
#include "partita/physical/passes.h"
#include "partita/plan/check.h"
#include "partita/schedule/lower.h"
#include "partita/search/all/search_text.h"
#include "partita/search/cuts/soybean.h"
#include "partita/search/cuts/tofu.h"
#include "plain_minimum.h"
#include "small_zoo.h"

namespace partita {
namespace {

constexpr int64_t kTable = int64_t{1} << 20;
constexpr double kDirect = 1 << 12;  // entries of a function of all tensors of an op

constexpr int64_t kAmple = int64_t{1} << 60;

Cluster limited(int devices, int64_t memory_bytes) {
  Cluster cluster = load_cluster(fmt::format("local:{}", devices));
  for (int d = 0; d < cluster.compute_count; ++d) cluster.devices[d].memory_bytes = memory_bytes;
  return cluster;
}

SearchResult searched(const std::string& text, const Graph& graph, const Cluster& cluster) {
  const SearchChoice choice = parse_search(text);
  Rng rng(1);
  return choice.entry->search({graph, cluster, Objective::kComm, {}, choice.options}, {}, rng);
}

// ---------------------------------------------------------------- exact

struct MutantCounts {
  int compared = 0, enumerated = 0, proved = 0, in_space = 0;
};

// Up to `count` ops that share tensors, from `first` on.
std::vector<int> window(const Graph& graph, OneAxisPlans& plans, int first, size_t count) {
  std::vector<int> ops{first};
  for (size_t i = 0; i < ops.size(); ++i) {
    const Op& op = graph.ops[ops[i]];
    for (const std::vector<TensorId>* list : {&op.results, &op.operands})
      for (TensorId t : *list)
        for (int other : plans.scope(graph.tensor(t).replaces.valid() ? graph.tensor(t).replaces : t))
          if (ops.size() < count && std::find(ops.begin(), ops.end(), other) == ops.end()) ops.push_back(other);
  }
  std::sort(ops.begin(), ops.end());
  return ops;
}

// No other strategies of a few neighbours move less, with tensors kept as is then cheapest.
void expect_no_better_window(const Graph& graph, OneAxisPlans& plans, std::vector<int> values) {
  const std::vector<int> domains = plans.domains();
  for (int first = 0; first < static_cast<int>(graph.ops.size()); ++first) {
    const std::vector<int> ops = window(graph, plans, first, 3);
    std::set<TensorId> touched;
    for (int i : ops)
      for (const std::vector<TensorId>* list : {&graph.ops[i].results, &graph.ops[i].operands})
        for (TensorId t : *list) touched.insert(graph.tensor(t).replaces.valid() ? graph.tensor(t).replaces : t);
    auto bytes = [&] {
      int64_t sum = 0;
      for (int i : ops) sum += plans.bytes(OpId(i), values[i]);
      for (TensorId t : touched) sum += plans.bytes(t, values);
      return sum;
    };
    const int64_t before = bytes();
    std::vector<int> kept;
    for (int i : ops) kept.push_back(values[i]);
    int64_t least = before;
    for_each_value(domains, ops, [&](const std::vector<int>& at) {
      for (size_t i = 0; i < ops.size(); ++i) values[ops[i]] = at[i];
      least = std::min(least, bytes());
    });
    for (size_t i = 0; i < ops.size(); ++i) values[ops[i]] = kept[i];
    ASSERT_EQ(least, before) << "around op '" << graph.ops[first].name << "'";
  }
}

// Compares `exact` with the least of all plans on a mesh of one axis, if that can be enumerated, and with all plans
// that differ in a few ops; and its bound with all plans that other searches find in its space.
void compare_exact(const SmallModel& small, int devices, MutantCounts& tally) {
  SCOPED_TRACE(fmt::format("{} on {} devices", small.reference, devices));
  const Graph& graph = small.training;
  const Cluster cluster = limited(devices, kAmple);
  OneAxisPlans plans(graph, cluster);
  Rng rng(1);
  for (int i = 0; i < 3; ++i) {  // the sum here equals the checker's count
    std::vector<int> values;
    for (int domain : plans.domains()) values.push_back(static_cast<int>(rng.below(static_cast<uint64_t>(domain))));
    ASSERT_EQ(check(graph, plans.plan(values), cluster).comm_bytes, plans.bytes(values));
  }
  const SearchResult found = searched("exact", graph, cluster);
  ASSERT_TRUE(found.plan) << found.reason;
  const int64_t bytes = check(graph, *found.plan, cluster).comm_bytes;
  const auto bound = found.lower_bound_comm_bytes;
  const bool proved = bound == bytes;
  const auto values = plans.values_of(*found.plan);
  ASSERT_TRUE(values);
  EXPECT_GE(bytes, plans.bytes(*values));
  const std::optional<int64_t> least = plans.least(16 * kTable);
  if (least) {
    EXPECT_EQ(bytes, *least);
    if (bound) {
      EXPECT_LE(*bound, *least);
    }
  } else if (proved) {
    expect_no_better_window(graph, plans, *values);
  }
  for (const SearchEntry& other : searches()) {
    if (other.estimates || other.seconds > 0) continue;
    SCOPED_TRACE(other.name);
    try {
      const SearchResult theirs = searched(other.name, graph, cluster);
      if (!theirs.plan || !plans.values_of(*theirs.plan)) continue;
      ++tally.in_space;
      const int64_t dearer = check(graph, *theirs.plan, cluster).comm_bytes;
      if (bound) {
        EXPECT_LE(*bound, dearer);
      }
      if (proved) {
        EXPECT_LE(bytes, dearer);
      }
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kInfeasible) << e.what();
    }
  }
  std::printf("%s on %d: %zu ops, exact %lld, bound %lld, least %s\n", small.reference.c_str(), devices,
              graph.ops.size(), static_cast<long long>(bytes), static_cast<long long>(bound.value_or(-1)),
              least ? std::to_string(*least).c_str() : "of windows only");
  std::fflush(stdout);
  ++tally.compared;
  tally.enumerated += least.has_value();
  tally.proved += proved;
}

void compare_exact_on(const std::vector<SmallModel>& models) {
  MutantCounts tally;
  for (const SmallModel& small : models)
    for (int devices : {2, 3}) compare_exact(small, devices, tally);
  std::printf("%d compared, %d enumerated, %d proved; %d plans of other searches are in the space\n", tally.compared,
              tally.enumerated, tally.proved, tally.in_space);
  EXPECT_GE(tally.enumerated, tally.compared * 9 / 10);
}

TEST(ZooExact, EqualsTheLeastOfAllPlans) {
  compare_exact_on({small_model("zoo:lenet?batch=6,image=16,channels=2,classes=5"),
                    small_model("zoo:rnntc?batch=6,steps=2,layers=1,hidden=12,vocabulary=9,classes=5"),
                    small_model("zoo:wide-deep?batch=6,vocabulary=9,fields=3,dense=4,embedding=6,layers=1,width=8")});
}
TEST(LongZooExact, EqualsTheLeastOfAllPlans) { compare_exact_on(small_zoo()); }

// ---------------------------------------------------------------- one-cut steps

Layout kept_layout(const Mesh& mesh, Tiling tiling, const std::vector<Shape>& radices) {
  if (tiling == kWhole) return make_layout(mesh, {Sbp::broadcast()}, radices);
  int axis = 0;
  for (; tiling >= static_cast<Tiling>(radices[axis].size()); ++axis)
    tiling -= static_cast<Tiling>(radices[axis].size());
  return make_layout(mesh, {Sbp::split(axis, tiling)}, radices);
}

// The bytes that one cut of all devices moves, by the tilings of all tensors. Given these, every op takes its best
// strategy, counted from layouts. `alike`: an element-wise op may only split its operands and results along the axes on
// which they are kept.
struct CutCosts {
  std::vector<int> domains;  // tilings by tensor, then strategies of ops with many tensors
  std::vector<Factor> factors;
  std::vector<OpId> ops;  // those with a variable of their own
};
CutCosts costs_of_cut(const Cuts& cuts, const OneCut& cut, const Cluster& cluster, bool alike) {
  const Graph& graph = cuts.graph();
  LayoutCosts costs(cluster);
  const std::vector<std::vector<Shape>> radices = factored_radices(graph);
  std::vector<int> domains;
  std::vector<std::vector<int>> kept;  // [tensor][value]
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    domains.push_back(static_cast<int>(cut.tilings[t].size()));
    kept.emplace_back();
    for (const std::vector<Tiling>& tiling : cut.tilings[t])
      kept.back().push_back(costs.number(kept_layout(cuts.mesh(), tiling[0], radices[t])));
  }
  std::vector<Factor> factors;
  std::vector<OpId> own;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    struct Slot {
      int keeper;
      std::vector<std::vector<int64_t>> cost;  // [strategy][tiling]; kNever if it may not be
    };
    std::vector<Slot> slots;
    std::set<TensorId> read;  // a tensor that is read twice is converted once
    auto add = [&](TensorId id, bool result, size_t k) {
      Slot slot{static_cast<int>(cuts.keeper_of(id).index()), {}};
      const bool tied = alike && tdl::is_elementwise(*op.bound) && !graph.tensor(id).shape.empty();
      for (const Aligned& a : cut.ops[i]->aligned) {
        const Layout& layout = (result ? a.layouts.results : a.layouts.operands)[k];
        const int here = costs.number(layout);
        const Tiling own = cuts.tiling_of(cuts.keeper_of(id), layout, (result ? a.results : a.operands)[k][0]);
        slot.cost.emplace_back();
        for (size_t y = 0; y < kept[slot.keeper].size(); ++y) {
          const int kept_layout = kept[slot.keeper][y];
          const bool allowed = !tied || cut.tilings[slot.keeper][y][0] == own;
          slot.cost.back().push_back(allowed ? costs.bytes(result ? here : kept_layout, result ? kept_layout : here,
                                                           bytes_of(graph.tensor(id).dtype))
                                             : kNever);
        }
      }
      slots.push_back(std::move(slot));
    };
    for (size_t k = 0; k < op.operands.size(); ++k)
      if (read.insert(op.operands[k]).second) add(op.operands[k], false, k);
    for (size_t r = 0; r < op.results.size(); ++r) add(op.results[r], true, r);
    std::set<int> scope;
    double entries = 1;
    for (const Slot& slot : slots)
      if (scope.insert(slot.keeper).second) entries *= domains[slot.keeper];
    const int strategies = static_cast<int>(cut.ops[i]->aligned.size());
    if (entries > kDirect) {  // the strategy is a choice of its own
      const int variable = static_cast<int>(domains.size());
      domains.push_back(strategies);
      own.push_back(OpId(i));
      factors.push_back({{variable}, {}});
      for (const Aligned& a : cut.ops[i]->aligned) factors.back().cost.push_back(a.inner_cost);
      for (const Slot& slot : slots) {
        factors.push_back({{slot.keeper, variable}, {}});
        for (int y = 0; y < domains[slot.keeper]; ++y)
          for (int s = 0; s < strategies; ++s) factors.back().cost.push_back(slot.cost[s][y]);
      }
      continue;
    }
    Factor factor{{scope.begin(), scope.end()}, {}};
    for_each_value(domains, factor.scope, [&](const std::vector<int>& at) {
      int64_t least = kNever;
      for (int s = 0; s < strategies; ++s) {
        int64_t cost = cut.ops[i]->aligned[s].inner_cost;
        for (const Slot& slot : slots) {
          const auto place =
              std::lower_bound(factor.scope.begin(), factor.scope.end(), slot.keeper) - factor.scope.begin();
          cost = std::min(kNever, cost + slot.cost[s][static_cast<size_t>(at[static_cast<size_t>(place)])]);
        }
        least = std::min(least, cost);
      }
      factor.cost.push_back(least);
    });
    factors.push_back(std::move(factor));
  }
  return {std::move(domains), std::move(factors), std::move(own)};
}

// No other tilings of a few tensors around an op move less.
void expect_no_better_tilings(const CutCosts& costs, const std::vector<int>& solution) {
  std::vector<std::vector<const Factor*>> of(costs.domains.size());
  for (const Factor& f : costs.factors)
    for (int t : f.scope) of[t].push_back(&f);
  for (const Factor& middle : costs.factors) {
    std::vector<int> window;
    for (int t : middle.scope)
      if (costs.domains[t] > 1 && window.size() < 5) window.push_back(t);
    if (window.empty()) continue;
    std::set<const Factor*> touched;
    for (int t : window) touched.insert(of[t].begin(), of[t].end());
    std::vector<int> values = solution;
    auto cost = [&] {
      int64_t sum = 0;
      for (const Factor* f : touched) {
        size_t at = 0;
        for (int t : f->scope) at = at * static_cast<size_t>(costs.domains[t]) + static_cast<size_t>(values[t]);
        sum = std::min(kNever, sum + f->cost[at]);
      }
      return sum;
    };
    const int64_t before = cost();
    for_each_value(costs.domains, window, [&](const std::vector<int>& at) {
      for (size_t i = 0; i < window.size(); ++i) values[window[i]] = at[i];
      ASSERT_GE(cost(), before);
    });
  }
}

// The programs of SoyBean and of Tofu without coarsening find the least of a cut. If that can't be enumerated, no
// change of a few tilings moves less. Tofu's program with coarsening of element-wise ops finds the least of the plans
// that split these alike.
void compare_steps_on(const std::vector<SmallModel>& models) {
  int enumerated = 0, in_windows = 0, near = 0, alike = 0;
  for (const SmallModel& small : models)
    for (int devices : {2, 3}) {
      const Graph& graph = small.training;
      const Cluster cluster = load_cluster(fmt::format("local:{}", devices));
      const Problem problem{graph, cluster};
      std::vector<std::set<std::string>> paper;
      for (const Op& op : graph.ops) {
        const std::vector<std::string> names = paper_indices(graph, op);
        paper.emplace_back(names.begin(), names.end());
      }
      const std::map<std::string, CutSpace> spaces{
          {"soybean",
           {"soybean",
            [&](OpId op, const tdl::AxisStrategy& s) {
              return s.names.size() == 1 && paper[op.index()].contains(s.names[0]);
            }}},
          {"soybean?tilings=all", {"soybean?tilings=all", [](OpId, const tdl::AxisStrategy&) { return true; }}},
          {"tofu?coarsening=off", tofu_space("tofu")}};
      for (const auto& [text, space] : spaces) {
        SCOPED_TRACE(fmt::format("{} by {} on {} devices", small.reference, text, devices));
        Cuts cuts(problem, space, {devices});
        const OneCut cut = cuts.next(cuts.start());
        const SearchResult found = searched(text, graph, cluster);
        const auto costs = costs_of_cut(cuts, cut, cluster, false);
        const auto least = plain_minimum(costs.domains, costs.factors, kTable);
        const auto solved = eliminate(cut.network, small_table_order(cut.network));
        if (!solved) {  // the program is near the least, and says so
          ++near;
          EXPECT_GE(*found.plan->paper_cost, static_cast<double>(least.value_or(0)));
          continue;
        }
        EXPECT_EQ(*found.plan->paper_cost, static_cast<double>(solved->cost.moved));
        if (least) {
          ++enumerated;
          EXPECT_EQ(solved->cost.moved, *least);
        } else {
          ++in_windows;
          std::vector<int> values(solved->solutions[0].begin(),
                                  solved->solutions[0].begin() + static_cast<std::ptrdiff_t>(graph.tensors.size()));
          for (OpId op : costs.ops) values.push_back(solved->solutions[0][graph.tensors.size() + op.index()]);
          expect_no_better_tilings(costs, values);
        }
        if (!text.starts_with("tofu")) continue;
        const auto tied = costs_of_cut(cuts, cut, cluster, true);
        const auto least_tied = plain_minimum(tied.domains, tied.factors, kTable);
        const Coarsened coarse = coarsen(cuts, cut, {.elementwise = true, .steps = false});
        const auto coarse_solved = eliminate(coarse.network, group_order(coarse, graph.tensors.size()).order);
        if (!least_tied || *least_tied >= kNever || !coarse_solved) continue;
        ++alike;
        EXPECT_EQ(coarse_solved->cost.moved, *least_tied);
      }
      std::fflush(stdout);
    }
  std::printf("%d steps enumerated, %d only changed, %d not solved to the end; %d coarsened\n", enumerated, in_windows,
              near, alike);
  EXPECT_GT(enumerated, 9 * near);
  EXPECT_GT(alike, 0);
}

TEST(ZooOneCut, EqualsTheLeastOfItsSpace) {
  compare_steps_on({small_model("zoo:lenet?batch=6,image=16,channels=2,classes=5"),
                    small_model("zoo:rnntc?batch=6,steps=2,layers=1,hidden=12,vocabulary=9,classes=5")});
}
TEST(LongZooOneCut, EqualsTheLeastOfItsSpace) { compare_steps_on(small_zoo()); }

// ---------------------------------------------------------------- memory

// Every search that makes plans, with every value of every option, one at a time; a count is 2. Meshes are for one
// number of devices.
std::vector<std::string> every_search() {
  std::vector<std::string> texts;
  for (const SearchEntry& entry : searches()) {
    if (entry.estimates || entry.seconds > 0) continue;
    texts.push_back(entry.name);
    for (const auto& [option, values] : entry.options)
      for (const std::string& value : values) {
        const std::string given = value == "N" ? "2" : value;
        if (value != "PxQ" && value != "A-B" && given != values[0])
          texts.push_back(fmt::format("{}?{}={}", entry.name, option, given));
      }
  }
  return texts;
}

// A search's result on devices of so much memory. `late`: its budget ended first.
struct Outcome {
  std::optional<Plan> plan;
  std::string reason;
  bool late = false;
};
Outcome outcome(const std::string& text, const Graph& graph, const Cluster& cluster, const Budget& budget) {
  const SearchChoice choice = parse_search(text);
  Rng rng(1);
  try {
    SearchResult result = choice.entry->search({graph, cluster, Objective::kComm, {}, choice.options}, budget, rng);
    EXPECT_TRUE(result.plan || !result.reason.empty());
    return {std::move(result.plan), result.reason, false};
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == ExitCode::kInfeasible || e.code() == ExitCode::kTimeLimit) << e.what();
    return {std::nullopt, e.what(), e.code() == ExitCode::kTimeLimit};
  }
}

// Tells whether a message says "12 missing" or "12 bytes more than ..".
bool names_missing_bytes(const std::string& message) {
  return has_match(message, "[1-9][0-9.]* (bytes |[kMG]?B )?(missing|more than)");
}

int64_t peak_bytes(const PhysicalGraph& physical) {
  return *std::max_element(physical.peak_bytes.begin(), physical.peak_bytes.begin() + physical.compute_count);
}

struct MemoryTally {
  int plans = 0, fit = 0, none = 0, late = 0;
  std::map<std::string, std::string> reasons;  // of a search without any plan: its first words -> all of them
};

// Tells whether a search asks for the memory: on devices without any it returns no plan.
bool looks_at_memory(const std::string& text) {
  const Graph graph = small_model("zoo:mlp?layers=1,width=12,batch=12").training;
  const Outcome starved = outcome(text, graph, limited(2, 1), {});
  const bool looks = outcome(text, graph, limited(2, kAmple), {}).plan && !starved.plan;
  if (looks) {
    EXPECT_TRUE(names_missing_bytes(starved.reason)) << starved.reason;
  }
  return looks;
}

// Tries one search on devices of ample memory, and of less. Its plan is sound, and fits or is refused with the memory
// deficit. One that looks at the memory returns no plan that does not fit.
void try_search(const std::string& text, bool looks, const Graph& graph, int devices,
                const std::vector<int64_t>& limits, const Budget& budget, MemoryTally& tally) {
  const Outcome free = outcome(text, graph, limited(devices, kAmple), budget);
  if (!free.plan) {
    tally.reasons.try_emplace(fmt::format("{}: {}", text, free.reason.substr(0, 40)), free.reason);
    ++(free.late ? tally.late : tally.none);
    return;
  }
  const std::string printed = print(*free.plan, graph);
  auto lowered = [&](const Plan& plan) {
    const Cluster ample = limited(devices, kAmple);
    check(graph, plan, ample);
    PhysicalGraph physical = lower(graph, plan, ample);
    verify(physical);
    ++tally.plans;
    return physical;
  };
  const PhysicalGraph physical = lowered(*free.plan);
  for (int64_t limit : limits) {
    SCOPED_TRACE(fmt::format("{} bytes a device", limit));
    const Cluster cluster = limited(devices, limit);
    if (looks && devices > 3 && peak_bytes(physical) <= limit) continue;  // asks for nothing else, and takes its time
    if (looks) {
      const Outcome tight = outcome(text, graph, cluster, budget);
      tally.late += tight.late;
      if (tight.late) continue;
      if (!tight.plan) {
        EXPECT_TRUE(names_missing_bytes(tight.reason)) << tight.reason;
        ++tally.none;
        continue;
      }
      const PhysicalGraph fits = print(*tight.plan, graph) == printed ? physical : lowered(*tight.plan);
      EXPECT_LE(peak_bytes(fits), limit);
      EXPECT_NO_THROW(check_capacity(fits, cluster));
      ++tally.fit;
      continue;
    }
    try {
      check_capacity(physical, cluster);
      EXPECT_LE(peak_bytes(physical), limit);
      ++tally.fit;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kInfeasible);
      EXPECT_TRUE(names_missing_bytes(e.what())) << e.what();
      EXPECT_NE(std::string(e.what()).find(fmt::format("({} missing)", peak_bytes(physical) - limit)),
                std::string::npos)
          << e.what();
      ++tally.none;
    }
  }
}

// Limits are fractions of one device's memory for the whole step.
void try_every_search_on(const std::vector<SmallModel>& models, const std::vector<int>& devices, const Budget& budget) {
  MemoryTally tally;
  std::map<std::string, bool> looks;
  for (const std::string& text : every_search()) looks[text] = looks_at_memory(text);
  EXPECT_TRUE(looks.at("exact"));
  for (const SmallModel& small : models) {
    const auto start = std::chrono::steady_clock::now();
    const Cluster one = limited(1, kAmple);
    const double needed =
        static_cast<double>(peak_bytes(lower(small.training, *searched("single", small.training, one).plan, one)));
    for (int d : devices)
      for (const std::string& text : every_search()) {
        SCOPED_TRACE(fmt::format("{} by {} on {} devices", small.reference, text, d));
        const auto began = std::chrono::steady_clock::now();
        auto seconds = [](auto from) {
          return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
        };
        try {
          try_search(
              text, looks.at(text), small.training, d,
              {static_cast<int64_t>(needed), static_cast<int64_t>(0.6 * needed), static_cast<int64_t>(0.3 * needed)},
              budget, tally);
        } catch (const std::exception& e) {
          ADD_FAILURE() << e.what();
        }
        if (seconds(began) > 10)
          std::printf("%s by %s on %d: %.1f s\n", small.reference.c_str(), text.c_str(), d, seconds(began));
        if (d == devices.back() && text == every_search().back())
          std::printf("%s: %zu ops, %.1f s\n", small.reference.c_str(), small.training.ops.size(), seconds(start));
      }
    std::fflush(stdout);
  }
  std::printf("%d plans lowered; with less memory %d fit, %d do not, %d were late\n", tally.plans, tally.fit,
              tally.none, tally.late);
  for (const auto& [key, reason] : tally.reasons) std::printf("%s\n", reason.c_str());
  EXPECT_GT(tally.fit, 0);
  EXPECT_GT(tally.none, 0);
}

TEST(ZooMemory, EverySearchFitsOrSaysWhatIsMissing) {
  try_every_search_on({small_model("zoo:mlp?layers=2,width=12,batch=12")}, {2, 6}, {.steps = 20});
}
// Here copies and scratch take most of the memory: the network counts a quarter of the planner's bytes.
TEST(ZooMemory, ThePlannerHasTheLastWordWhereCopiesTakeMost) {
  const SmallModel small = small_model("zoo:nasnet-mobile?batch=6,cells=1,filters=96,image=32,classes=5");
  const Cluster one = limited(1, kAmple);
  const auto limit = static_cast<int64_t>(
      0.3 * static_cast<double>(peak_bytes(lower(small.training, *searched("single", small.training, one).plan, one))));
  MemoryTally tally;
  try_search("exact", true, small.training, 3, {limit}, {.steps = 20}, tally);
  EXPECT_EQ(tally.fit + tally.none, 1);
}

constexpr Budget kLongBudget{.seconds = 60, .steps = 20};
TEST(LongZooMemory, EverySearchOn2Devices) { try_every_search_on(small_zoo(), {2}, kLongBudget); }
TEST(LongZooMemory, EverySearchOn3Devices) { try_every_search_on(small_zoo(), {3}, kLongBudget); }
TEST(LongZooMemory, EverySearchOn4Devices) { try_every_search_on(small_zoo(), {4}, kLongBudget); }
TEST(LongZooMemory, EverySearchOn6Devices) { try_every_search_on(small_zoo(), {6}, kLongBudget); }
TEST(LongZooMemory, EverySearchOn8Devices) { try_every_search_on(small_zoo(), {8}, kLongBudget); }

// The program's own answer: exit code 4 and the memory deficit.
TEST(ZooMemory, TheProgramSaysWhatIsMissing) {
  const SmallModel small = small_model("zoo:mlp?layers=2,width=12,batch=12");
  for (const std::string& text : every_search()) {
    Request request;
    request.cluster = "local:2";
    request.search = text;
    request.memory_limit_bytes = 100;
    Runner runner;
    try {
      plan_graph(small.model, request, runner);
      ADD_FAILURE() << text << " fits into 100 bytes";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kInfeasible) << text << ": " << e.what();
      const bool refused = text.find("interleaved") != std::string::npos || text.find("virtual") != std::string::npos ||
                           text.find("context") != std::string::npos;
      if (text != "megatron" && !text.starts_with("megatron?") && !refused) {  // no transformer; no micro-batches
        EXPECT_TRUE(names_missing_bytes(e.what())) << text << ": " << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace partita
