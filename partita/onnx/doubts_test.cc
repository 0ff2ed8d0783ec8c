// Tests facts that files of PyTorch's exporters leave open, by models written by hand.
#include "partita/onnx/doubts.h"

#include <gtest/gtest.h>

#include "partita/onnx/folded.h"

namespace partita::onnx_model {
namespace {

Model model(std::vector<Node> nodes, const std::vector<std::string>& initializers, bool from_dynamo) {
  Model m;
  m.producer = "pytorch";
  m.from_dynamo = from_dynamo;
  m.nodes = std::move(nodes);
  for (const std::string& name : initializers) {
    m.initializers[name] = {
        .dtype = DType::kFloat32, .shape = {}, .kind = "", .folded_from = {}, .load = {}, .low = {}};
    m.initializer_order.push_back(name);
  }
  return m;
}

Node node(const std::string& operation, const std::vector<std::string>& inputs, const std::string& output) {
  Node n;
  n.operation = operation;
  n.inputs = inputs;
  n.outputs = {output};
  return n;
}

using Names = std::vector<std::string>;

TEST(Doubts, AScalarWithAnAttributesNameIsTrainedInTheOlderExportersFiles) {
  const Model older = model({}, {"temp", "layer.scale", "onnx::Mul_3", "/Constant_1_output_0"}, false);
  for (const char* name : {"temp", "layer.scale"})
    EXPECT_TRUE(is_weight(older, name, older.initializers.at(name))) << name;
  for (const char* name : {"onnx::Mul_3", "/Constant_1_output_0"})
    EXPECT_FALSE(is_weight(older, name, older.initializers.at(name))) << name;
  const Model newer = model({}, {"temp"}, true);
  EXPECT_FALSE(is_weight(newer, "temp", newer.initializers.at("temp")));
}

TEST(Doubts, WhatHasNoParametersNameMayBeABuffer) {
  const Names trained{"temp", "a.weight",      "a.bias_hh_l0", "a.parametrizations.weight.original1",
                      "b.pe", "onnx::MatMul_3"};
  EXPECT_EQ(perhaps_buffers(model({}, {}, false), trained), (Names{"temp", "b.pe"}));
  EXPECT_EQ(perhaps_buffers(model({}, {}, true), trained), Names{});
}

TEST(Doubts, ConvolutionsWithANormalizationInThem) {
  const auto conv = [](const std::string& weight, const std::string& bias) {
    return node("Conv", {"x", weight, bias}, "y");
  };
  const Names names{"c.weight", "c.bias", "c.weight_bias", "onnx::Conv_3", "onnx::Conv_4"};
  EXPECT_EQ(with_normalization(model({conv("c.weight", "c.bias"), conv("onnx::Conv_3", "onnx::Conv_4")}, names, false)),
            Names{"onnx::Conv_3"});
  EXPECT_EQ(with_normalization(model({conv("c.weight", "c.bias")}, names, true)), Names{});
  EXPECT_EQ(with_normalization(model({conv("c.weight", "c.weight_bias")}, names, true)), Names{"c.weight"});
}

TEST(Doubts, AMergedStatisticBecomesItsOwnAgain) {
  Model m = model({node("Identity", {"b.weight"}, "b.running_var"), node("Identity", {"b.bias"}, "other"),
                   node("BatchNormalization", {"x", "b.weight", "b.bias", "b.running_mean", "b.running_var"}, "y")},
                  {"b.weight", "b.bias", "b.running_mean"}, false);
  separate_statistics(m);
  ASSERT_EQ(m.nodes.size(), 2u);
  EXPECT_EQ(m.nodes[0].outputs[0], "other");
  EXPECT_EQ(m.initializers.at("b.running_var").kind, "BUFFER");
  EXPECT_EQ(m.initializer_order.back(), "b.running_var");
}

}  // namespace
}  // namespace partita::onnx_model
