// Puts a forward graph in mixed precision: some operations run in float16 or bfloat16, others in float32. The lists are
// those of PyTorch's autocast on GPUs (OpDefinition::precision). It runs before autodiff, so that gradients follow: a
// cast's gradient is the cast back.
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"

namespace partita {
namespace {

bool is_source(const Tensor& t) { return !t.producer.valid(); }

// Copies the graph, with a cast if an operand has another dtype than its op takes.
class MixedPrecision {
 public:
  MixedPrecision(const Graph& graph, DType low)
      : old_(graph), low_(low), build_(graph.name, graph.registry), now_(graph.tensors.size()) {
    for (const Op& op : graph.ops)
      if (op.definition == "linear" || op.definition == "matmul" || op.definition == "conv2d")
        for (TensorId id : op.results) products_.insert(id);
  }

  Graph run() {
    copy_sources();
    for (const Op& op : old_.ops) copy(op);
    std::vector<TensorId> outputs;
    for (TensorId id : old_.outputs) outputs.push_back(now_[id.index()]);
    return build_.finish(std::move(outputs));
  }

 private:
  void copy_sources() {
    for (std::size_t i = 0; i < old_.tensors.size(); ++i) {
      const Tensor& t = old_.tensors[i];
      if (!is_source(t)) continue;
      now_[i] = build_.input(t.name, t.shape, t.dtype, t.sample_axis);
      build_.graph().tensor(now_[i]) = t;
    }
    build_.graph().inputs.clear();
    for (TensorId id : old_.inputs) build_.graph().inputs.push_back(now_[id.index()]);
  }

  void copy(const Op& op) {
    const OpDefinition* definition = old_.registry->find(op.definition);
    const OpDefinition::Precision precision = definition ? definition->precision : OpDefinition::Precision::kOperands;
    build_.set_phase(op.phase);
    build_.set_source(op.source);
    build_.set_cell(-1, -1);
    std::vector<TensorId> operands;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const TensorId operand = now_[op.operands[k].index()];
      const bool low = precision == OpDefinition::Precision::kLow && k < definition->low_operands;
      if (!low && precision == OpDefinition::Precision::kFloat32) operands.push_back(as(operand, DType::kFloat32));
      else if (low || is_bias(op, k)) operands.push_back(as(operand, low_));
      else operands.push_back(operand);
    }
    build_.set_cell(op.time_step, op.cell);
    const std::vector<TensorId> results =
        op.formula.empty() ? build_.ops(op.definition, operands, op.attributes, op.name)
                           : build_.formula(op.definition, op.formula, operands, op.name, op.attributes);
    for (std::size_t r = 0; r < results.size(); ++r) {
      now_[op.results[r].index()] = results[r];
      build_.graph().tensor(results[r]).name = old_.tensor(op.results[r]).name;
    }
  }

  // Tells whether the operand is a parameter that is added to each row of a product: one `linear` in PyTorch, two ops
  // in an exported file.
  bool is_bias(const Op& op, std::size_t k) const {
    if (op.definition != "add") return false;
    const Tensor& t = old_.tensor(op.operands[k]);
    return t.role == Role::kParameter && t.shape.size() == 1 && products_.contains(op.operands[1 - k]);
  }

  TensorId as(TensorId id, DType dtype) {
    const Tensor t = build_.graph().tensor(id);
    if (!is_float(t.dtype) || t.dtype == dtype) return id;
    TensorId& cast = casts_[{id, dtype}];
    if (!cast.valid()) {
      cast =
          build_.op("cast", {id}, {{"to", static_cast<double>(dtype)}}, fmt::format("{}.{}", t.name, name_of(dtype)));
      if (is_low(t.dtype)) casts_[{cast, t.dtype}] = id;  // casting back gives the original
    }
    return casts_[{id, dtype}];
  }

  const Graph& old_;
  DType low_;
  GraphBuilder build_;
  std::vector<TensorId> now_;  // by the old graph's tensors
  std::set<TensorId> products_;
  std::map<std::pair<TensorId, DType>, TensorId> casts_;
};

}  // namespace

Graph mixed_precision(const Graph& graph, DType low) {
  if (!is_low(low))
    fail("graph '{}': mixed precision is float32 with float16 or bfloat16, not with {}", graph.name, name_of(low));
  for (const Tensor& t : graph.tensors)
    if (is_source(t) && is_float(t.dtype) && t.dtype != DType::kFloat32)
      return mixed_precision(with_dtype(graph, DType::kFloat32), low);
  return MixedPrecision(graph, low).run();
}

}  // namespace partita
