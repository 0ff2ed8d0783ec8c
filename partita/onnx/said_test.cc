// Tests facts that only the exporter's notes on its nodes tell: rows that PyTorch does not train, and batch norms of
// function calls.
#include <gtest/gtest.h>
#include <onnx/onnx.pb.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using Names = std::vector<std::string>;

void say(onnx::NodeProto& node, const std::string& key, const std::string& value) {
  auto* said = node.add_metadata_props();
  said->set_key("pkg.torch.onnx." + key), said->set_value(value);
}

// Two batch norms of x [4,6], one after the other, each of a class and by a function of PyTorch.
struct Norm {
  std::string owner, function;
};
struct Imported {
  Names definitions, notes;
};
Imported imported(const onnx::ModelProto& m) {
  const auto folder = std::filesystem::path(PARTITA_BINARY_DIR) / "onnx_said_test";
  std::filesystem::create_directories(folder);
  const char* test = ::testing::UnitTest::GetInstance()->current_test_info()->name();  // tests run at the same time
  const std::string path = (folder / fmt::format("{}.onnx", test)).string();
  std::ofstream(path, std::ios::binary) << m.SerializeAsString();
  OnnxFindings findings;
  Imported out;
  for (const Op& op : import_onnx(path, {}, standard_ops(), nullptr, &findings).ops)
    out.definitions.push_back(op.definition);
  out.notes = findings.notes;
  return out;
}

onnx::ModelProto model_of(onnx::TensorProto::DataType type, const std::vector<int>& shape) {
  onnx::ModelProto m;
  m.set_ir_version(10);
  m.add_opset_import()->set_version(17);
  auto* x = m.mutable_graph()->add_input();
  x->set_name("x");
  x->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  for (const int extent : shape)
    x->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
  m.mutable_graph()->add_output()->set_name("y");
  return m;
}

void add_weight(onnx::ModelProto& m, const std::string& name, const std::vector<int>& shape) {
  auto* t = m.mutable_graph()->add_initializer();
  t->set_name(name), t->set_data_type(onnx::TensorProto::FLOAT);
  int volume = 1;
  for (const int extent : shape) t->add_dims(extent), volume *= extent;
  for (int i = 0; i < volume; ++i) t->add_float_data(static_cast<float>(1 + i));
}

Imported with_norms(const std::vector<Norm>& norms) {
  onnx::ModelProto m = model_of(onnx::TensorProto::FLOAT, {4, 6});
  for (std::size_t i = 0; i < norms.size(); ++i) {
    auto* node = m.mutable_graph()->add_node();
    node->set_op_type("BatchNormalization"), node->set_name(fmt::format("norm{}", i));
    node->add_input(i == 0 ? "x" : "h"), node->add_output(i + 1 == norms.size() ? "y" : "h");
    for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
      node->add_input(fmt::format("{}.{}", i, part));
      add_weight(m, node->input().Get(node->input_size() - 1), {6});
    }
    say(*node, "class_hierarchy", fmt::format("['M', '{}', 'aten.{}.default']", norms[i].owner, norms[i].function));
  }
  return imported(m);
}

constexpr const char *kModule = "torch.nn.modules.batchnorm.BatchNorm1d",
                     *kFrozen = "_native_batch_norm_legit_no_training",
                     *kTrained = "_native_batch_norm_legit_functional";

TEST(OnnxSaid, BatchNormsThatAreFrozenBesideTrainedOnes) {
  const auto are_frozen = [](const Imported& of) {
    std::vector<bool> frozen;
    for (const std::string& definition : of.definitions)
      if (definition.starts_with("batch_norm")) frozen.push_back(definition == "batch_norm_inference");
    return frozen;
  };
  const Imported one = with_norms({{"M", kFrozen}, {kModule, kTrained}});
  EXPECT_EQ(are_frozen(one), (std::vector<bool>{true, false}));
  EXPECT_EQ(one.notes, Names{});
  const Imported evaluated = with_norms({{kModule, kFrozen}, {kModule, kFrozen}});
  EXPECT_EQ(are_frozen(evaluated), (std::vector<bool>{false, false}));
  EXPECT_EQ(evaluated.notes, Names{});
  const Imported called = with_norms({{"M.Own", kFrozen}, {kModule, kFrozen}});
  EXPECT_EQ(are_frozen(called), (std::vector<bool>{false, false}));
  ASSERT_EQ(called.notes.size(), 1U);
  EXPECT_EQ(called.notes[0].substr(0, 76),
            "node 'norm0' (BatchNormalization): M.Own calls batch_norm as a function; it ");
}

TEST(OnnxSaid, ThePaddingRowOfAnEmbedding) {
  const auto notes = [](const std::string& arguments) {
    onnx::ModelProto m = model_of(onnx::TensorProto::INT64, {4});
    add_weight(m, "table.weight", {5, 3});
    auto* node = m.mutable_graph()->add_node();
    node->set_op_type("Gather"), node->set_name("look");
    node->add_input("table.weight"), node->add_input("x"), node->add_output("y");
    say(*node, "class_hierarchy", "['M', 'torch.nn.modules.sparse.Embedding', 'aten.embedding.default']");
    say(*node, "fx_node",
        "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (" + arguments +
            "), kwargs = {})");
    return imported(m).notes;
  };
  EXPECT_EQ(notes("%p_table_weight, %x"), Names{});
  EXPECT_EQ(notes("%p_table_weight, %x, -1, True"), Names{});
  EXPECT_EQ(notes("%p_table_weight, %x, 2"),
            (Names{"node 'look' (Gather): row 2 of 'table.weight' is PyTorch's padding_idx, whose gradient is 0 there; "
                   "here it is trained like the others"}));
}

}  // namespace
}  // namespace partita
