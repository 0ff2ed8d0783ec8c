// Compares `auto` with every other search by the checker's bytes, or by the simulated step: it never costs more,
// within the same memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/cost/isolated_costs.h"
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/plan/resolve.h"
#include "partita/schedule/choose_order.h"
#include "partita/schedule/lower.h"
#include "partita/schedule/representatives.h"
#include "partita/search/all/fastest_rule.h"
#include "partita/search/all/search_text.h"
#include "partita/search/evaluate.h"
#include "partita/search/joint/refine.h"
#include "small_zoo.h"

namespace partita {
namespace {

SearchResult searched(const SearchChoice& choice, const Graph& graph, const Cluster& cluster, const Budget& budget = {},
                      Objective objective = Objective::kComm) {
  Rng rng(1);
  return choice.entry->search({graph, cluster, objective, {}, choice.options}, budget, rng);
}

// Every search that has a plan, with the options that `auto` tries too, and SoyBean even if `auto` leaves it out.
// Device placements are not among them if bytes are compared: they leave devices idle, and move nothing for it.
std::vector<SearchChoice> others(const Problem& problem) {
  std::vector<SearchChoice> all;
  for (const SearchEntry& entry : searches())
    if (entry.name == "soybean" || entry.name == "exact" ||
        (entry.offers.initial.work && (!entry.offers.initial.applies || entry.offers.initial.applies(problem, {}))))
      for (const auto& options : options_for_auto(entry, problem.cluster)) all.push_back({&entry, options});
  return all;
}

// Prints a row: model, cluster, the best of the others and what it moves, `exact`, `auto`, its gap.
void expect_cheapest(const std::string& model, const Graph& graph, const Cluster& cluster) {
  SCOPED_TRACE(fmt::format("{} on {}", model, cluster.name));
  const Problem problem{graph, cluster};
  const SearchResult found = searched(parse_search("auto"), graph, cluster);
  ASSERT_TRUE(found.plan) << found.reason;
  EXPECT_LE(memory_deficit(problem, *found.plan), 0);
  const int64_t moved = check(graph, *found.plan, cluster).comm_bytes;
  EXPECT_LE(found.lower_bound_comm_bytes.value_or(0), moved);
  int64_t exact = -1, least = -1;
  std::string best = "none";
  for (const SearchChoice& choice : others(problem)) {
    const std::string name = text_of(choice);
    SearchResult other;
    try {
      other = searched(choice, graph, cluster);
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ExitCode::kInfeasible) << name << ": " << e.what();
    }
    if (!other.plan || memory_deficit(problem, *other.plan) > 0) continue;
    const int64_t bytes = check(graph, *other.plan, cluster).comm_bytes;
    EXPECT_LE(moved, bytes) << name;
    if (name == "exact") exact = bytes;
    else if (least < 0 || bytes < least) least = bytes, best = name;
  }
  const std::string gap = found.lower_bound_comm_bytes && moved > 0
                              ? fmt::format("{:.2f}%", 100 * (1 - static_cast<double>(*found.lower_bound_comm_bytes) /
                                                                      static_cast<double>(moved)))
                              : "-";
  std::printf(
      "%s\n",
      fmt::format("| {} | {} | {} | {} | {} | {} | {} |", model, cluster.name, best, least, exact, moved, gap).c_str());
  std::fflush(stdout);
}

TEST(ManyAuto, IsNeverDearer) {
  for (const char* model : {"mlp?layers=2,width=24,batch=12", "lenet?batch=8",
                            "transformer?layers=1,hidden=16,heads=2,steps=6,vocabulary=20,batch=8",
                            "rnnlm?steps=2,hidden=8,vocabulary=9,batch=8", "cnn?layers=2,image=6,filters=12,batch=8"})
    for (int devices : {3, 8}) expect_cheapest(model, training(model), load_cluster(fmt::format("local:{}", devices)));
}

// The step in the chosen order (schedule/choose_order.h), if it is of all devices.
int64_t step_ns_of(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  const Representatives all{{}, graph.micro_batches()};
  return choose_order(graph, plan, resolve(graph, plan, cluster), all, cluster).breakdown->step_ns();
}

// Compares its simulated step with those of all others, device placements too.
void expect_fastest(const std::string& model, const Graph& graph, const Cluster& cluster) {
  SCOPED_TRACE(fmt::format("{} on {} of {}", model, cluster.compute_count, cluster.name));
  auto step_ns = [&](const Plan& plan) { return step_ns_of(graph, plan, cluster); };
  const SearchResult found = searched(parse_search("auto"), graph, cluster, {}, Objective::kTime);
  ASSERT_TRUE(found.plan) << found.reason;
  EXPECT_FALSE(found.lower_bound_comm_bytes);
  EXPECT_LE(found.lower_bound_serial_ns.value_or(0), serial_ns(graph, *found.plan, cluster));
  const int64_t mine = step_ns(*found.plan);
  int64_t least = -1;
  std::string best = "none";
  for (const SearchChoice& choice : others({graph, cluster, Objective::kTime})) {
    const std::string name = text_of(choice);
    SearchResult other;
    try {
      other = searched(choice, graph, cluster, {}, Objective::kTime);
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ExitCode::kInfeasible) << name << ": " << e.what();
    }
    if (!other.plan) continue;
    const int64_t ns = step_ns(*other.plan);
    EXPECT_LE(mine, ns) << name;
    if (least < 0 || ns < least) least = ns, best = name;
  }
  std::printf("| %s | %d of %s | %s | %.1f us | %.1f us |\n", model.c_str(), cluster.compute_count,
              cluster.name.c_str(), best.c_str(), static_cast<double>(least) / 1e3, static_cast<double>(mine) / 1e3);
  std::fflush(stdout);
}

