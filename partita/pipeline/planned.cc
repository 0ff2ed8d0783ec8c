// Computes figures of a planned model: of its estimate if there is one, else of its prediction.
#include "partita/pipeline/planned.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "partita/graph/batch.h"
#include "partita/graph/model_flops.h"
#include "partita/physical/shortage.h"

namespace partita {

namespace {

// Sums the peak of all devices, in FLOPs a second. None if one has no figure of its own. A cluster file without one for
// a short type has float32's there, and the figures of local:N stand for no machine.
std::optional<double> peak_flops_per_s(const Cluster& cluster, DType dtype) {
  if (cluster.name.starts_with("local:")) return std::nullopt;
  double sum = 0;
  for (int d = 0; d < cluster.compute_count; ++d) {
    const std::map<DType, double>& peaks = cluster.devices[static_cast<size_t>(d)].peak_flops_per_s;
    const auto peak = peaks.find(dtype), other = peaks.find(DType::kFloat32);
    if (peak == peaks.end()) return std::nullopt;
    if (bytes_of(dtype) < 4 && other != peaks.end() && peak->second == other->second) return std::nullopt;
    sum += peak->second;
  }
  return sum;
}

}  // namespace

std::optional<int64_t> Planned::batch() const {
  return search.estimate ? search.estimate->batch : find_batch(training.whole_graph());
}

int64_t Planned::step_time_ns() const {
  if (search.estimate) return search.estimate->step_time_ns;
  return of_all_micro_batches ? of_all_micro_batches->step_ns() : predicted.step_time_ns;
}

std::optional<double> Planned::samples_per_second() const {
  if (!batch() || step_time_ns() == 0) return std::nullopt;
  return static_cast<double>(*batch()) / (static_cast<double>(step_time_ns()) / 1e9);
}

std::optional<Planned::Utilization> Planned::utilization() const {
  const std::optional<double> peak = peak_flops_per_s(cluster, plan.model.dtype);
  if (search.estimate || !peak || step_time_ns() == 0) return std::nullopt;
  const double flops = model_flops(training);
  return Utilization{flops, flops / (*peak * static_cast<double>(step_time_ns()) / 1e9)};
}

std::optional<int64_t> Planned::tokens_per_sample() const { return find_tokens_per_sample(training); }

int64_t Planned::peak_memory_bytes() const {
  if (search.estimate) return search.estimate->peak_memory_bytes;
  return *std::max_element(physical.peak_bytes.begin(), physical.peak_bytes.begin() + physical.compute_count);
}

std::vector<std::pair<std::string, int64_t>> Planned::peak_memory_contents() const {
  const auto begin = physical.peak_bytes.begin();
  const DeviceId fullest(std::max_element(begin, begin + physical.compute_count) - begin);
  const int64_t beyond = extrapolated_bytes.empty() ? 0 : extrapolated_bytes[fullest.index()];
  auto contents = contents_at_peak(training, physical, fullest, beyond);
  if (beyond > 0) contents.emplace_back("further micro-batches", beyond);
  std::ranges::stable_sort(contents, std::greater<>(), [](const auto& kind) { return kind.second; });
  return contents;
}

int64_t Planned::least_memory_bytes() const {
  return *std::max_element(least_bytes.begin(), least_bytes.begin() + physical.compute_count);
}

StepBreakdown Planned::breakdown() const {
  StepBreakdown out = of_all_micro_batches ? *of_all_micro_batches : breakdown_of(predicted, physical);
  if (representatives.empty()) return out;
  const size_t ranks = out.stages.size();
  std::vector<std::set<DeviceId>> devices(ranks);
  for (const OpChoice& choice : plan.ops)
    devices[static_cast<size_t>(choice.stage) % ranks].insert(choice.mesh.devices.begin(), choice.mesh.devices.end());
  for (size_t rank = 0; rank < ranks; ++rank)
    out.stages[rank].devices.assign(devices[rank].begin(), devices[rank].end());
  return out;
}

}  // namespace partita
