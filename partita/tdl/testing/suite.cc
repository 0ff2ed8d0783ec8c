// Runs the strategies of operator instances, and writes their golden text.
#include "partita/tdl/testing/suite.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/rng.h"

namespace partita::tdl::testing {

std::string StrategyRun::line() const {
  return loose.empty() ? text : fmt::format("{}   loose {}", text, fmt::join(loose, ", "));
}

std::vector<StrategyRun> run_strategies(const Instance& instance, int workers) {
  Bound bound = bind(instance);
  std::vector<Array> in = operands(instance, 7);
  std::vector<StrategyRun> runs;
  for (const AxisStrategy& strategy : strategies(bound, workers)) {
    StrategyRun run{strategy, to_string(strategy), "", {}};
    std::optional<Derived> derived = derive(bound, {workers}, {strategy});
    if (!derived) {
      run.wrong = "is listed and not derived";
    } else {
      run.text = to_string(bound, *derived);
      CheckResult result = check(bound, *derived, in, hash_name(instance.name) + runs.size());
      run.wrong = result.wrong;
      for (const Loose& l : result.loose) run.loose.insert(bound.tensors[l.tensor].name);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::string golden_text(const Instance& instance, const std::vector<std::vector<StrategyRun>>& on_2_3_4) {
  std::string text = instance.name + "\n";
  std::vector<std::string> base;
  for (const StrategyRun& run : on_2_3_4[0]) {
    base.push_back(run.line());
    text += fmt::format("    {}\n", run.line());
  }
  for (size_t i = 1; i < on_2_3_4.size(); ++i) {
    std::vector<std::string> gone = base;
    for (const StrategyRun& run : on_2_3_4[i]) {
      auto it = std::find(gone.begin(), gone.end(), run.line());
      if (it == gone.end()) text += fmt::format("    on {}: {}\n", i + 2, run.line());
      else gone.erase(it);
    }
    for (const std::string& line : gone) text += fmt::format("    not on {}: {}\n", i + 2, line);
  }
  return text;
}

}  // namespace partita::tdl::testing