TEST(ManyAuto, InTimeIsNeverSlower) {
  for (const char* model : {"mlp?layers=2,width=24,batch=12", "mlp?layers=3,width=2048,batch=64", "lenet?batch=256",
                            "transformer?layers=1,hidden=64,heads=4,steps=16,vocabulary=200,batch=8",
                            "rnnlm?steps=2,hidden=8,vocabulary=9,batch=8"})
    for (int devices : {3, 8}) expect_fastest(model, training(model), load_cluster("p2.8xlarge", devices));
}

// With the same steps: `exact` is among those that it asks.
TEST(ManyAuto, IsNoDearerThanExactWithinTheSameSteps) {
  int64_t steps = 5;
  for (const char* model : {"mlp?layers=2,width=24,batch=12", "mlp?layers=3,width=256,batch=64", "lenet?batch=8",
                            "alexnet?batch=16", "cnn?layers=2,image=6,filters=12,batch=8",
                            "transformer?layers=1,hidden=16,heads=2,steps=6,vocabulary=20,batch=8",
                            "gpt2?layers=1,hidden=24,heads=6,steps=8,vocabulary=50,batch=8",
                            "bert-base?layers=1,hidden=24,heads=4,steps=8,vocabulary=50,batch=8",
                            "rnnlm?steps=2,hidden=8,vocabulary=9,batch=8",
                            "moe?layers=1,hidden=24,steps=5,vocabulary=40,experts=3,groups=4,batch=8"}) {
    const Graph graph = training(model);
    const Cluster cluster = load_cluster("p2.8xlarge", 4);
    for (const Objective objective : {Objective::kComm, Objective::kTime}) {
      auto cost = [&](const Plan& plan) {
        return objective == Objective::kComm ? check(graph, plan, cluster).comm_bytes
                                             : step_ns_of(graph, plan, cluster);
      };
      const SearchResult exact = searched(parse_search("exact"), graph, cluster, {.steps = steps}, objective),
                         found = searched(parse_search("auto"), graph, cluster, {.steps = steps}, objective);
      ASSERT_TRUE(exact.plan && found.plan) << model;
      EXPECT_LE(cost(*found.plan), cost(*exact.plan))
          << model << ", " << text_of(objective) << ", " << steps << " steps";
    }
    steps = 6 - steps;  // 5 and 1 in turn
  }
}

