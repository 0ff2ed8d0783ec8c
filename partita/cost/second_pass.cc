// Follows operands through the stages of a kernel, to the place where their statistics meet them again.
#include "partita/cost/second_pass.h"

#include <algorithm>
#include <map>
#include <set>

#include "partita/tdl/products.h"

namespace partita {

namespace {

constexpr double kHeld = 1 << 15;  // elements of a row: 128 KiB of float32

// A tensor's origin: operands, point by point, and statistics, by their extents.
struct Origin {
  std::set<int> operands;
  std::set<std::set<int>> statistics;
};

std::vector<int> shared(const std::set<int>& a, const std::set<int>& b) {
  std::vector<int> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace

SecondPasses second_passes(const tdl::Bound& bound, int first, int last) {
  SecondPasses passes;
  std::map<int, std::set<int>> extents;  // indices of each operand, where it is read
  std::map<int, Origin> origins;
  std::set<std::pair<int, std::set<int>>> known;
  for (int s = first; s < last; ++s) {
    const tdl::Stage& stage = bound.stages[static_cast<size_t>(s)];
    Origin origin;
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
      if (const auto made = origins.find(read.tensor); made != origins.end()) {
        origin.operands.insert(made->second.operands.begin(), made->second.operands.end());
        origin.statistics.insert(made->second.statistics.begin(), made->second.statistics.end());
        return;
      }
      extents[read.tensor].merge(tdl::indices_of(read.subscripts));
      origin.operands.insert(read.tensor);
    });
    const bool reduces = stage.body.kind == tdl::ExprKind::kReduce;
    const std::set<int> over =
        reduces ? std::set<int>(stage.body.reduced.begin(), stage.body.reduced.end()) : std::set<int>();
    for (int operand : origin.operands)
      for (const std::set<int>& statistic : origin.statistics)
        if (const std::vector<int> row = shared(extents[operand], statistic); !row.empty() && statistic != over)
          if (known.insert({operand, statistic}).second)
            passes.operands.push_back({operand, {extents[operand].begin(), extents[operand].end()}, row});
    if (reduces) {
      origin.operands.clear();
      origin.statistics.insert(over);
    }
    origins[stage.tensor] = std::move(origin);
    if (std::find(bound.results.begin(), bound.results.end(), stage.tensor) != bound.results.end()) {
      const std::set<int> result = tdl::indices_of(stage.lhs);
      passes.touched.emplace_back(result.begin(), result.end());
    }
  }
  for (const auto& [operand, indices] : extents) passes.touched.emplace_back(indices.begin(), indices.end());
  return passes;
}

double part_read_again(const SecondPasses& passes, const std::vector<Interval>& ranges) {
  double again = 0, all = 0;
  std::set<int> counted;  // one more pass, whatever it waits for
  for (const SecondPass& pass : passes.operands)
    if (tdl::count_points(pass.reduced, ranges) > kHeld && counted.insert(pass.operand).second)
      again += tdl::count_points(pass.indices, ranges);
  if (again == 0) return 0;
  for (const std::vector<int>& tensor : passes.touched) all += tdl::count_points(tensor, ranges);
  return all > 0 ? again / all : 0;
}

}  // namespace partita
