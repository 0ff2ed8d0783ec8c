// Sums the isolated costs of a plan: kernels, inner steps, conversions, inputs and outputs.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "partita/cost/isolated_costs.h"
#include "partita/physical/segments.h"

namespace partita {

namespace {

// All that the kernels and inner steps of an op depend on. Layers that are alike share it.
using Likeness =
    std::tuple<std::string, const tdl::Bound*, const tdl::Derived*, std::vector<DeviceId>, std::vector<DType>>;

Likeness likeness_of(const Graph& graph, const Op& op, const tdl::Derived& derived, const Mesh& mesh) {
  std::vector<DType> dtypes;
  for (const auto* tensors : {&op.operands, &op.results})
    for (TensorId t : *tensors) dtypes.push_back(graph.tensor(t).dtype);
  return {op.definition, op.bound.get(), &derived, mesh.devices, std::move(dtypes)};
}

// The positions of a mesh whose devices are in the mask; all if none is.
std::vector<int> positions_in(const DeviceMask& device_mask, const Mesh& mesh, int positions) {
  std::vector<int> out;
  for (int p = 0; p < positions; ++p)
    if (device_mask && (*device_mask)[mesh.devices[p].index()]) out.push_back(p);
  if (!out.empty()) return out;
  out.resize(static_cast<size_t>(positions));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Returns the elements that a segment's kernel reads and writes at position p.
std::vector<TensorAccess> parts_of(const tdl::Derived& derived, const Segment& segment, int p,
                                   const std::function<DType(int)>& dtype_of) {
  std::vector<TensorAccess> elements;
  for (int t : segment.reads) elements.push_back({t, dtype_of(t), volume(box_read(derived, segment, t, p)), false});
  for (int t : segment.writes) elements.push_back({t, dtype_of(t), volume(derived.boxes[t][p]), true});
  return elements;
}

}  // namespace

int64_t serial_ns(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  return serial_ns(graph, resolve(graph, plan, cluster), cluster);
}

int64_t serial_ns(const Graph& graph, const Resolved& resolved, const Cluster& cluster) {
  const CostModel cost(cluster);
  ConversionTimes times(cluster);
  std::map<Likeness, int64_t> known;
  int64_t sum = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const tdl::Derived& derived = *resolved.ops[i].derived;
    const Mesh& mesh = resolved.ops[i].mesh;
    const auto [found, fresh] = known.emplace(likeness_of(graph, op, derived, mesh), 0);
    if (fresh)
      found->second = kernels_ns(cost, graph, op, derived, mesh, resolved.device_mask) +
                      times.inner_ns(*op.bound, derived, mesh, bytes_of(inner_dtype(graph, op)));
    sum += graph.firings(op) * found->second;
  }
  for (const ResolvedConversion& c : resolved.conversions)
    sum += c.firings * times.ns(c.conversion.from, c.conversion.to, bytes_of(graph.tensor(c.tensor).dtype));
  for (size_t t = 0; t < graph.tensors.size(); ++t)
    if (graph.tensors[t].role == Role::kInput)
      sum +=
          reads_a_step(graph, TensorId(t)) * times.load_ns(resolved.kept_layouts[t], bytes_of(graph.tensors[t].dtype));
  for (TensorId output : graph.outputs)
    sum += reads_a_step(graph, output) *
           times.give_ns(resolved.kept_layouts[output.index()], bytes_of(graph.tensor(output).dtype));
  return sum;
}

int64_t kernels_ns(const CostModel& cost, const Graph& graph, const Op& op, const tdl::Derived& derived,
                   const Mesh& mesh, const DeviceMask& device_mask) {
  const tdl::Bound& bound = *op.bound;
  const std::vector<Segment> segments = segments_of(bound, derived);
  const OpDefinition* definition = graph.registry->find(op.definition);
  auto dtype_of = [&](int tensor) { return tensor_dtype(graph, op, tensor); };
  std::vector<Rates> rates;
  for (const Segment& segment : segments) {
    std::vector<int> touched = segment.reads;
    touched.insert(touched.end(), segment.writes.begin(), segment.writes.end());
    rates.push_back(rates_of(bound, segment.first, segment.last, touched, dtype_of));
  }
  std::vector<int64_t> slowest(segments.size(), 0);
  struct Timed {
    KernelSize kernel;
    const Device* on = nullptr;
  };
  std::vector<Timed> last(segments.size());  // most positions are like the one before
  for (const int p : positions_in(device_mask, mesh, derived.positions())) {
    const std::vector<double> flops = segment_flops(definition, bound, segments, derived.ranges[p]);
    for (size_t g = 0; g < segments.size(); ++g) {
      const Segment& segment = segments[g];
      int64_t bytes = 0;
      for (int t : segment.reads) bytes += volume(box_read(derived, segment, t, p)) * bytes_of(dtype_of(t));
      for (int t : segment.writes) bytes += volume(derived.boxes[t][p]) * bytes_of(dtype_of(t));
      KernelSize kernel =
          cost.kernel_size(mesh.devices[p], op.bound, segment.first, segment.last, derived.ranges[p], flops[g]);
      kernel.bytes = static_cast<double>(bytes);
      kernel.rate = rates[g].rate, kernel.vector = rates[g].vector;
      const DeviceId device = mesh.devices[p];
      if (cost.cluster().profile_of(device)) {
        const KernelId id = kernel_id(op.definition, op.attributes, bound, cost.formula_hash(op.bound), segment.first,
                                      segment.last, derived.ranges[p], parts_of(derived, segment, p, dtype_of));
        if (const auto time = cost.profiled(device, id, flops[g], kernel.bytes)) {
          slowest[g] = std::max(slowest[g], time->far_ns);
          continue;
        }
      }
      const Device& on = cost.cluster().device(device);
      if (last[g].on && kernel == last[g].kernel && on.model == last[g].on->model && on.kernels.multiprocessors > 0)
        continue;
      slowest[g] = std::max(slowest[g], cost.kernel_ns(mesh.devices[p], kernel));
      last[g] = {std::move(kernel), &on};
    }
  }
  return std::accumulate(slowest.begin(), slowest.end(), int64_t{0});
}

}  // namespace partita
