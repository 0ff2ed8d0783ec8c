// `auto` beside every other search, judged by the checker: never dearer, within the same memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/physical/lower.h"
#include "partita/plan/check.h"
#include "partita/search/refine.h"
#include "partita/search/search.h"
#include "small_zoo.h"

namespace partita {
namespace {

Graph training(const std::string& model) {
  Model built = build_model("zoo:" + model, {}, standard_ops());
  return add_backward(built.graph, built.loss, {"sgd", 0.01, 0.9, 0.0});
}

SearchResult searched(const SearchChoice& choice, const Graph& graph, const Cluster& cluster, const Budget& budget = {}) {
  Rng rng(1);
  return choice.entry->make()->search({graph, cluster, "comm", {}, choice.options}, budget, rng);
}

// Placements leave devices idle, and move nothing for it: bytes do not compare them.
bool divides_work(const SearchEntry& entry) { return entry.begins_auto > 0 || entry.name == "exact"; }

// Every other search, and SoyBean's with all tilings.
std::vector<std::string> others() {
  std::vector<std::string> names = {"soybean?tilings=all"};
  for (const SearchEntry& entry : searches())
    if (divides_work(entry)) names.push_back(entry.name);
  return names;
}

// Of the searches, those that begin `auto`, `exact`, and SoyBean's with all tilings. Prints a row: model, devices, the best of the others and what it moves, `exact`, `auto`, its gap.
void expect_cheapest(const std::string& model, const Graph& graph, const Cluster& cluster) {
  SCOPED_TRACE(fmt::format("{} on {}", model, cluster.name));
  const Problem problem{graph, cluster, "comm", {}, {}};
  const SearchResult found = searched(parse_search("auto"), graph, cluster);
  ASSERT_TRUE(found.plan) << found.reason;
  EXPECT_LE(missing_bytes(problem, *found.plan), 0);
  const int64_t moved = check(graph, *found.plan, cluster).comm_bytes;
  EXPECT_LE(found.lower_bound_comm_bytes.value_or(0), moved);
  int64_t exact = -1, least = -1;
  std::string best = "none";
  for (const std::string& name : others()) {
    SearchResult other;
    try {
      other = searched(parse_search(name), graph, cluster);
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ExitCode::kInfeasible) << name << ": " << e.what();
    }
    if (!other.plan || missing_bytes(problem, *other.plan) > 0) continue;
    const int64_t bytes = check(graph, *other.plan, cluster).comm_bytes;
    EXPECT_LE(moved, bytes) << name;
    if (name == "exact") exact = bytes;
    else if (least < 0 || bytes < least) least = bytes, best = name;
  }
  const std::string gap = found.lower_bound_comm_bytes && moved > 0 ? fmt::format("{:.2f}%", 100 * (1 - static_cast<double>(*found.lower_bound_comm_bytes) / static_cast<double>(moved))) : "-";
  std::printf("%s\n", fmt::format("| {} | {} | {} | {} | {} | {} | {} |", model, cluster.compute_count, best, least, exact, moved, gap).c_str());
  std::fflush(stdout);
}

TEST(ManyAuto, IsNeverDearer) {
  for (const char* model : {"mlp?layers=2,width=24,batch=12", "lenet?batch=8", "transformer?layers=1,hidden=16,heads=2,steps=6,vocabulary=20,batch=8", "rnnlm?steps=2,hidden=8,vocabulary=9,batch=8",
                            "cnn?layers=2,image=6,filters=12,batch=8"})
    for (int devices : {3, 8}) expect_cheapest(model, training(model), load_cluster(fmt::format("local:{}", devices)));
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

TEST(Auto, RefinesThePlansOfOthersAndKeepsPins) {
  const Graph graph = training("mlp?layers=2,width=24,batch=12");
  const Cluster cluster = load_cluster("local:8");
  for (const char* name : {"data-parallel", "tofu", "model-parallel"}) {
    const Plan plan = *searched(parse_search(name), graph, cluster).plan;
    solver::Options solving;
    solving.max_steps = 20;
    const Refinement refined = refine({graph, cluster, "comm", {}, {}}, plan, {}, solving);
    EXPECT_GE(refined.neighbourhoods, 3);
    ASSERT_TRUE(refined.plan) << name;
    EXPECT_EQ(refined.comm_bytes, check(graph, *refined.plan, cluster).comm_bytes);
    EXPECT_LT(refined.comm_bytes, check(graph, plan, cluster).comm_bytes);

    Problem pinned{graph, cluster, "comm", {}, {}};
    for (size_t op = 0; op < graph.ops.size(); op += 2) pinned.pins.ops[OpId(op)] = plan.ops[op];
    const Refinement within = refine(pinned, plan, {}, solving);
    if (!within.plan) continue;
    EXPECT_GE(within.comm_bytes, refined.comm_bytes);
    for (const auto& [op, choice] : pinned.pins.ops)
      EXPECT_EQ(partita::refined(*within.plan, cluster)->strategies[op.index()], partita::refined(plan, cluster)->strategies[op.index()]);
  }
}

}  // namespace
}  // namespace partita
