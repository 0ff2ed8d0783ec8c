// Computes bytes or ns of conversions, for the phases of a joint problem.
#include "partita/search/joint/conversion_costs.h"

#include <set>

#include "partita/search/joint/limits.h"

namespace partita {

JointCosts::JointCosts(const Cluster& cluster, bool in_time) : cluster_(cluster), converter_(cluster) {
  if (in_time) times_.emplace(cluster);
}

JointCosts& JointCosts::of_thread(int thread) {
  if (thread == 0) return *this;
  if (!other_) other_ = std::make_unique<JointCosts>(cluster_, in_time());
  return *other_;
}

std::vector<int64_t> JointCosts::table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                                       const std::vector<int>& to, int64_t element_bytes) {
  return times_ ? times_->table(layouts, from, to, element_bytes) : converter_.table(layouts, from, to, element_bytes);
}

int64_t JointCosts::inner(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                          int64_t element_bytes) {
  return times_ ? times_->inner_ns(bound, derived, mesh, element_bytes)
                : converter_.inner_bytes(bound, derived, mesh, element_bytes);
}

std::shared_ptr<JointCosts> joint_costs(const Problem& problem) {
  return std::make_shared<JointCosts>(problem.cluster, problem.in_time());
}

int joint_threads(const Graph& graph, const Mesh& mesh) {
  constexpr size_t kMany = 10'000;
  return graph.ops.size() * static_cast<size_t>(mesh.positions()) > kMany ? 2 : 1;
}

ConversionCosts::ConversionCosts(JointCosts& costs, const std::vector<Layout>& layouts, const std::vector<int>& from,
                                 const std::vector<int>& to, int64_t element_bytes, int firings) {
  const std::set<int> rows(from.begin(), from.end()), columns(to.begin(), to.end());
  row_ = column_ = std::vector<size_t>(layouts.size(), 0);
  size_t next = 0;
  for (int r : rows) row_[r] = next++;
  next = 0;
  for (int c : columns) column_[c] = next++;
  columns_ = next;
  table_ = costs.table(layouts, {rows.begin(), rows.end()}, {columns.begin(), columns.end()}, element_bytes);
  for (int64_t& cost : table_) cost *= firings;
}

}  // namespace partita
