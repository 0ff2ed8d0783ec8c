// Tests which functions of PyTorch are found in the pieces of a file.
#include <gtest/gtest.h>
#include <onnx/onnx.pb.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "partita/base/error.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

struct Piece {
  std::string result, operation;
  std::vector<std::string> operands;
};

// y, from x float32 [2,6] and numbers, which are operands like "0.5". `target`: PyTorch's function that the file names.
Graph graph_of(const std::vector<Piece>& pieces, const std::string& target = "") {
  onnx::ModelProto m;
  m.set_ir_version(10);
  m.add_opset_import()->set_version(17);
  auto* x = m.mutable_graph()->add_input();
  x->set_name("x");
  x->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  for (int extent : {2, 6}) x->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
  m.mutable_graph()->add_output()->set_name("y");
  std::map<std::string, bool> numbers;
  for (const Piece& piece : pieces) {
    auto* node = m.mutable_graph()->add_node();
    node->set_op_type(piece.operation);
    node->add_output(piece.result);
    if (!target.empty()) {
      auto* said = node->add_metadata_props();
      said->set_key("pkg.torch.onnx.class_hierarchy");
      said->set_value(fmt::format("['M', '{}']", target));
    }
    for (const std::string& operand : piece.operands) {
      node->add_input(operand);
      if (operand.find_first_of("0123456789") > 1 || std::exchange(numbers[operand], true)) continue;
      auto* constant = m.mutable_graph()->add_initializer();
      constant->set_name(operand);
      constant->set_data_type(onnx::TensorProto::FLOAT);
      constant->add_float_data(std::stof(operand));
    }
  }
  const auto folder = std::filesystem::path(PARTITA_BINARY_DIR) / "onnx_pieces_test";
  std::filesystem::create_directories(folder);
  const char* test = ::testing::UnitTest::GetInstance()->current_test_info()->name();  // tests run at the same time
  const std::string path = (folder / fmt::format("{}.onnx", test)).string();
  std::ofstream(path, std::ios::binary) << m.SerializeAsString();
  return import_onnx(path, {}, standard_ops());
}

std::vector<std::string> definitions(const std::vector<Piece>& pieces, const std::string& target = "") {
  std::vector<std::string> names;
  for (const Op& op : graph_of(pieces, target).ops) names.push_back(op.definition);
  return names;
}

using Names = std::vector<std::string>;

TEST(OnnxPieces, RootsOfSumsOfSquares) {
  const Names norm{"mul", "reduce_sum", "norm_root"}, scaled{"square", "reduce_mean", "mul", "div", "norm_root"};
  EXPECT_EQ(definitions({{"q", "Mul", {"x", "x"}}, {"s", "ReduceSum", {"q"}}, {"y", "Sqrt", {"s"}}}), norm);
  EXPECT_EQ(definitions({{"q", "Mul", {"x", "x"}}, {"s", "ReduceSum", {"q"}}, {"y", "Pow", {"s", "0.5"}}}), norm);
  EXPECT_EQ(definitions({{"q", "Pow", {"x", "2"}},
                         {"m", "ReduceMean", {"q"}},
                         {"n", "Mul", {"m", "6"}},
                         {"v", "Div", {"n", "5"}},
                         {"y", "Sqrt", {"v"}}}),
            scaled);
  // A cosine's, of the older exporter.
  EXPECT_EQ(definitions({{"q", "Mul", {"x", "x"}},
                         {"s", "ReduceSum", {"q"}},
                         {"t", "ReduceSumSquare", {"x"}},
                         {"p", "Mul", {"s", "t"}},
                         {"y", "Sqrt", {"p"}}})
                .back(),
            "norm_root");
  // Above 0, or no sum of squares.
  EXPECT_EQ(definitions(
                {{"q", "Mul", {"x", "x"}}, {"s", "ReduceSum", {"q"}}, {"e", "Add", {"s", "0.1"}}, {"y", "Sqrt", {"e"}}})
                .back(),
            "sqrt");
  EXPECT_EQ(definitions({{"a", "Abs", {"x"}}, {"s", "ReduceSum", {"a"}}, {"y", "Sqrt", {"s"}}}).back(), "sqrt");
  EXPECT_EQ(definitions({{"y", "Sqrt", {"x"}}}), Names{"sqrt"});
}

