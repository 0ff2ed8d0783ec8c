// Infers shapes, dtypes and sample axes of results from formulas.
#include "partita/graph/infer.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {
namespace {

// The first factored axis of each stored axis: the most significant one.
std::vector<std::size_t> leading_factors(const tdl::BoundTensor& tensor) {
  std::vector<std::size_t> first;
  std::size_t at = 0;
  for (const Shape& radices : tensor.radices) {
    first.push_back(at);
    at += radices.size();
  }
  return first;
}

}  // namespace

DType promoted_dtype(const std::vector<DType>& dtypes) {
  DType widest = DType::kInt64;
  for (DType dtype : dtypes) {
    if (!is_float(dtype)) continue;
    if (!is_float(widest)) widest = dtype;
    else if (widest != dtype)
      widest = widest == DType::kFloat64 || dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  }
  return dtypes.empty() ? DType::kFloat32 : widest;
}

DType promoted_dtype(const std::vector<DType>& dtypes, const std::vector<Shape>& shapes) {
  std::vector<DType> arrays;
  for (std::size_t k = 0; k < dtypes.size(); ++k)
    if (!shapes[k].empty()) arrays.push_back(dtypes[k]);
  const bool enough =
      std::any_of(arrays.begin(), arrays.end(), is_float) || std::none_of(dtypes.begin(), dtypes.end(), is_float);
  return promoted_dtype(enough && !arrays.empty() ? arrays : dtypes);
}

std::vector<DType> result_dtypes(const OpDefinition& definition, const OpInstance& instance, std::size_t results) {
  if (!definition.dtypes) return std::vector<DType>(results, promoted_dtype(instance.dtypes, instance.shapes));
  std::vector<DType> dtypes = definition.dtypes(instance);
  ensure(dtypes.size() == results, "{}: {} dtypes for {} results", definition.name, dtypes.size(), results);
  return dtypes;
}

std::string describe(const Graph& graph, const Op& op) {
  std::vector<std::string> operands;
  for (TensorId id : op.operands) {
    const Tensor& t = graph.tensor(id);
    operands.push_back(fmt::format("{} {}[{}]", t.name, name_of(t.dtype), fmt::join(t.shape, "x")));
  }
  std::string where = op.source.module.empty() ? "" : fmt::format(", {}", op.source.module);
  if (!op.source.location.empty()) where += fmt::format(", {}", op.source.location);
  return fmt::format("{} '{}' ({}){}", op.definition, op.name, fmt::join(operands, ", "), where);
}

std::shared_ptr<const tdl::Bound> bind_op(const Graph& graph, Op& op) {
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (TensorId id : op.operands) {
    shapes.push_back(graph.tensor(id).shape);
    dtypes.push_back(graph.tensor(id).dtype);
  }
  try {
    std::shared_ptr<const tdl::Bound> bound;
    if (op.formula.empty()) bound = bind_instance(graph.registry->get(op.definition), op.attributes, shapes, dtypes);
    else bound = std::make_shared<const tdl::Bound>(tdl::bind(op.formula, shapes));
    for (const auto& [index, radices] : op.factors)
      bound = std::make_shared<const tdl::Bound>(tdl::factor_index(*bound, index, radices));
    return bound;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    fail("{}: {}", describe(graph, op), error.what());
  }
}

Inferred infer(const Graph& graph, const Op& op) {
  const tdl::Bound& bound = *op.bound;
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<int> samples;  // the indices that run along all samples of some operand
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const Tensor& t = graph.tensor(op.operands[k]);
    shapes.push_back(t.shape);
    dtypes.push_back(t.dtype);
    if (t.sample_axis < 0) continue;
    const std::size_t axis = leading_factors(bound.tensors[k])[t.sample_axis];
    const int64_t extent = bound.tensors[k].radices[t.sample_axis].front();
    for (const tdl::Stage& stage : bound.stages)
      tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
        if (read.tensor != static_cast<int>(k) || axis >= read.subscripts.size()) return;
        const int index = read.subscripts[axis].plain_index();
        if (index >= 0 && bound.indices[index].extent == extent) samples.push_back(index);
      });
  }
  Inferred result;
  for (int position : bound.results) {
    const tdl::BoundTensor& tensor = bound.tensors[position];
    result.shapes.push_back(tensor.shape);
    result.names.push_back(tensor.name);
    int sample_axis = -1;
    const tdl::Stage& stage = bound.stages[bound.stage_of(position)];
    const std::vector<std::size_t> leading = leading_factors(tensor);
    for (std::size_t a = 0; a < leading.size() && sample_axis < 0; ++a) {
      const int index = stage.lhs[leading[a]].plain_index();
      if (index >= 0 && std::find(samples.begin(), samples.end(), index) != samples.end())
        sample_axis = static_cast<int>(a);
    }
    result.sample_axes.push_back(sample_axis);
  }
  const OpDefinition* definition = graph.registry->find(op.definition);
  result.dtypes = definition
                      ? result_dtypes(*definition, OpInstance{op.attributes, shapes, dtypes}, bound.results.size())
                      : std::vector<DType>(bound.results.size(), promoted_dtype(dtypes, shapes));
  return result;
}

}  // namespace partita