// Each has a plan already, or says that it has none and why; auto and exact keep their initial plan.
TEST(Searches, EndWhereTheirTimeHasPassedAndWhereTheyAreToStop) {
  const Graph graph = training("mlp?layers=2,width=24,batch=12");
  const Cluster cluster = load_cluster("p2.8xlarge", 4);
  const std::atomic<bool> stop = true;
  const Plan divided = *searched(parse_search("data-parallel"), graph, cluster).plan;
  const Plan whole = *searched(parse_search("single"), graph, cluster).plan;
  for (const SearchEntry& entry : searches()) {
    if (entry.estimates) continue;
    const Plan& plan = entry.only_device_placement() ? whole : divided;
    for (const auto& [budget, code] : {std::pair(Budget{.stop = &stop}, ExitCode::kInterrupted),
                                       std::pair(Budget{.seconds = 0}, ExitCode::kTimeLimit),
                                       std::pair(Budget{.deadline = Watch::Clock::now()}, ExitCode::kTimeLimit)})
      for (const Plan* from : {static_cast<const Plan*>(nullptr), &plan}) {
        const Problem problem{.graph = graph,
                              .cluster = cluster,
                              .objective = Objective::kComm,
                              .constraints = {},
                              .options = default_options(entry),
                              .from = from};
        Rng rng(1);
        try {
          const SearchResult found = entry.search(problem, budget, rng);
          EXPECT_TRUE(found.plan) << entry.name;
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), code) << entry.name << ": " << e.what();
          EXPECT_FALSE(from && entry.warm) << entry.name << ": " << e.what();
        }
      }
  }
}

// Interrupted while the joint problem is solved: its plan can't be simulated any more, and is taken if an estimate says
// that it is faster.
TEST(Auto, InTimeKeepsTheJointProblemsPlanThatCameTooLateToBeSimulated) {
  const Graph graph = training("mlp?layers=3,width=2048,batch=64");
  const Cluster cluster = load_cluster("p2.8xlarge", 4);
  std::atomic<bool> stop = false;
  Problem problem{.graph = graph,
                  .cluster = cluster,
                  .objective = Objective::kTime,
                  .constraints = {},
                  .options = default_options(*parse_search("auto").entry)};
  problem.progress = [&](const SearchProgress& p) { stop = stop || p.cost; };
  Rng rng(1);
  const SearchResult found = parse_search("auto").entry->search(problem, {.stop = &stop}, rng);
  ASSERT_TRUE(stop && found.plan);
  const Plan data_parallel = *searched(parse_search("data-parallel"), graph, cluster).plan;
  EXPECT_LT(serial_ns(graph, *found.plan, cluster), serial_ns(graph, data_parallel, cluster));
}

TEST(Auto, InTimeAPlanToBeginWithIsKeptWhereNothingIsFaster) {
  const Graph graph = training("mlp?layers=2,width=24,batch=12");
  const Cluster cluster = load_cluster("p2.8xlarge", 4);
  auto step_ns = [&](const Plan& plan) { return step_ns_of(graph, plan, cluster); };
  const Plan best = *searched(parse_search("auto"), graph, cluster, {}, Objective::kTime).plan;
  for (const char* name : {"auto", "exact"}) {
    const SearchChoice choice = parse_search(name);
    Rng rng(1);
    const Problem problem{.graph = graph,
                          .cluster = cluster,
                          .objective = Objective::kTime,
                          .constraints = {},
                          .options = choice.options,
                          .from = &best};
    const SearchResult warm = choice.entry->search(problem, {.steps = 2}, rng);
    ASSERT_TRUE(warm.plan) << name;
    EXPECT_LE(step_ns(*warm.plan), step_ns(best)) << name;
  }
}

