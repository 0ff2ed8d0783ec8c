// Tests solvers of placement instances against all assignments of tiny ones, and the published instances.
#include "partita/partitioning/solve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>

#include "partita/base/input_file.h"
#include "partita/base/rng.h"
#include "partita/partitioning/branch.h"
#include "partita/partitioning/ideals.h"
#include "partita/partitioning/latency.h"
#include "partita/partitioning/search.h"

namespace partita::partitioning {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Colors, some nodes that accelerators cannot run, memory that often binds, and with `training` backward nodes, some of
// them of the color of a forward node.
Instance random_instance(Rng& rng, int n, bool training) {
  Instance in;
  in.accelerators = static_cast<int>(1 + rng.below(2));
  in.cpus = static_cast<int>(rng.below(3));
  const int forward = training ? n / 2 + 1 : n;
  for (int v = 0; v < n; ++v) {
    Node node;
    node.id = v;
    node.backward = v >= forward;
    node.supported = rng.below(8) > 0;
    node.cpu = static_cast<double>(rng.below(20));
    node.accelerator = static_cast<double>(rng.below(6));
    node.size = static_cast<double>(rng.below(10));
    node.color = in.colors > 0 && rng.below(3) == 0 ? static_cast<int>(rng.below(in.colors)) : in.colors++;
    in.nodes.push_back(node);
    in.order.push_back(v);
  }
  for (int u = 0; u < n; ++u) {
    for (int v = u + 1; v < n; ++v)
      if (rng.below(3) == 0) in.nodes[u].readers.push_back(v), in.nodes[v].reads.push_back(u);
    if (!in.nodes[u].readers.empty()) in.nodes[u].cost = static_cast<double>(rng.below(6));
  }
  in.max_size = static_cast<double>(8 + rng.below(40));
  return in;
}

// The least value of an assignment of each node to one of from .. to-1; `value` is infinite if it is not allowed.
double least_of_all(size_t nodes, int from, int to, const std::function<double(const std::vector<int>&)>& value) {
  std::vector<int> place(nodes, from);
  double least = kInfinity;
  while (true) {
    least = std::min(least, value(place));
    size_t v = 0;
    while (v < nodes && ++place[v] == to) place[v++] = from;
    if (v == nodes) return least;
  }
}

double least_max_load(const Instance& in, bool contiguous) {
  return least_of_all(in.nodes.size(), 0, in.accelerators + in.cpus, [&](const Devices& devices) {
    return wrong_devices(in, devices, contiguous) ? kInfinity : max_load(in, devices);
  });
}
double least_latency(const Instance& in, int q) {
  return least_of_all(in.nodes.size(), kCpu, in.accelerators * q, [&](const Subgraphs& place) {
    return wrong_subgraphs(in, place, q) ? kInfinity : latency_of(in, place, q)->total;
  });
}

TEST(PartitioningSolve, MaxLoadIsThatOfAllAssignments) {
  int infeasible = 0, parted = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const Instance in = random_instance(rng, 6, seed % 2 == 0);
    const double all = least_max_load(in, false), contiguous = least_max_load(in, true);
    parted += all < contiguous;
    for (const bool is_contiguous : {false, true}) {
      Options options;
      options.contiguous = is_contiguous;
      options.steps = 1;
      const Result r = solve_max_load(in, options);
      const double least = is_contiguous ? contiguous : all;
      EXPECT_TRUE(r.proved);
      ASSERT_EQ(r.place.has_value(), least < kInfinity);
      infeasible += !r.place;
      if (!r.place) continue;
      EXPECT_NEAR(r.value, least, 1e-9);
      EXPECT_NEAR(r.bound, least, 1e-9);
      EXPECT_EQ(wrong_devices(in, *r.place, is_contiguous), std::nullopt);
    }
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_GT(parted, 10);
}

// Stages that prove nothing by themselves, each by itself.
TEST(PartitioningSolve, StagesAreSound) {
  int equal = 0, of = 0;
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const Instance in = random_instance(rng, 6, seed % 2 == 0);
    const double least = least_max_load(in, true);
    EXPECT_LE(balance_bound(color_units(in, true)), least * (1 + 1e-12));
    const IdealsResult ideals = best_of_ideals(in, kInfinity, {}, 1'000'000);
    EXPECT_TRUE(ideals.complete);
    const auto order = best_of_order(in, kInfinity, seed, {});
    if (order && ideals.devices) {
      EXPECT_GE(max_load(in, *order), max_load(in, *ideals.devices) * (1 - 1e-12));
    }
    if (ideals.devices) {
      EXPECT_EQ(wrong_devices(in, *ideals.devices, true), std::nullopt);
      EXPECT_GE(max_load(in, *ideals.devices), least - 1e-9);
      equal += max_load(in, *ideals.devices) < least + 1e-9;
      const Units units = color_units(in, true);
      SearchOptions search;
      search.contiguous = true;
      search.moves = 2000;
      const auto split = anneal_split(units, devices_of_units(units, *ideals.devices), search, {});
      EXPECT_EQ(wrong_devices(in, devices_of(units, split), true), std::nullopt);
    }
    of += least < kInfinity;
    if (least == kInfinity) continue;
    // With little to find the tree is searched to its end: there is nothing below the least, and the least just above.
    const Units units = color_units(in, true);
    EXPECT_EQ(branch_and_bound(units, {true, 100'000, least, {}}, {}).split, std::nullopt);
    const BranchResult found = branch_and_bound(units, {true, 100'000, least + 0.5, {}}, {});
    ASSERT_TRUE(found.split);
    EXPECT_NEAR(max_load(in, devices_of(units, *found.split)), least, 1e-9);
    EXPECT_EQ(branch_and_bound(units, {true, 0, least + 0.5, {}}, {}).bound, 0);  // no cuts: nothing is proved
  }
  EXPECT_GT(equal, of / 2);  // most best splits stand in an order, and few have backward classes elsewhere
}

TEST(PartitioningSolve, LatencyIsThatOfAllAssignments) {
  int parted = 0;
  for (uint64_t seed = 2000; seed < 2300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const Instance in = random_instance(rng, seed % 3 == 0 ? 6 : 5, false);
    double one = 0;
    for (const int q : {1, 2}) {
      const double least = least_latency(in, q);
      if (q == 1) one = least;
      parted += least < one;
      EXPECT_LE(path_bound(in, q, {}), least * (1 + 1e-9));
      Options options;
      options.subgraphs = q;
      options.steps = 1;
      const Result r = solve_latency(in, options);
      EXPECT_TRUE(r.proved);
      EXPECT_NEAR(r.value, least, 1e-9);
      const LatencyBranch alone = branch_latency(in, q, kInfinity, 1'000'000, {});
      EXPECT_TRUE(alone.complete);
      EXPECT_NEAR(latency_of(in, *alone.place, q)->total, least, 1e-9);
    }
  }
  EXPECT_GT(parted, 3);
}

TEST(PartitioningSolve, SameSeedSameSplit) {
  Rng rng(7);
  const Instance in = random_instance(rng, 40, false);
  Options options;
  options.steps = 2;
  options.seed = 5;
  EXPECT_EQ(solve_max_load(in, options).place, solve_max_load(in, options).place);
  EXPECT_EQ(solve_latency(in, options).place, solve_latency(in, options).place);
}

// A chain of diamonds. Devices may wait for each other in circles inside one, and none of these splits is better if one
// device can hold a whole diamond.
TEST(PartitioningSolve, AnOrderIsEnough) {
  int enough = 0, of = 0;
  for (uint64_t seed = 3000; seed < 3300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    Instance in;
    in.accelerators = 2;
    in.cpus = static_cast<int>(rng.below(2));
    in.max_size = 100;
    const bool heavy = rng.below(2) == 0;
    for (int v = 0; v < 9; ++v) {
      Node node;
      node.supported = true;
      node.color = in.colors++;
      const bool inside = v % 8 != 0 && v != 5;
      node.accelerator = static_cast<double>(rng.below(inside && !heavy ? 3 : 9));
      node.cpu = node.accelerator * static_cast<double>(1 + rng.below(9));
      node.cost = v == 8 ? 0 : static_cast<double>(rng.below(3));
      in.nodes.push_back(node);
      in.order.push_back(v);
    }
    // 0 -> {1 -> 3, 2 -> 4} -> 5 -> {6, 7} -> 8
    for (const auto& [u, v] :
         {std::pair{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 5}, {5, 6}, {5, 7}, {6, 8}, {7, 8}}) {
      in.nodes[u].readers.push_back(v);
      in.nodes[v].reads.push_back(u);
    }
    const IdealsResult r = best_of_ideals(in, kInfinity, {}, 1'000'000);
    ASSERT_TRUE(r.devices);
    ++of;
    enough += r.enough;
    if (!r.enough) continue;
    EXPECT_NEAR(max_load(in, *r.devices), least_max_load(in, true), 1e-9);
  }
  EXPECT_GT(enough, of / 4);
  EXPECT_LT(enough, of);
}

// An instance of the public set, if it lies beside the repository; values that were published, and bounds.
struct Published {
  const char* file;
  bool latency, contiguous;
  double at_most, bound_at_least;
  int64_t steps;
};
class PartitioningPublished : public ::testing::TestWithParam<Published> {};

TEST_P(PartitioningPublished, IsReached) {
  const Published& p = GetParam();
  const std::string file = std::string(PARTITA_SOURCE_DIR) + "/../shared/data/placement/" + p.file;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there";
  const Instance in = parse_instance(read_file(file), p.file);
  Options options;
  options.contiguous = p.contiguous;
  options.steps = p.steps;
  const Result r = p.latency ? solve_latency(in, options) : solve_max_load(in, options);
  EXPECT_LE(r.value, p.at_most);
  EXPECT_GE(r.bound, p.bound_at_least);
  EXPECT_LE(r.bound, r.value);
}

INSTANTIATE_TEST_SUITE_P(
    All, PartitioningPublished,
    ::testing::Values(Published{"throughput-bert_l-3_training.json", false, true, 65.3031, 65.303, 0},
                      Published{"throughput-bert_l-3_training.json", false, false, 54.2075, 54.207, 1},
                      Published{"throughput-inceptionv3_training.json", false, true, 122.7617, 122.7616, 0},
                      Published{"throughput-inceptionv3_training.json", false, false, 118.12, 116.5, 4},
                      Published{"latency-bert_l-3_inference.json", true, false, 408.6, 408.47, 4},
                      Published{"latency-resnet50_inference.json", true, false, 1156.89, 1156.88, 0}));

}  // namespace
}  // namespace partita::partitioning
