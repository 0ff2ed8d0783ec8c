// Verifies that a graph keeps the promises of its types.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "partita/base/error.h"
#include "partita/graph/graph.h"
#include "partita/graph/infer.h"

namespace partita {
namespace {

void verify_tensor(const Graph& graph, const Tensor& t) {
  const bool produced = t.producer.valid();
  const bool result = t.role == Role::kActivation || t.role == Role::kGradient;
  if (produced != result)
    fail("graph '{}', {} '{}': {}", graph.name, name_of(t.role), t.name,
         produced ? "only activations and gradients are an op's results" : "no op makes it");
  for (int64_t extent : t.shape)
    if (extent < 0) fail("graph '{}', tensor '{}': extent {} is negative", graph.name, t.name, extent);
  if (t.same_as.valid()) {
    const Tensor& other = graph.tensor(t.same_as);
    if (t.role != Role::kInput || other.role != Role::kInput || other.same_as.valid() || t.sample_axis >= 0)
      fail("graph '{}', {} '{}' is the same as {} '{}': an input of no samples of its own is the same as an input",
           graph.name, name_of(t.role), t.name, name_of(other.role), other.name);
    if (other.dtype != t.dtype || (other.shape != t.shape && other.scope != MicroBatchScope::kMicroBatch))
      fail("graph '{}', '{}' {}[{}] is the same as '{}' {}[{}]: shape and dtype must be equal", graph.name, t.name,
           name_of(t.dtype), fmt::join(t.shape, "x"), other.name, name_of(other.dtype), fmt::join(other.shape, "x"));
  }
  if (t.sample_axis < -1 || t.sample_axis >= static_cast<int>(t.shape.size()))
    fail("graph '{}', tensor '{}': sample axis {} of {} axes", graph.name, t.name, t.sample_axis, t.shape.size());
  if (t.role == Role::kConstant && !t.values) fail("graph '{}', constant '{}' has no values", graph.name, t.name);
  if (t.values) {
    const std::size_t n = is_float(t.dtype) ? t.values->real.size() : t.values->integer.size();
    if (t.values->dtype != t.dtype || t.values->shape != t.shape || static_cast<int64_t>(n) != volume(t.shape))
      fail("graph '{}', tensor '{}': its values are {}[{}] with {} elements, it is {}[{}]", graph.name, t.name,
           name_of(t.values->dtype), fmt::join(t.values->shape, "x"), n, name_of(t.dtype), fmt::join(t.shape, "x"));
  }
  if (t.replaces.valid()) {
    const Tensor& old = graph.tensor(t.replaces);
    if (old.role != Role::kParameter && old.role != Role::kState)
      fail("graph '{}', '{}' replaces {} '{}': only parameters and state are replaced", graph.name, t.name,
           name_of(old.role), old.name);
    if (old.shape != t.shape || old.dtype != t.dtype)
      fail("graph '{}', '{}' {}[{}] replaces '{}' {}[{}]: shape and dtype must be equal", graph.name, t.name,
           name_of(t.dtype), fmt::join(t.shape, "x"), old.name, name_of(old.dtype), fmt::join(old.shape, "x"));
  }
}

// Formulas bound already: equal ops share a bound formula.
using Known = std::set<std::tuple<const tdl::Bound*, std::string, std::string, tdl::Attributes,
                                  std::map<std::string, Shape>, std::vector<Shape>, std::vector<DType>>>;

void verify_op(const Graph& graph, OpId id, Known& known) {
  const Op& op = graph.op(id);
  ensure(op.bound != nullptr, "op '{}' has no bound formula", op.name);
  for (TensorId operand : op.operands) {
    const OpId producer = graph.tensor(operand).producer;
    if (producer.valid() && producer >= id)
      fail("{} reads '{}' before '{}' has made it: ops stand after the producers of their operands",
           describe(graph, op), graph.tensor(operand).name, graph.op(producer).name);
  }
  if (op.forward.valid() && (op.forward >= id || graph.op(op.forward).phase != Phase::kForward))
    fail("{}: its forward op must be a forward op before it", describe(graph, op));
  if (op.phase == Phase::kBackward && !op.forward.valid())
    fail("{}: a backward op belongs to a forward op", describe(graph, op));

  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (TensorId operand : op.operands) {
    shapes.push_back(graph.tensor(operand).shape);
    dtypes.push_back(graph.tensor(operand).dtype);
  }
  if (known.emplace(op.bound.get(), op.definition, op.formula, op.attributes, op.factors, shapes, dtypes).second) {
    Op again = op;
    const auto bound = bind_op(graph, again);
    if (tdl::to_text(*bound) != tdl::to_text(*op.bound))
      fail("{}: its formula is not that of its definition at these shapes", describe(graph, op));
    if (!op.formula.empty() && graph.registry->find(op.definition)) {
      again.factors.clear();  // by the formula's names of indices
      const auto derived = bind_op(graph, again);
      again.formula.clear();
      if (tdl::canonical(*bind_op(graph, again)) != tdl::canonical(*derived))
        fail("{}: its formula is not equal to that of the definition", describe(graph, op));
    }
  }
  const Inferred inferred = infer(graph, op);
  if (inferred.shapes.size() != op.results.size())
    fail("{}: {} results, its formula has {}", describe(graph, op), op.results.size(), inferred.shapes.size());
  const OpDefinition* definition = graph.registry->find(op.definition);
  for (std::size_t r = 0; r < op.results.size(); ++r) {
    const Tensor& t = graph.tensor(op.results[r]);
    if (t.producer != id) fail("{}: '{}' is not known as its result", describe(graph, op), t.name);
    if (t.shape != inferred.shapes[r] || t.dtype != inferred.dtypes[r])
      fail("{}: result '{}' is {}[{}], by the formula it is {}[{}]", describe(graph, op), t.name, name_of(t.dtype),
           fmt::join(t.shape, "x"), name_of(inferred.dtypes[r]), fmt::join(inferred.shapes[r], "x"));
    if (t.sample_axis != inferred.sample_axes[r])
      fail("{}: result '{}' has sample axis {}, by the formula it is {}", describe(graph, op), t.name, t.sample_axis,
           inferred.sample_axes[r]);
    const int replaced = definition && r < definition->replaces.size() ? definition->replaces[r] : -1;
    if (t.replaces != (replaced < 0 ? TensorId() : op.operands[replaced]))
      fail("{}: result '{}' replaces another tensor than its definition says", describe(graph, op), t.name);
  }
}

// Verifies that the graph of a micro-batch differs from that of the whole batch only as graph/micro_batches.h says.
void verify_parts(const Graph& graph) {
  const Graph& whole = *graph.whole;
  ensure(!whole.whole && graph.tensors.size() == whole.tensors.size() && graph.ops.size() == whole.ops.size() &&
             !graph.micro_batch_samples.empty(),
         "graph '{}': its parts are not those of its whole batch", graph.name);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op &op = graph.ops[i], &all = whole.ops[i];
    ensure(op.name == all.name && op.operands == all.operands && op.results == all.results,
           "graph '{}': op '{}' is another one for the whole batch", graph.name, op.name);
    for (std::size_t k = 0; k < op.bound->tensors.size(); ++k) {
      const bool operand = k < op.operands.size();
      if (!operand &&
          std::find(op.bound->results.begin(), op.bound->results.end(), static_cast<int>(k)) == op.bound->results.end())
        continue;
      const TensorId id = operand
                              ? op.operands[k]
                              : op.results[static_cast<std::size_t>(
                                    std::find(op.bound->results.begin(), op.bound->results.end(), static_cast<int>(k)) -
                                    op.bound->results.begin())];
      ensure(op.bound->tensors[k].shape == graph.tensor(id).shape,
             "graph '{}', op '{}': '{}' is [{}], its formula has [{}]", graph.name, op.name, graph.tensor(id).name,
             fmt::join(graph.tensor(id).shape, "x"), fmt::join(op.bound->tensors[k].shape, "x"));
    }
  }
}

}  // namespace

