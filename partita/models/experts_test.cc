// Tests layers of experts that drop no token: the places that a plan counts on, and those of a run.
#include "partita/models/experts.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/graph/model_flops.h"
#include "partita/graph/places.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

Graph mixtral(const std::string& more = "") {  // 2 of 8 experts
  const std::string sizes = "batch=2,steps=16,layers=1,hidden=8,heads=4,key_heads=2,inner=6,vocabulary=5";
  return build_model("zoo:mixtral-8x7b?" + sizes + more, {}, standard_ops()).graph;
}

Shape sent(const Graph& graph) { return graph.tensor(graph.find_tensor("model.layers.0.mlp.dispatch")).shape; }

// A group is a sequence of 16 tokens, each with 2 of 8 experts: 4 places each at an even load.
TEST(Experts, PlansCountOnAnEvenLoad) {
  EXPECT_EQ(sent(mixtral()), (Shape{2, 8, 4, 8}));
  EXPECT_EQ(sent(mixtral(",imbalance=1.3")), (Shape{2, 8, 6, 8}));  // 5.2
  EXPECT_EQ(sent(mixtral(",imbalance=99")), (Shape{2, 8, 16, 8}));  // no more than there are tokens
  EXPECT_EQ(sent(mixtral(",capacity=0.5")), (Shape{2, 8, 2, 8}));
  EXPECT_EQ(sent(mixtral(",choices=3,experts=7")), (Shape{2, 7, 7, 8}));  // 6.9
  EXPECT_THROW(mixtral(",imbalance=nan"), Error);
  EXPECT_THROW(mixtral(",imbalance=0.9"), Error);
}

TEST(Experts, RunsHaveAPlaceForEveryToken) {
  const Graph planned = mixtral(), run = with_all_places(planned);
  EXPECT_TRUE(has_planned_places(planned));
  EXPECT_FALSE(has_planned_places(run));
  EXPECT_EQ(sent(run), (Shape{2, 8, 16, 8}));
  ASSERT_EQ(run.tensors.size(), planned.tensors.size());
  int different = 0;
  for (std::size_t i = 0; i < run.tensors.size(); ++i) {
    EXPECT_EQ(run.tensors[i].name, planned.tensors[i].name);
    if (run.tensors[i].shape == planned.tensors[i].shape) continue;
    EXPECT_EQ(run.tensors[i].shape[2], 16) << run.tensors[i].name;
    ++different;
  }
  EXPECT_EQ(different, 6);                          // sent, gate and up, activated, gated, down
  const Graph dropping = mixtral(",capacity=0.5");  // drops tokens in a run too
  EXPECT_FALSE(has_planned_places(dropping));
  EXPECT_EQ(print(with_all_places(dropping)), print(dropping));
}

// A run computes the same for any places that the plan counts on.
TEST(Experts, RunsDoNotDependOnImbalance) {
  EXPECT_EQ(print(with_all_places(mixtral())), print(with_all_places(mixtral(",imbalance=1.3"))));
  EXPECT_EQ(print(with_all_places(mixtral())), print(mixtral(",imbalance=99")));
}

TEST(Experts, ModelFlopsAreThoseOfChosenExperts) {
  const double tokens = 32, hidden = 8, inner = 6, products = 2 * tokens * 2 * 3 * hidden * inner;
  const double others = model_flops(mixtral()) - products;
  // q and o; k and v of half as many heads; both products of attention, 16 x 16 scores of 4 heads of 2; router; head
  const double expected = 2 * tokens * (2 * 64 + 2 * 32) + 2 * (2 * 2 * 4 * 16 * 16 * 2) + 2 * tokens * hidden * 8 +
                          2 * tokens * hidden * 5;
  EXPECT_DOUBLE_EQ(others, expected);
  for (const char* more : {",imbalance=1.5", ",imbalance=99", ",capacity=1.25", ",capacity=4"})
    EXPECT_NEAR(model_flops(mixtral(more)), model_flops(mixtral()), 1e-6) << more;
  EXPECT_LT(model_flops(mixtral(",capacity=0.5")), model_flops(mixtral()));  // half of the choices are dropped
}

// 46,702,792,704 without 6 of the 8 experts of 32 layers.
TEST(Experts, ActiveParameters) {
  const Graph graph = build_model("zoo:mixtral-8x7b?steps=16", {}, standard_ops()).graph;
  EXPECT_EQ(active_parameters(graph), 46'702'792'704 - int64_t{32} * 6 * 3 * 4096 * 14336);
  EXPECT_EQ(active_parameters(build_model("zoo:llama-3-8b?steps=16", {}, standard_ops()).graph), 8'030'261'248);
}

}  // namespace
}  // namespace partita
