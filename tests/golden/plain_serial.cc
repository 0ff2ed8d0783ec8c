#include "plain_serial.h"

#include <algorithm>

#include "partita/physical/lower_local.h"
#include "partita/plan/resolve.h"

namespace partita {

double PlainSerial::ns(const Plan& plan) {
  const Resolved resolved = resolve(graph_, plan, cluster_);
  double sum = 0;
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    sum += kernels_ns(OpId(i), plan);
    const Op& op = graph_.ops[i];
    const int64_t element = bytes_of(inner_dtype(graph_, op));
    Converter converter(cluster_);
    for (const Conversion& c :
         inner_conversions(*op.bound, *resolved.ops[i].derived, plan.ops[i].mesh, element, converter))
      sum += steps_ns(c.steps, element);
  }
  for (const ResolvedConversion& c : resolved.conversions)
    sum += steps_ns(c.conversion.steps, bytes_of(graph_.tensor(c.tensor).dtype));
  // Inputs from the one host, outputs to it.
  auto host_ns = [&](const Layout& whole, int64_t element) {
    const Duration copy = cost_.copy(whole.mesh.devices[0], static_cast<double>(whole.elements(0) * element));
    return copy.fixed_ns + copy.moving_ns;
  };
  for (size_t t = 0; t < graph_.tensors.size(); ++t) {
    const int64_t element = bytes_of(graph_.tensors[t].dtype);
    const Layout& kept_layout = resolved.kept_layouts[t];
    const Layout host =
        make_layout(Mesh{{}, {cluster_.device(kept_layout.mesh.devices[0]).host}}, {}, kept_layout.radices);
    if (graph_.tensors[t].role == Role::kInput)
      sum += host_ns(host, element) + steps_ns({fetch(host, kept_layout, element, cluster_)}, element);
    if (std::find(graph_.outputs.begin(), graph_.outputs.end(), TensorId(t)) != graph_.outputs.end())
      sum += host_ns(host, element) + steps_ns({fetch(kept_layout, host, element, cluster_)}, element);
  }
  return sum;
}

// Each run of stages on the device that takes longest, as lowered.
double PlainSerial::kernels_ns(OpId op, const Plan& plan) {
  if (const auto known = kernels_.find({op, plan.ops[op.index()].strategies}); known != kernels_.end())
    return known->second;
  const PhysicalGraph physical = lower_local(graph_, resolve(graph_, plan, cluster_), cluster_).graph;
  std::map<std::pair<OpId, int>, int64_t> longest;  // by first stage
  for (const Task& task : physical.tasks)
    if (const auto* kernel = std::get_if<KernelWork>(&task.work)) {
      int64_t& ns = longest[{task.op, kernel->first_stage}];
      ns = std::max(ns, cost_.task_ns(physical, task));
    }
  for (size_t i = 0; i < plan.ops.size(); ++i) kernels_[{OpId(i), plan.ops[i].strategies}] = 0;
  for (const auto& [run, ns] : longest)
    kernels_[{run.first, plan.ops[run.first.index()].strategies}] += static_cast<double>(ns);
  return kernels_.at({op, plan.ops[op.index()].strategies});
}

double PlainSerial::steps_ns(const std::vector<Step>& steps, int64_t element_bytes) const {
  double sum = 0;
  for (Step step : steps) {
    step.bytes /= element_bytes;
    sum += StepTime(step, cost_).ns(static_cast<double>(element_bytes));
  }
  return sum;
}

}  // namespace partita
