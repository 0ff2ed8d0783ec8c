// Prices conversions in a joint problem: in bytes, or in ns if the objective is time.
//
// Worked example: a 4x4 tensor of float32 on two devices, layouts {S(0), B}. ConversionCosts from {0} to {0, 1} knows
// costs(0, 0) = 0 and costs(0, 1) = (p-1) |T| = 64 bytes, an all-gather.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "partita/cost/isolated_costs.h"
#include "partita/plan/resolve.h"

namespace partita {

class JointCosts {
 public:
  JointCosts(const Cluster& cluster, bool in_time);
  // Thread 0 has these costs, thread 1 others with a memory of their own.
  JointCosts& of_thread(int thread);
  bool in_time() const { return times_.has_value(); }
  ConversionTimes& times() { return *times_; }
  // From each of `from` to each of `to`, places in `layouts`: row-major.
  std::vector<int64_t> table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                             const std::vector<int>& to, int64_t element_bytes);
  // Returns the cost of a strategy's own inner conversions.
  int64_t inner(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element_bytes);

 private:
  const Cluster& cluster_;
  Converter converter_;
  std::optional<ConversionTimes> times_;
  std::unique_ptr<JointCosts> other_;
};

// Returns two if a graph's tables may take long to make on a mesh, else one.
int joint_threads(const Graph& graph, const Mesh& mesh);

// Conversions between some layouts of a list.
class ConversionCosts {
 public:
  // Prices conversions from each of `from` to each of `to`, places in the list, in any order and any number of times. A
  // step makes each `firings` times.
  ConversionCosts(JointCosts& costs, const std::vector<Layout>& layouts, const std::vector<int>& from,
                  const std::vector<int>& to, int64_t element_bytes, int firings);
  int64_t operator()(int from, int to) const { return table_[row_[from] * columns_ + column_[to]]; }

 private:
  std::vector<size_t> row_, column_;
  size_t columns_ = 0;
  std::vector<int64_t> table_;
};

}  // namespace partita
