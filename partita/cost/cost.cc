// The formulas of time: kernels, copies, transfers over a route, rings of collectives.
#include "partita/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "partita/base/error.h"
#include "partita/graph/infer.h"
#include "partita/tdl/products.h"

namespace partita {

namespace {

constexpr double kNsPerUs = 1e3, kNsPerS = 1e9;

DType vector_dtype(const std::vector<DType>& dtypes) {
  return std::find(dtypes.begin(), dtypes.end(), DType::kFloat64) == dtypes.end() ? DType::kFloat32 : DType::kFloat64;
}

DType rate_of(const PhysicalGraph& graph, const Task& task) {
  std::map<int, DType> dtypes;  // by tensor of the formula
  std::vector<DType> all;
  std::vector<int> touched;
  for (const std::vector<Access>* accesses : {&task.reads, &task.writes})
    for (const Access& access : *accesses) {
      all.push_back(graph.reg(access.reg).dtype);
      if (access.tensor >= 0 && dtypes.emplace(access.tensor, all.back()).second) touched.push_back(access.tensor);
    }
  const auto* work = std::get_if<KernelWork>(&task.work);
  if (!work || !work->bound) return vector_dtype(all);
  return rate_dtype(*work->bound, work->first_stage, work->last_stage, touched,
                    [&](int tensor) { return dtypes.at(tensor); });
}

// Integers and booleans at float32's rate.
double peak_flops(const Device& device, DType dtype) {
  if (!is_float(dtype)) dtype = DType::kFloat32;
  auto found = device.peak_flops_per_s.find(dtype);
  if (found == device.peak_flops_per_s.end())
    fail("cluster: device '{}' has no peak FLOP/s for {}", device.name, name_of(dtype));
  return found->second;
}

// How many share its links, one after another.
double sharers(const Task& task) { return task.elsewhere ? task.elsewhere->sharers : 1; }

// From where a transfer comes: the device of what it reads.
DeviceId source_of(const PhysicalGraph& graph, const Task& task) {
  return task.reads.empty() ? DeviceId() : graph.reg(task.reads[0].reg).device;
}

// What devices that are not lowered fetch takes the device's own time no more than what others fetch.
bool stands_for_others(const Task& task) { return task.writes.empty() && std::holds_alternative<CopyWork>(task.work); }

}  // namespace

DType rate_dtype(const tdl::Bound& bound, int first, int last, const std::vector<int>& touched,
                 const std::function<DType(int)>& dtype_of) {
  const std::vector<int> matrices = tdl::matrix_operands(bound, first, last);
  std::vector<DType> all, multiplied;
  for (int t : touched) {
    const DType dtype = dtype_of(t);
    all.push_back(dtype);
    const bool is_stage =
        !bound.tensors[t].is_operand && std::find(bound.results.begin(), bound.results.end(), t) == bound.results.end();
    if (!is_stage && is_float(dtype) && std::binary_search(matrices.begin(), matrices.end(), t))
      multiplied.push_back(dtype);
  }
  return multiplied.empty() ? vector_dtype(all) : promoted(multiplied);
}

int64_t CostModel::kernel_ns(DeviceId device, DType rate, double flops, int64_t bytes) const {
  Duration time = copy(device, static_cast<double>(bytes));
  const Device& on = cluster_.device(device);
  if (flops > 0) time.moving_ns = std::max(time.moving_ns, flops / (peak_flops(on, rate) * on.efficiency) * kNsPerS);
  return Ways{{time}}.whole_ns(1);
}

Duration CostModel::copy(DeviceId device, double bytes) const {
  const Device& on = cluster_.device(device);
  return {on.launch_overhead_us * kNsPerUs, bytes / (on.memory_bandwidth_bytes_per_s * on.efficiency) * kNsPerS};
}

Ways CostModel::transfer(DeviceId from, DeviceId to, const std::vector<LinkId>& route, double bytes) const {
  return transfer_ways(cluster_, from, to, route, bytes);
}

int64_t CostModel::task_ns(const PhysicalGraph& graph, const Task& task) const {
  if (!task.route.empty())
    return transfer(source_of(graph, task), task.device, task.route, static_cast<double>(task.bytes) * sharers(task))
        .whole_ns(1);
  if (stands_for_others(task)) return 1;
  return kernel_ns(task.device, rate_of(graph, task), task.flops, task.bytes);
}

const Collective& CostModel::collective_of(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const {
  const Task& first = graph.task(participants[0]);
  const StepKind kind = std::get<CollectiveWork>(first.work).kind;
  if (first.elsewhere) return collective(kind, first.elsewhere->ring);
  std::vector<DeviceId> devices;
  for (TaskId p : participants) devices.push_back(graph.task(p).device);
  return collective(kind, devices);
}

int64_t CostModel::collective_ns(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const {
  int64_t bytes = 0;
  for (TaskId p : participants) bytes = std::max(bytes, graph.task(p).bytes);
  const Task& first = graph.task(participants[0]);
  return collective_of(graph, participants).ways.whole_ns(static_cast<double>(bytes) * sharers(first));
}

}  // namespace partita
