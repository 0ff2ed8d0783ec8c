// Times each product with its own rows and with full rows.
#include "partita/cost/unaligned.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "partita/cost/cost.h"

namespace partita {

namespace {

// Returns the row of least alignment among a kernel's products.
int64_t worst_row(const KernelWork& work) {
  int64_t worst = 0, least = INT64_MAX;
  for (const tdl::MatrixProduct& product : tdl::matrix_products(*work.bound, work.first_stage, work.last_stage))
    for (int index : product.innermost) {
      const int64_t extent = work.ranges[0][static_cast<size_t>(index)].size();
      if (const int64_t alignment = std::gcd(int64_t{16}, extent); alignment < least) least = alignment, worst = extent;
    }
  return worst;
}

}  // namespace

UnalignedProducts unaligned_products(const PhysicalGraph& graph, const Cluster& cluster, DeviceId device) {
  UnalignedProducts found;
  if (cluster.device(device).kernels.unaligned.empty() || cluster.profile_of(device)) return found;
  const CostModel cost(cluster);
  std::map<OpId, std::pair<int64_t, int64_t>> lost;  // and the row
  for (const Task& task : graph.tasks) {
    const auto* work = std::get_if<KernelWork>(&task.work);
    if (task.device != device || !work || !work->bound) continue;
    const KernelSize kernel = cost.kernel_size_of(graph, task);
    KernelSize full = kernel;
    for (Product& product : full.products) product.aligned = Product().aligned;
    if (full == kernel) continue;
    const int64_t ns = cost.kernel_ns(device, kernel) - cost.kernel_ns(device, full);
    if (ns <= 0) continue;
    auto& [sum, row] = lost[task.op];
    sum += ns * task.rate;
    row = worst_row(*work);
  }
  for (const auto& [op, of] : lost) found.ops.push_back(op), found.lost_ns += of.first;
  std::stable_sort(found.ops.begin(), found.ops.end(), [&](OpId a, OpId b) { return lost[a].first > lost[b].first; });
  if (!found.ops.empty()) found.row = lost[found.ops[0]].second;
  return found;
}

}  // namespace partita
