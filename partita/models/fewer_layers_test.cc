// Tests models of fewer layers (graph/fewer_layers.h) against models that are made with as many.
#include "partita/graph/fewer_layers.h"

#include <gtest/gtest.h>

#include "partita/models/models.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

Graph forward_of(const std::string& reference) { return build_model(reference, {}, standard_ops()).graph; }

void expect_same_as_made(const std::string& model, int many, int few) {
  SCOPED_TRACE(model);
  const Graph whole = forward_of(fmt::format("{},layers={}", model, many));
  const std::vector<Repeat> layers = chained_layers(whole);
  ASSERT_EQ(layers.size(), 1u);
  ASSERT_EQ(layers[0].copies, many);
  const FewerLayers cut = with_fewer_layers(whole, layers, few);
  Graph made = forward_of(fmt::format("{},layers={}", model, few));
  made.name = cut.graph.name;
  EXPECT_EQ(print(cut.graph), print(made));
  EXPECT_EQ(cut.layers[0].copies, few);
  // A result of a layer that is gone stands for that of the last one that is kept.
  EXPECT_EQ(cut.now[whole.outputs[0].index()], cut.graph.outputs[0]);
}

TEST(FewerLayers, AreThoseOfTheModelWithAsMany) {
  expect_same_as_made("zoo:llama-3-8b?batch=2,hidden=64,heads=4,key_heads=2,inner=128,vocabulary=100", 6, 3);
  expect_same_as_made("zoo:transformer?batch=2", 5, 2);
  expect_same_as_made("zoo:mixtral-8x7b?batch=2,hidden=64,heads=4,key_heads=2,inner=128,vocabulary=100", 6, 3);
}

TEST(FewerLayers, KeepsAModelWithNoMore) {
  const Graph two = forward_of("zoo:transformer?batch=2,layers=2");
  EXPECT_EQ(print(with_fewer_layers(two, chained_layers(two), 3).graph), print(two));
}

}  // namespace
}  // namespace partita
