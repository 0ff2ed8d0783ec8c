// Tests which tensors belong to samples in every model of the zoo. An independent way finds each gradient's tensor: by
// the names of the ops that make it.
#include "partita/graph/sample_tensors.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/gradients.h"
#include "partita/search/cuts/coarsen.h"
#include "small_zoo.h"

namespace partita {
namespace {

// By TensorId: whether an input reaches it.
std::vector<char> fed_of(const Graph& graph) {
  std::vector<char> fed(graph.tensors.size());
  for (TensorId t : graph.inputs) fed[t.index()] = true;
  for (const Op& op : graph.ops)
    for (TensorId from : op.operands)
      for (TensorId to : op.results) fed[to.index()] |= fed[from.index()];
  return fed;
}

TEST(OfSamples, AreAllActivationsAndTheirGradients) {
  int gradients[2] = {0, 0}, others = 0;
  for (const SmallModel& model : small_zoo()) {
    for (const char* recompute : {"none", "layer"}) {
      const Graph graph = recompute_activations(model.training, recompute);
      const std::vector<char> of = sample_tensor_mask(graph), fed = fed_of(graph);
      const std::vector<TensorId> whose = gradient_of(graph);
      for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
        const Tensor& tensor = graph.tensors[t];
        const Op* op = tensor.producer.valid() ? &graph.op(tensor.producer) : nullptr;
        SCOPED_TRACE(fmt::format("{} {}: {}", model.reference, recompute, tensor.name));
        if (!op || op->phase == Phase::kForward || is_clone(graph, *op)) {
          EXPECT_EQ(of[t], fed[t] && !tensor.replaces.valid());
        } else if (op->phase == Phase::kUpdate) {
          EXPECT_FALSE(of[t]);
        } else if (whose[t].valid()) {  // made only of constants (of the loss itself): of nothing
          EXPECT_EQ(of[t], fed[t] && fed[whose[t].index()]) << "a gradient of " << graph.tensor(whose[t]).name;
          ++gradients[of[t] != 0];
        } else {
          ++others;
        }
      }
    }
  }
  std::printf("gradients: %d of parameters, %d of activations, %d that no name tells\n", gradients[0], gradients[1],
              others);
  EXPECT_GT(gradients[0], 1000);
  EXPECT_GT(gradients[1], 1000);
  EXPECT_LT(others, (gradients[0] + gradients[1]) / 2);
}

}  // namespace
}  // namespace partita