// The zoo, cut down: every model on as many devices.
void expect_cheapest_on_the_zoo(int devices) {
  Cluster cluster = load_cluster(fmt::format("local:{}", devices));
  for (int d = 0; d < devices; ++d) cluster.devices[d].memory_bytes = int64_t{1} << 40;
  for (const SmallModel& small : small_zoo()) expect_cheapest(small.reference, small.training, cluster);
}
TEST(LongZooAuto, IsNeverDearerOn2Devices) { expect_cheapest_on_the_zoo(2); }
TEST(LongZooAuto, IsNeverDearerOn3Devices) { expect_cheapest_on_the_zoo(3); }
TEST(LongZooAuto, IsNeverDearerOn4Devices) { expect_cheapest_on_the_zoo(4); }
TEST(LongZooAuto, IsNeverDearerOn6Devices) { expect_cheapest_on_the_zoo(6); }
TEST(LongZooAuto, IsNeverDearerOn8Devices) { expect_cheapest_on_the_zoo(8); }
TEST(LongZooAuto, IsNeverDearerOn16Devices) { expect_cheapest_on_the_zoo(16); }
TEST(LongZooAuto, IsNeverDearerOn64Devices) { expect_cheapest_on_the_zoo(64); }

// Whole models on the papers' clusters, with the memory that those have, as the papers trained them.
void expect_cheapest_of(const std::vector<std::string>& models, const std::string& cluster) {
  for (const std::string& model : models) expect_cheapest(model, training(model), load_cluster(cluster));
}
std::vector<std::string> of_the_papers(const std::string& wresnet) {
  return {"mlp",          "lenet?batch=256", "cnn",   "alexnet", "vgg-16", "wide-deep", "insightface", "resnet-101",
          "inception-v3", wresnet,           "rnntc", "rnnlm",   "nmt",    "rnn-10-8K", "gpt2"};
}
TEST(LongClustersAuto, IsNeverDearerOnP28xlarge) {
  expect_cheapest_of(of_the_papers("wresnet-152-10?batch=8"), "p2.8xlarge");
}  // 32 samples do not fit
TEST(LongClustersAuto, IsNeverDearerOnDgx1) { expect_cheapest_of(of_the_papers("wresnet-152-10"), "dgx-1"); }
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsP100) {
  expect_cheapest_of(of_the_papers("wresnet-152-10"), "flexflow-p100");
}
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80) {
  expect_cheapest_of(
      {"mlp", "lenet?batch=256", "cnn", "alexnet", "vgg-16", "wide-deep", "rnnlm?steps=10", "gpt2?layers=2"},
      "flexflow-k80");
}
// The larger ones, each by itself.
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithRnntc) { expect_cheapest_of({"rnntc"}, "flexflow-k80"); }
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithRnnlm) { expect_cheapest_of({"rnnlm"}, "flexflow-k80"); }
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithNmt) { expect_cheapest_of({"nmt"}, "flexflow-k80"); }
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithGpt2) { expect_cheapest_of({"gpt2"}, "flexflow-k80"); }
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithInsightFace) {
  expect_cheapest_of({"insightface"}, "flexflow-k80");
}
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithResNet101) { expect_cheapest_of({"resnet-101"}, "flexflow-k80"); }
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithInceptionV3) {
  expect_cheapest_of({"inception-v3"}, "flexflow-k80");
}
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithRnn108K) { expect_cheapest_of({"rnn-10-8K"}, "flexflow-k80"); }
TEST(LongClustersAuto, IsNeverDearerOnFlexFlowsK80WithWResNet15210) {
  expect_cheapest_of({"wresnet-152-10"}, "flexflow-k80");
}

// The place of the first note that begins so.
size_t place(const SearchResult& found, const std::string& begin) {
  const auto at = std::find_if(found.notes.begin(), found.notes.end(),
                               [&](const std::string& note) { return note.starts_with(begin); });
  EXPECT_NE(at, found.notes.end()) << begin;
  return static_cast<size_t>(at - found.notes.begin());
}

