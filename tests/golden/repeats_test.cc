// Repeated layers of real models, from the modules that their files name, and from structure.
#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/graph/repeats.h"
#include "partita/models/models.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

std::vector<std::string> texts(const Graph& graph) {
  std::vector<std::string> out;
  for (const Repeat& r : repeated_layers(graph)) out.push_back(fmt::format("{} x {} of {}", r.copies, r.name, r.ops));
  return out;
}
std::vector<std::string> of_file(const std::string& name) {
  return texts(import_onnx(fmt::format("{}/tests/data/{}.onnx", PARTITA_SOURCE_DIR, name), {.load_weights = false}, standard_ops()));
}
std::vector<std::string> of_zoo(const std::string& name) { return texts(build_model("zoo:" + name, {}, standard_ops()).graph); }

using Texts = std::vector<std::string>;

TEST(Repeats, LayersOfExportedModels) {
  EXPECT_EQ(of_file("gpt2"), (Texts{"2 x model.transformer.h.* of 43"}));
  EXPECT_EQ(of_file("bert"), (Texts{"2 x model.bert.encoder.layer.* of 33"}));
  EXPECT_EQ(of_file("llama"), (Texts{"2 x model.model.layers.* of 63"}));
  EXPECT_EQ(of_file("vit"), (Texts{"2 x model.vit.layers.* of 33"}));
}

TEST(Repeats, LayersOfTheZoo) {
  EXPECT_EQ(of_zoo("gpt2"), (Texts{"12 x transformer.h.* of 19"}));
  EXPECT_EQ(of_zoo("llama-3-8b"), (Texts{"32 x model.layers.* of 24"}));
  const Texts resnet = of_zoo("resnet-152");  // 3, 8, 36 and 3 blocks, the first of each with a projection
  ASSERT_FALSE(resnet.empty());
  EXPECT_NE(std::find_if(resnet.begin(), resnet.end(), [](const std::string& t) { return t.starts_with("35 x layer3.*"); }), resnet.end())
      << fmt::format("{}", fmt::join(resnet, "; "));
}

// Without names: tanh(x w + m) four times, m from outside; the first copy reads what is not next to it.
TEST(Repeats, FromStructureAlone) {
  GraphBuilder b("plain", standard_ops());
  const TensorId x = b.input("x", {4, 6}), start = b.op("exp", {x}), mask = b.op("sin", {x});
  TensorId y = start;
  for (int i = 0; i < 4; ++i) {
    const std::string w(1, static_cast<char>('a' + i));
    y = b.op("add", {b.op("matmul", {y, b.parameter(w, {6, 6})}, {}, "m_" + w), mask}, {}, "s_" + w);
    y = b.op("tanh", {y}, {}, "t_" + w);
  }
  const Graph graph = b.finish({b.op("cos", {y})});
  EXPECT_EQ(texts(graph), (Texts{"4 x m_a .. t_a of 3"}));
  EXPECT_EQ(repeated_layers(graph)[0].first, graph.find_op("m_a"));
}

TEST(Repeats, NothingWithoutAParameter) {
  GraphBuilder b("plain", standard_ops());
  TensorId x = b.input("x", {4, 6});
  for (int i = 0; i < 6; ++i) x = b.op("tanh", {x});
  EXPECT_TRUE(repeated_layers(b.finish({b.op("matmul", {x, b.parameter("w", {6, 6})})})).empty());
}

// A weight that all layers read is theirs as well.
TEST(Repeats, TiedLayersAreRepeats) {
  GraphBuilder b("tied", standard_ops());
  TensorId x = b.input("x", {4, 6});
  const TensorId w = b.parameter("w", {6, 6});
  for (int i = 0; i < 3; ++i) x = b.op("tanh", {b.op("matmul", {x, w})});
  const std::vector<Repeat> found = repeated_layers(b.finish({x}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].copies, 3);
}

}  // namespace
}  // namespace partita