void verify_groups(const Graph& graph) {
  std::map<std::string, OpId> on_gpu;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (!op.colocation.empty() && op.device_type == DeviceType::kGpu) on_gpu.try_emplace(op.colocation, OpId(i));
  }
  for (const Op& op : graph.ops) {
    if (op.device_type == DeviceType::kLaunch && !on_gpu.contains(op.colocation))
      fail("graph '{}', op '{}': a launch op runs where a gpu op of its colocation group does, and {}", graph.name,
           op.name, op.colocation.empty() ? "it is in none" : fmt::format("'{}' has none", op.colocation));
    if (op.device_type == DeviceType::kCpu && on_gpu.contains(op.colocation))
      fail("graph '{}': colocation group '{}' has the cpu op '{}' and the gpu op '{}', which no device runs both",
           graph.name, op.colocation, op.name, graph.op(on_gpu.at(op.colocation)).name);
  }
}

void verify(const Graph& graph) {
  if (graph.whole) {
    verify(*graph.whole);
    return verify_parts(graph);
  }
  ensure(graph.registry != nullptr, "graph '{}' has no registry", graph.name);
  std::set<std::string> names;
  std::set<TensorId> replaced;
  for (const Tensor& t : graph.tensors) {
    if (!names.insert(t.name).second) fail("graph '{}': two tensors are named '{}'", graph.name, t.name);
    verify_tensor(graph, t);
    if (t.replaces.valid() && !replaced.insert(t.replaces).second)
      fail("graph '{}': '{}' is replaced twice, also by '{}'", graph.name, graph.tensor(t.replaces).name, t.name);
  }
  names.clear();
  Known known;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!names.insert(graph.ops[i].name).second)
      fail("graph '{}': two ops are named '{}'", graph.name, graph.ops[i].name);
    verify_op(graph, OpId(i), known);
  }
  verify_groups(graph);
  const auto read_by = readers_by_tensor(graph);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    if (!t.replaces.valid()) continue;
    for (const partita::Reader& reader : read_by[t.replaces.index()])
      if (reader.op > t.producer)
        fail("graph '{}': '{}' reads '{}' after '{}' has replaced it", graph.name, graph.op(reader.op).name,
             graph.tensor(t.replaces).name, graph.op(t.producer).name);
  }
  std::set<TensorId> inputs(graph.inputs.begin(), graph.inputs.end());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if ((graph.tensors[i].role == Role::kInput) != inputs.contains(TensorId(i)))
      fail("graph '{}': '{}' is {} and must {}be among the graph's inputs", graph.name, graph.tensors[i].name,
           name_of(graph.tensors[i].role), graph.tensors[i].role == Role::kInput ? "" : "not ");
  if (inputs.size() != graph.inputs.size()) fail("graph '{}': an input is listed twice", graph.name);
  for (TensorId id : graph.outputs)
    if (!id.valid() || id.index() >= graph.tensors.size()) fail("graph '{}': an output is missing", graph.name);
  if (graph.loss.valid()) {
    if (!graph.tensor(graph.loss).shape.empty())
      fail("graph '{}': the loss '{}' is not a scalar", graph.name, graph.tensor(graph.loss).name);
    if (graph.outputs.empty() || graph.outputs[0] != graph.loss)
      fail("graph '{}': the loss is not the first output", graph.name);
  }
}

}  // namespace partita