// In time the rules come before the joint problem, which a limit may not have time for, and whole layers on devices
// last. In bytes the joint problem is first.
TEST(Auto, AsksRulesFirstInTime) {
  const Graph graph = training("mlp?layers=2,width=24,batch=12");
  const Cluster cluster = load_cluster("p2.8xlarge", 4);
  const SearchResult time = searched(parse_search("auto"), graph, cluster, {}, Objective::kTime),
                     comm = searched(parse_search("auto"), graph, cluster);
  const size_t joint = place(time, "exact: ");
  for (const char* rule : {"data-parallel: ", "zero: ", "zero?stage=3: ", "megatron"})
    EXPECT_LT(place(time, rule), joint);
  EXPECT_LT(place(time, "zero?stage=3: "), place(time, "layer-placement: "));
  EXPECT_LT(place(comm, "exact: "), place(comm, "data-parallel: "));
}

// A plan that needs more memory than there is is marked in the list.
TEST(Auto, SaysWhichPlansDoNotFit) {
  const Graph graph = training("mlp?layers=3,width=256,batch=64");
  Cluster cluster = load_cluster("p2.8xlarge", 4);
  const Plan whole = *searched(parse_search("data-parallel"), graph, cluster).plan;
  const int64_t peak = lower(graph, whole, cluster).peak_bytes[0];
  for (const bool fits : {true, false}) {
    for (Device& d : cluster.devices) d.memory_bytes = fits ? peak : peak / 2;
    const SearchResult found = searched(parse_search("auto"), graph, cluster, {}, Objective::kTime);
    const std::string note = found.notes[place(found, "data-parallel: ")];
    EXPECT_EQ(note.find(" a step, does not fit (") == std::string::npos, fits) << note;
  }
}

// Over slow links a plan of fewer bytes is not always one of less time: the rule that is faster is named.
TEST(Auto, NamesTheFastestRule) {
  const Graph graph = training("mlp?layers=3,width=256,batch=64");
  const Cluster cluster = load_cluster("p2.8xlarge", 4);
  const SearchResult found = searched(parse_search("auto"), graph, cluster);
  ASSERT_TRUE(found.fastest_rule);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const SearchEntry& entry : searches()) {
    if (!entry.rule || !entry.offers.initial.work || entry.offers.initial.applies) continue;
    std::vector<std::map<std::string, std::string>> tried = options_for_auto(entry, cluster);
    for (auto& options : further_options(entry, {graph, cluster})) tried.push_back(std::move(options));
    for (const auto& options : tried) {
      std::optional<Plan> plan;
      try {
        plan = searched({&entry, options}, graph, cluster).plan;
      } catch (const DoesNotApply&) {
        continue;
      }
      const int64_t ns = step_ns_of(graph, *plan, cluster);
      if (text_of(SearchChoice{&entry, options}) == text_of(parse_search(found.fastest_rule->search))) {
        EXPECT_EQ(found.fastest_rule->step_time_ns, ns);
      }
      least = std::min(least, ns);
    }
  }
  const bool all = std::ranges::none_of(
      found.notes, [](const std::string& note) { return note.find("were not simulated") != std::string::npos; });
  if (all) {
    EXPECT_EQ(found.fastest_rule->step_time_ns, least);  // else the machine was slow
  }
  EXPECT_FALSE(searched(parse_search("auto"), graph, cluster, {}, Objective::kTime).fastest_rule);
}

