// Copies a graph, with its floating tensors in another dtype.
#include <map>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"

namespace partita {

Graph with_dtype(const Graph& graph, DType dtype) {
  if (!is_float(dtype))
    fail("graph '{}' cannot be computed in {}: it takes a floating dtype", graph.name, name_of(dtype));
  Graph result = graph;
  for (Tensor& t : result.tensors) {
    if (!is_float(t.dtype)) continue;
    t.dtype = dtype;
    if (!t.values) continue;
    Values values = *t.values;
    values.dtype = dtype;
    for (double& v : values.real) v = rounded_to(dtype, v);
    t.values = std::make_shared<const Values>(std::move(values));
  }
  for (Op& op : result.ops) {
    auto to = op.attributes.find("to");
    if (op.definition == "cast" && to != op.attributes.end() &&
        is_float(static_cast<DType>(static_cast<int>(to->second))))
      to->second = static_cast<double>(dtype);
  }
  verify(result);
  return result;
}

}  // namespace partita
