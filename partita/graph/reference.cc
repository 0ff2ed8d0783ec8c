// Runs a graph op by op with the reference evaluator.
#include "partita/graph/reference.h"

#include "partita/base/error.h"

namespace partita {

Values to_values(const tdl::Array& array, DType dtype) {
  Values values{.dtype = dtype, .shape = array.shape};
  const int64_t n = volume(array.shape);
  for (int64_t i = 0; i < n; ++i) {
    if (is_float(dtype)) {
      values.real.push_back(rounded_to(dtype, array.at(i)));
    } else {
      const int64_t value = is_float(array.dtype) ? static_cast<int64_t>(array.reals[i]) : array.ints[i];
      values.integer.push_back(dtype == DType::kBool ? (array.at(i) != 0) : value);
    }
  }
  return values;
}

tdl::Array to_array(const Values& values) {
  tdl::Array array;
  array.dtype = is_float(values.dtype) ? DType::kFloat64 : values.dtype;
  array.shape = values.shape;
  array.reals = values.real;
  array.ints = values.integer;
  return array;
}

std::vector<tdl::Array> reference_op(const Graph& graph, const Op& op, const std::vector<tdl::Array>& operands) {
  const tdl::OpaqueRegistry opaques = tdl::standard_opaques();
  std::vector<tdl::Array> results = tdl::evaluate(*op.bound, operands, {.opaques = &opaques});
  for (std::size_t r = 0; r < results.size(); ++r) {
    const DType dtype = graph.tensor(op.results[r]).dtype;
    const DType held = is_float(dtype) ? DType::kFloat64 : dtype;
    if (results[r].dtype != held) results[r] = to_array(to_values(results[r], held));
    if (is_low(dtype))
      for (double& value : results[r].reals) value = rounded_to(dtype, value);
  }
  return results;
}

void reference_run(const Graph& graph, std::map<TensorId, tdl::Array>& values) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    if (t.values && !values.contains(TensorId(i))) values[TensorId(i)] = to_array(*t.values);
  }
  for (const Op& op : graph.ops) {
    std::vector<tdl::Array> operands;
    for (TensorId id : op.operands) {
      auto found = values.find(id);
      if (found == values.end()) fail("graph '{}': no values for '{}'", graph.name, graph.tensor(id).name);
      operands.push_back(found->second);
    }
    std::vector<tdl::Array> results = reference_op(graph, op, operands);
    for (std::size_t r = 0; r < results.size(); ++r) values[op.results[r]] = std::move(results[r]);
  }
}

}  // namespace partita
