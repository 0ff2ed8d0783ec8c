// Computes times of tasks: kernels, copies, transfers over a route, collectives.
#include "partita/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "partita/base/error.h"
#include "partita/cost/whole_ns.h"
#include "partita/graph/infer.h"
#include "partita/tdl/products.h"

namespace partita {

namespace {

constexpr double kNsPerUs = 1e3, kNsPerS = 1e9;

DType vector_dtype(const std::vector<DType>& dtypes) {
  return std::find(dtypes.begin(), dtypes.end(), DType::kFloat64) == dtypes.end() ? DType::kFloat32 : DType::kFloat64;
}

Rates rates_of_task(const PhysicalGraph& graph, const Task& task) {
  std::map<int, DType> dtypes;  // by tensor of the formula
  std::vector<DType> all;
  std::vector<int> touched;
  for (const std::vector<Access>* accesses : {&task.reads, &task.writes})
    for (const Access& access : *accesses) {
      all.push_back(graph.reg(access.reg).dtype);
      if (access.tensor >= 0 && dtypes.emplace(access.tensor, all.back()).second) touched.push_back(access.tensor);
    }
  const auto* work = std::get_if<KernelWork>(&task.work);
  if (!work || !work->bound) return {vector_dtype(all), vector_dtype(all)};
  return rates_of(*work->bound, work->first_stage, work->last_stage, touched,
                  [&](int tensor) { return dtypes.at(tensor); });
}

// The number of tasks that share its links, one after another.
double sharers(const Task& task) { return task.background ? task.background->sharers : 1; }

// The source of a transfer: the device of its read.
DeviceId source_of(const PhysicalGraph& graph, const Task& task) {
  return task.reads.empty() ? DeviceId() : graph.reg(task.reads[0].reg).device;
}

int64_t ns_of_us(double us) { return whole_ns(us * kNsPerUs, 1); }

// The curve of a profile that has the time of a task that runs no formula.
std::string_view curve_of(const Work& work) {
  if (std::holds_alternative<LoadWork>(work)) return "load";
  if (std::holds_alternative<OutputWork>(work)) return "output";
  return "copy";
}

// A load makes all elements from its box's first to the last (train/feed.h); others touch the bytes that they move.
double fed_bytes(const PhysicalGraph& graph, const Task& task) {
  if (!std::holds_alternative<LoadWork>(task.work)) return static_cast<double>(task.bytes);
  const Register& reg = graph.reg(task.writes[0].reg);
  return static_cast<double>(linear_range(reg.boxes[0], reg.axes).size() * bytes_of(reg.dtype));
}

// The factor of a task's time with all cores busy, by the point nearest to so many bytes.
double together_of(const Curve* curve, double bytes) {
  if (!curve) return 1;
  const auto near =
      std::min_element(curve->points.begin(), curve->points.end(), [&](const Curve::Point& a, const Curve::Point& b) {
        return std::abs(std::log(a.bytes / (bytes + 1))) < std::abs(std::log(b.bytes / (bytes + 1)));
      });
  return near->time.together_us > 0 ? std::max(1.0, near->time.together_us / near->time.us) : 1;
}

// Tells whether a task stands for devices that are not lowered. Their fetches take none of the device's own time, as
// any other device's.
bool stands_for_others(const Task& task) { return task.writes.empty() && std::holds_alternative<CopyWork>(task.work); }

}  // namespace

Rates rates_of(const tdl::Bound& bound, int first, int last, const std::vector<int>& touched,
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
  const DType vector = vector_dtype(all);
  return {multiplied.empty() ? vector : promoted_dtype(multiplied), vector};
}

int64_t CostModel::kernel_ns(DeviceId device, const KernelSize& kernel) const {
  const Device& on = cluster_.device(device);
  return whole_ns(partita::kernel_ns(on, kernel, on.kernels.sustained), 1);
}

KernelSize CostModel::kernel_size(DeviceId device, const std::shared_ptr<const tdl::Bound>& bound, int first, int last,
                                  const std::vector<Interval>& ranges, double flops) const {
  if (cluster_.device(device).kernels.multiprocessors > 0)
    return kernel_size_over(forms_->of(bound, first, last), ranges, flops);
  KernelSize kernel;
  kernel.flops = flops;
  return kernel;
}

Duration CostModel::copy(DeviceId device, double bytes) const {
  if (const Profile* profile = cluster_.profile_of(device))
    if (const Curve* curve = profile->curve("copy"))
      return {(curve->latency_us + profile->machine.task_us) * kNsPerUs, curve->us_per_byte * bytes * kNsPerUs};
  const Device& on = cluster_.device(device);
  return {on.launch_overhead_us * kNsPerUs, bytes / reached_bytes_per_s(on) * kNsPerS};
}

AlgorithmCosts CostModel::transfer(DeviceId from, DeviceId to, const std::vector<LinkId>& route, double bytes) const {
  return transfer_costs(cluster_, from, to, route, bytes);
}

std::optional<TaskTime> CostModel::profiled(DeviceId device, const KernelId& id, double flops, double bytes) const {
  const Profile* profile = cluster_.profile_of(device);
  const auto time = profile ? profile->kernel(id, flops, bytes) : std::nullopt;
  if (!time) return std::nullopt;
  const double task_us = profile->machine.task_us, times = profile->mean_over_median();
  const auto ns = [&](double us) { return ns_of_us(us * times + task_us); };
  return TaskTime{ns(time->us), ns(time->cold_us), ns(time->far_us), time->together, time->estimated};
}

KernelSize CostModel::kernel_size_of(const PhysicalGraph& graph, const Task& task) const {
  KernelSize kernel;
  kernel.flops = task.flops;
  if (const auto* work = std::get_if<KernelWork>(&task.work); work && work->bound)
    kernel = kernel_size(task.device, work->bound, work->first_stage, work->last_stage, work->ranges[0], task.flops);
  kernel.bytes = static_cast<double>(task.bytes);
  const Rates rates = rates_of_task(graph, task);
  kernel.rate = rates.rate, kernel.vector = rates.vector;
  return kernel;
}

TaskTime CostModel::task_time(const PhysicalGraph& graph, const Task& task) const {
  const auto bytes = static_cast<double>(task.bytes);
  if (!task.route.empty()) {
    const Profile* profile = cluster_.profile_of(task.device);
    const Curve* curve = profile ? profile->curve("transfer") : nullptr;
    const int64_t ns =
        curve ? ns_of_us(curve->us(bytes))
              : transfer(source_of(graph, task), task.device, task.route, bytes * sharers(task)).whole_ns(1);
    return {ns, ns, ns, together_of(curve, bytes), false};
  }
  if (stands_for_others(task)) return {};
  const auto* work = std::get_if<KernelWork>(&task.work);
  if (const Profile* profile = cluster_.profile_of(task.device)) {
    if (work && work->bound) {
      const KernelId id = kernel_id(graph, task, *work, formula_hashes_->of(work->bound));
      if (const auto time = profiled(task.device, id, task.flops, bytes)) return *time;
    } else if (const Curve* curve = profile->curve(curve_of(task.work))) {
      const int64_t ns = ns_of_us(curve->us(fed_bytes(graph, task)) + profile->machine.task_us);
      return {ns, ns, ns, together_of(curve, bytes), false};
    }
  }
  const int64_t ns = kernel_ns(task.device, kernel_size_of(graph, task));
  return {ns, ns, ns, 1, cluster_.profile_of(task.device) != nullptr};
}

const Collective& CostModel::collective_of(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const {
  const Task& first = graph.task(participants[0]);
  const StepKind kind = std::get<CollectiveWork>(first.work).kind;
  if (first.background) return collective(kind, first.background->ring);
  std::vector<DeviceId> devices;
  for (TaskId p : participants) devices.push_back(graph.task(p).device);
  return collective(kind, devices);
}

int64_t CostModel::collective_ns(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const {
  int64_t bytes = 0;
  for (TaskId p : participants) bytes = std::max(bytes, graph.task(p).bytes);
  const Task& first = graph.task(participants[0]);
  if (const Profile* profile = cluster_.profile_of(first.device))
    if (const Curve* curve =
            profile->curve(name_of(std::get<CollectiveWork>(first.work).kind), static_cast<int>(participants.size())))
      return ns_of_us(curve->us(static_cast<double>(bytes)));
  return collective_of(graph, participants).costs.whole_ns(static_cast<double>(bytes) * sharers(first));
}

}  // namespace partita