// Rules with options that auto does not begin with are tried too: experts over devices, ZeRO within tensor groups.
TEST(Auto, LooksAtFurtherRules) {
  const Graph graph = training("moe?hidden=24,steps=5,vocabulary=40,experts=8,groups=2,batch=24"),
              plain = training("mlp");
  const Cluster cluster = load_cluster("p2.8xlarge", 4);
  const Problem problem{graph, cluster};
  const auto further = [&](const char* search, const Problem& of) {
    const SearchChoice choice = parse_search(search);
    return std::ranges::count(further_options(*choice.entry, of), choice.options);
  };
  for (const char* search : {"megatron?expert=4", "megatron?expert=2,tensor=2,zero=1", "zero?stage=2,tensor=2"})
    EXPECT_EQ(further(search, problem), 1) << search;
  for (const char* search : {"megatron?tensor=2", "megatron?sequence=1", "zero?stage=2", "data-parallel"})
    EXPECT_EQ(further(search, problem), 0) << search;
  EXPECT_EQ(further("megatron?expert=4", {plain, cluster}), 0);
  EXPECT_EQ(further("megatron?tensor=2,zero=1", {plain, cluster}), 1);

  const Plan plan = *searched(parse_search("megatron?tensor=1,expert=4"), graph, cluster).plan;
  std::vector<std::string> notes;
  const auto look = [&](double seconds) {
    const std::vector<FurtherRule> rules{{"zero?tensor=2", [] { return std::optional<Plan>(); }},
                                         {"megatron?tensor=1,expert=4", [&] { return std::optional(plan); }}};
    return fastest_rule({problem}, rules, {seconds, seconds}, {}, notes);
  };
  const auto found = look(1e9);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->search, "megatron?expert=4,tensor=1");
  EXPECT_EQ(found->step_time_ns, step_ns_of(graph, plan, cluster));
  EXPECT_EQ(notes, std::vector<std::string>{});
  EXPECT_FALSE(look(-1));
  EXPECT_EQ(notes, std::vector<std::string>{"2 of 2 plans of rules were not simulated, whose steps may be shorter: the "
                                            "time for it had passed"});
}

// The least of all plans of 2x2x2, proved by `exact`: one axis after the other does not get there, nor does 4x2.
TEST(Auto, RefinesOnTwoAxesAtATime) {
  const Graph graph = training("mlp?layers=3,width=64,batch=32");
  const Cluster cluster = load_cluster("local:8");
  auto bytes = [&](const SearchResult& found) { return check(graph, *found.plan, cluster).comm_bytes; };
  const SearchResult least = searched(parse_search("exact?axes=3"), graph, cluster);
  ASSERT_EQ(least.lower_bound_comm_bytes, bytes(least));
  EXPECT_LT(bytes(least), bytes(searched(parse_search("exact"), graph, cluster)));
  EXPECT_EQ(bytes(searched(parse_search("auto"), graph, cluster)), bytes(least));
}

TEST(Auto, RefinesThePlansOfOthersAndKeepsPins) {
  const Graph graph = training("mlp?layers=2,width=24,batch=12");
  const Cluster cluster = load_cluster("local:8");
  for (const char* name : {"data-parallel", "tofu", "model-parallel"}) {
    const Plan plan = *searched(parse_search(name), graph, cluster).plan;
    solver::Options solving;
    solving.max_steps = 20;
    const Refinement refined = refine({graph, cluster}, plan, check(graph, plan, cluster).comm_bytes, {}, solving);
    EXPECT_GE(refined.neighbourhoods, 3);
    ASSERT_TRUE(refined.plan) << name;
    EXPECT_EQ(refined.cost, check(graph, *refined.plan, cluster).comm_bytes);
    EXPECT_LT(refined.cost, check(graph, plan, cluster).comm_bytes);

    Problem pinned{graph, cluster};
    for (size_t op = 0; op < graph.ops.size(); op += 2) pinned.constraints.ops[OpId(op)] = plan.ops[op];
    const Refinement within = refine(pinned, plan, check(graph, plan, cluster).comm_bytes, {}, solving);
    if (!within.plan) continue;
    EXPECT_GE(within.cost, refined.cost);
    for (const auto& [op, choice] : pinned.constraints.ops)
      EXPECT_EQ(partita::refined(*within.plan, cluster)->strategies[op.index()],
                partita::refined(plan, cluster)->strategies[op.index()]);
  }
}

}  // namespace
}  // namespace partita