TEST(OnnxPieces, NormsOfAnyOrder) {
  const auto norm = [](const std::string& p, const std::string& root) {
    return definitions(
        {{"a", "Abs", {"x"}}, {"q", "Pow", {"a", p}}, {"s", "ReduceSum", {"q"}}, {"y", "Pow", {"s", root}}});
  };
  const Names of_any{"norm_power", "reduce_sum", "norm_root"};
  EXPECT_EQ(norm("3", "0.33333334"), of_any);
  EXPECT_EQ(norm("4", "0.25"), of_any);
  EXPECT_EQ(norm("0.5", "2"), (Names{"norm_power", "reduce_sum", "square"}));
  EXPECT_EQ(norm("3", "0.25").back(), "pow");
  EXPECT_EQ(definitions({{"q", "Pow", {"x", "2"}}, {"s", "ReduceSum", {"q"}}, {"y", "Pow", {"s", "0.49999976"}}}),
            (Names{"square", "reduce_sum", "norm_root"}));
}

TEST(OnnxPieces, BoundsAreClamps) {
  EXPECT_EQ(definitions({{"a", "Max", {"x", "-1"}}, {"y", "Min", {"2", "a"}}}), (Names{"clip", "clip"}));
  EXPECT_EQ(definitions({{"n", "Neg", {"x"}}, {"y", "Max", {"x", "n"}}}), (Names{"neg", "maximum"}));
  EXPECT_EQ(definitions({{"y", "Max", {"x", "0"}}}, "aten.maximum.default"), Names{"maximum"});
}

TEST(OnnxPieces, Relu6) {
  const auto slope_at_bounds = [](const std::vector<Piece>& pieces, const std::string& target) {
    return graph_of(pieces, target).ops.back().attributes.at("open") == 0 ? 1 : 0;
  };
  const std::vector<Piece> six{{"y", "Clip", {"x", "0", "6"}}}, one{{"y", "Clip", {"x", "-1", "1"}}},
      relu{{"r", "Relu", {"x"}}, {"y", "Min", {"r", "6"}}};
  EXPECT_EQ(slope_at_bounds(six, ""), 0);
  EXPECT_EQ(slope_at_bounds(six, "aten.clamp.default"), 1);
  EXPECT_EQ(slope_at_bounds(six, "aten.relu6.default"), 0);
  EXPECT_EQ(slope_at_bounds(one, ""), 1);
  EXPECT_EQ(slope_at_bounds(one, "aten.hardtanh.default"), 0);
  EXPECT_EQ(slope_at_bounds(relu, ""), 0);
}

// As PyTorch's exporter writes it, with a target that is data, or constants.
TEST(OnnxPieces, BinaryCrossEntropy) {
  const auto loss = [](const std::string& target, const std::string& less, const std::string& least) {
    std::vector<Piece> pieces{{"p", "Softmax", {"x"}}, {"c", "Neg", {"p"}},        {"d", "Add", {"c", "1"}},
                              {"e", "Log", {"d"}},     {"f", "Max", {"e", least}}, {"g", "Mul", {less, "f"}},
                              {"h", "Log", {"p"}},     {"i", "Max", {"h", least}}, {"j", "Mul", {target, "i"}},
                              {"y", "Sub", {"g", "j"}}};
    if (less == "l") pieces.insert(pieces.begin(), {"l", "Sub", {target, "1"}});
    return definitions(pieces);
  };
  EXPECT_EQ(loss("x", "l", "-100"), (Names{"softmax", "bce"}));
  EXPECT_EQ(loss("x", "l", "-50").back(), "sub");
  EXPECT_EQ(loss("x", "x", "-100").back(), "sub");
}

TEST(OnnxPieces, LogarithmOfASigmoid) {
  EXPECT_EQ(definitions({{"s", "Sigmoid", {"x"}}, {"y", "Log", {"s"}}}), (Names{"neg", "softplus", "neg"}));
}

}  // namespace
}  // namespace partita
