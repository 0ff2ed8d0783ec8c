// Runs and checks every derived strategy of an operator instance.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "partita/tdl/testing/check.h"
#include "partita/tdl/testing/instances.h"

namespace partita::tdl::testing {

struct StrategyRun {
  AxisStrategy strategy;
  std::string text;             // to_string(bound, derived)
  std::string wrong;            // empty: right
  std::set<std::string> loose;  // operands whose region is, at some position, larger than the hull of its reads
  // `text`, with "   loose x, w" if there are such operands.
  std::string line() const;
};

// Runs all of strategies(bound, workers), in order, on the instance's own random operands.
std::vector<StrategyRun> run_strategies(const Instance& instance, int workers);

// The golden text of an instance: its strategies on 2 workers, then those that differ on 3 and on 4.
std::string golden_text(const Instance& instance, const std::vector<std::vector<StrategyRun>>& on_2_3_4);

}  // namespace partita::tdl::testing
