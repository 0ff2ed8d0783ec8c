// Every operator instance, every derived strategy, on 2, 3 and 4 workers; the strategies as golden text; and that text
// against the prototype's.
#include "partita/tdl/testing/suite.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/testing/golden.h"

namespace partita::tdl {
namespace {

using testing::Instance;
using testing::instances;
using testing::StrategyRun;

constexpr const char* kOracle = PARTITA_SOURCE_DIR "/tests/golden/tdl_oracle_strategies.txt";
constexpr const char* kDifferences = PARTITA_SOURCE_DIR "/tests/golden/tdl_oracle_differences.txt";

// [instance][0: 2 workers, 1: 3, 2: 4], run once.
const std::vector<std::vector<std::vector<StrategyRun>>>& all_runs() {
  static const auto kRuns = [] {
    std::vector<std::vector<std::vector<StrategyRun>>> runs;
    for (const Instance& instance : instances()) {
      runs.emplace_back();
      for (int p : {2, 3, 4}) runs.back().push_back(testing::run_strategies(instance, p));
    }
    return runs;
  }();
  return kRuns;
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A file of "name" lines and indented lines below each, by name.
std::map<std::string, std::multiset<std::string>> sections(const std::string& path) {
  std::map<std::string, std::multiset<std::string>> result;
  std::istringstream lines(contents(path));
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ') result[name = line];
    else result[name].insert(line.substr(4));
  }
  return result;
}

TEST(Suite, EveryStrategyOfEveryInstanceIsRight) {
  size_t runs = 0, conversions = 0, fetches = 0, partial = 0, sets = 0;
  for (size_t i = 0; i < instances().size(); ++i)
    for (size_t q = 0; q < 3; ++q)
      for (const StrategyRun& run : all_runs()[i][q]) {
        EXPECT_EQ(run.wrong, "") << instances()[i].name << " on " << q + 2 << ": " << run.text << "\n"
                                 << instances()[i].text;
        ++runs;
        conversions += run.text.find("->B") != std::string::npos;
        fetches += run.text.find(":fetch") != std::string::npos;
        partial += !run.strategy.partial.empty();
        sets += run.strategy.names.size() > 1;
      }
  EXPECT_EQ(instances().size(), 93u);
  fmt::print(
      "{} runs of {} instances: {} with inner conversions, {} with inner fetches, {} with partial operands, {} with "
      "two names\n",
      runs, instances().size(), conversions, fetches, partial, sets);
  EXPECT_GT(runs, 1500u);
}

TEST(Suite, StrategiesAreTheGoldenText) {
  std::string text =
      "# Strategies of every operator instance (partita/tdl/testing/instances.txt) as derived: on 2 workers, then what "
      "differs on\n"
      "# 3 and 4. `loose`: operands of which less was read than the region says, because data or a guard decide.\n";
  for (size_t i = 0; i < instances().size(); ++i) text += testing::golden_text(instances()[i], all_runs()[i]);
  EXPECT_EQ(testing::golden_difference("tdl_strategies.txt", text), "");
}

// The difference file has, below an instance's name, "+ line # reason" for a strategy of ours that the prototype has
// not, and "- line # reason" for one that it has and we have not.
TEST(Suite, StrategiesAreThePrototypesButForTheListedDifferences) {
  std::map<std::string, std::multiset<std::string>> oracle = sections(kOracle), listed, found;
  for (const auto& [name, lines] : sections(kDifferences))
    for (const std::string& line : lines) {
      size_t reason = line.find(" # ");
      ASSERT_TRUE(reason != std::string::npos && line.size() > reason + 12)
          << name << ": no reason is given for " << line;
      listed[name].insert(line.substr(0, reason));
    }
  ASSERT_EQ(oracle.size(), 92u);
  size_t same = 0, compared = 0;
  for (size_t i = 0; i < instances().size(); ++i) {
    const std::string& name = instances()[i].name;
    auto section = oracle.find(name);
    if (section == oracle.end()) continue;
    ++compared;
    std::multiset<std::string> rest = section->second;
    for (const StrategyRun& run : all_runs()[i][0]) {
      const AxisStrategy& s = run.strategy;
      // What the prototype did not enumerate: replication, sets of names (its sets.py), partial minima and products.
      if (s.replicate() || s.names.size() > 1) continue;
      if (s.names.empty() && s.reducer != Reducer::kSum && s.reducer != Reducer::kMax) continue;
      auto it = rest.find(run.text);
      if (it != rest.end()) {
        rest.erase(it);
        ++same;
      } else {
        found[name].insert("+ " + run.text);
      }
    }
    for (const std::string& line : rest) found[name].insert("- " + line);
  }
  EXPECT_EQ(compared, oracle.size());
  for (const auto& [name, lines] : found)
    for (const std::string& line : lines) EXPECT_TRUE(listed[name].contains(line)) << name << "\n    " << line;
  for (const auto& [name, lines] : listed)
    for (const std::string& line : lines)
      EXPECT_TRUE(found[name].contains(line)) << name << " no longer differs in\n    " << line;
  fmt::print("{} strategies equal the prototype's\n", same);
}

// Both axes at once: every pair of one-axis strategies, which the product of them must survive or be refused.
int check_pairs(const std::vector<int>& mesh, size_t every) {
  int runs = 0;
  size_t pair = 0;
  for (const Instance& instance : instances()) {
    Bound bound = testing::bind(instance);
    std::vector<Array> in = testing::operands(instance, 7);
    for (const AxisStrategy& a : strategies(bound, mesh[0]))
      for (const AxisStrategy& b : strategies(bound, mesh[1])) {
        if (pair++ % every != 0) continue;
        std::optional<Derived> derived = derive(bound, mesh, {a, b});
        if (!derived) continue;
        EXPECT_EQ(testing::check(bound, *derived, in, pair).wrong, "")
            << instance.name << " " << to_string(a) << " x " << to_string(b) << " on " << mesh[0] << "x" << mesh[1];
        ++runs;
      }
  }
  return runs;
}

TEST(Suite, PairsOfStrategiesOnTwoMeshAxes) { EXPECT_GT(check_pairs({2, 3}, 7), 300); }
TEST(LongSuite, EveryPairOfStrategiesOnTwoMeshAxes) {
  EXPECT_GT(check_pairs({2, 2}, 1), 3000);
  EXPECT_GT(check_pairs({3, 2}, 1), 3000);
}

// Extents shorter than the workers: empty parts.
TEST(Suite, MoreWorkersThanExtents) {
  int runs = 0;
  for (const char* name : {"matmul", "linear", "conv1d", "softmax", "attention guarded", "max pool", "embedding grad",
                           "layer norm", "concat 3", "two-stage same name"}) {
    const Instance& instance = testing::named(name);
    for (int p : {5, 7, 11})
      for (const StrategyRun& run : testing::run_strategies(instance, p)) {
        EXPECT_EQ(run.wrong, "") << name << " on " << p << ": " << run.text;
        ++runs;
      }
  }
  EXPECT_GT(runs, 150);
}

}  // namespace
}  // namespace partita::tdl
