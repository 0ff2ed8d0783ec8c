// Tests small models written by hand: local functions, branches, sequences, external data, types, versions; and models
// changed at random.
#include <gtest/gtest.h>
#include <onnx/onnx.pb.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <variant>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/reference.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

std::shared_ptr<const OpRegistry> registry() {
  static const auto ops = standard_ops();
  return ops;
}

// A folder of this test's own.
std::filesystem::path folder() {
  const auto path = std::filesystem::path(PARTITA_BINARY_DIR) / "onnx_model_test" /
                    ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(path);
  return path;
}

using Attribute = std::variant<int64_t, double, onnx::GraphProto>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

void set(onnx::AttributeProto& to, const std::string& name, const Attribute& value) {
  to.set_name(name);
  if (const auto* i = std::get_if<int64_t>(&value)) to.set_i(*i), to.set_type(onnx::AttributeProto::INT);
  if (const auto* f = std::get_if<double>(&value))
    to.set_f(static_cast<float>(*f)), to.set_type(onnx::AttributeProto::FLOAT);
  if (const auto* g = std::get_if<onnx::GraphProto>(&value))
    *to.mutable_g() = *g, to.set_type(onnx::AttributeProto::GRAPH);
}

// An operator "Mul", or a local function "own.leaky".
onnx::NodeProto node(const std::string& operation, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs, const Attributes& attributes = {},
                     const std::string& name = "") {
  onnx::NodeProto n;
  const std::size_t dot = operation.find('.');
  n.set_op_type(dot == std::string::npos ? operation : operation.substr(dot + 1));
  if (dot != std::string::npos) n.set_domain(operation.substr(0, dot));
  n.set_name(name);
  for (const auto& i : inputs) n.add_input(i);
  for (const auto& o : outputs) n.add_output(o);
  for (const auto& [key, value] : attributes) set(*n.add_attribute(), key, value);
  return n;
}

onnx::TensorProto integers(const std::string& name, const std::vector<int64_t>& values, bool scalar = false) {
  onnx::TensorProto t;
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::INT64);
  if (!scalar) t.add_dims(static_cast<int64_t>(values.size()));
  for (int64_t v : values) t.add_int64_data(v);
  return t;
}

void add_opset(onnx::ModelProto& model, const std::string& domain, int64_t version) {
  auto* opset = model.add_opset_import();
  opset->set_domain(domain);
  opset->set_version(version);
}

// x float32 [2,6] -> y.
onnx::ModelProto model(const std::vector<onnx::NodeProto>& nodes,
                       const std::vector<onnx::TensorProto>& initializers = {}, int opset = 20, int ir = 10) {
  onnx::ModelProto m;
  m.set_ir_version(ir);
  add_opset(m, "", opset);
  for (const auto& n : nodes) *m.mutable_graph()->add_node() = n;
  for (const auto& t : initializers) *m.mutable_graph()->add_initializer() = t;
  auto* x = m.mutable_graph()->add_input();
  x->set_name("x");
  x->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  for (int extent : {2, 6}) x->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
  m.mutable_graph()->add_output()->set_name("y");
  return m;
}

std::string save(const onnx::ModelProto& proto, const std::string& name = "model.onnx") {
  const std::string path = (folder() / name).string();
  std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
  return path;
}

Graph import(const onnx::ModelProto& proto, const OnnxOptions& options = {}) {
  return import_onnx(save(proto), options, registry());
}

std::string error_of(const onnx::ModelProto& proto) {
  try {
    import(proto);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput) << e.what();
    return std::string(e.what()).substr((folder() / "model.onnx").string().size() + 2);
  }
  return "no error";
}

// y of x = 0, 1, 2, .. 11.
std::vector<double> answer(const Graph& graph) {
  std::map<TensorId, tdl::Array> values;
  std::vector<double> x;
  for (int i = 0; i < 12; ++i) x.push_back(i);
  values[graph.inputs.at(0)] = tdl::real_array({2, 6}, x);
  reference_run(graph, values);
  return values.at(graph.outputs.at(0)).reals;
}
std::vector<std::string> definitions(const Graph& graph) {
  std::vector<std::string> result;
  for (const Op& op : graph.ops) result.push_back(op.definition);
  return result;
}
using Names = std::vector<std::string>;

// ---------------------------------------------------------------- local functions

onnx::FunctionProto function(const std::string& name, const std::string& input, const std::string& output,
                             const std::vector<onnx::NodeProto>& nodes) {
  onnx::FunctionProto f;
  f.set_domain("own");
  f.set_name(name);
  f.add_input(input);
  f.add_output(output);
  for (const auto& n : nodes) *f.add_node() = n;
  for (const char* domain : {"", "own"}) {
    auto* opset = f.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(*domain ? 1 : 20);
  }
  return f;
}

onnx::NodeProto with_reference(onnx::NodeProto n, const std::string& name, const std::string& argument) {
  auto* a = n.add_attribute();
  a->set_name(name);
  a->set_ref_attr_name(argument);
  a->set_type(onnx::AttributeProto::FLOAT);
  return n;
}

// leaky(v; slope = 0.5) calls scaled(v; by = slope) and takes the larger.
onnx::ModelProto with_functions(onnx::ModelProto m) {
  add_opset(m, "own", 1);
  onnx::FunctionProto scaled =
      function("scaled", "v", "w",
               {with_reference(node("Constant", {}, {"c"}), "value_float", "by"), node("Mul", {"v", "c"}, {"w"})});
  scaled.add_attribute("by");
  onnx::FunctionProto leaky =
      function("leaky", "v", "r",
               {with_reference(node("own.scaled", {"v"}, {"s"}), "by", "slope"), node("Max", {"v", "s"}, {"r"})});
  set(*leaky.add_attribute_proto(), "slope", 0.5);
  *m.add_functions() = scaled;
  *m.add_functions() = leaky;
  return m;
}

TEST(OnnxModel, LocalFunctionsAreInlined) {
  const onnx::ModelProto m = with_functions(model(
      {node("Constant", {}, {"shift"}, {{"value_float", 6.0}}), node("Sub", {"x", "shift"}, {"a"}),
       node("own.leaky", {"a"}, {"b"}, {}, "first"), node("own.leaky", {"b"}, {"y"}, {{"slope", 0.25}}, "second")}));
  const Graph g = import(m);
  EXPECT_EQ(definitions(g), (Names{"sub", "mul", "maximum", "mul", "maximum"}));
  std::vector<double> expected;
  for (int i = 0; i < 12; ++i) expected.push_back(i < 6 ? (i - 6) * 0.5 * 0.25 : i - 6);
  EXPECT_EQ(answer(g), expected);
  int named = 0;
  for (const OnnxNode& n : describe_onnx(save(m), {}, registry()))
    named += n.name.starts_with("first/") || n.name.starts_with("second/");
  EXPECT_EQ(named, 6) << "an inlined node is named after its call";
}

TEST(OnnxModel, FunctionsThatCallThemselves) {
  onnx::ModelProto m = model({node("own.f", {"x"}, {"y"})});
  *m.add_functions() = function("f", "v", "w", {node("own.f", {"v"}, {"w"})});
  EXPECT_EQ(error_of(m), "local function 'f' calls itself, directly or through others");
}

// ---------------------------------------------------------------- branches, sequences

onnx::GraphProto branch(const onnx::NodeProto& n) {
  onnx::GraphProto g;
  *g.add_node() = n;
  g.add_output()->set_name(n.output(0));
  return g;
}
Attributes both_branches() {
  return {{"then_branch", branch(node("Neg", {"x"}, {"r"}))}, {"else_branch", branch(node("Relu", {"x"}, {"r"}))}};
}

// Whether x has six columns is known.
std::vector<onnx::NodeProto> columns() {
  return {node("Shape", {"x"}, {"shape"}), node("Gather", {"shape", "one"}, {"columns"})};
}

TEST(OnnxModel, IfWithAConstantCondition) {
  const std::vector<onnx::TensorProto> numbers{integers("one", {1}, true), integers("six", {6}, true)};
  for (const auto& [comparison, definition] : {std::pair{"Equal", "neg"}, {"Less", "relu"}}) {
    std::vector<onnx::NodeProto> nodes = columns();
    nodes.push_back(node(comparison, {"columns", "six"}, {"c"}));
    nodes.push_back(node("If", {"c"}, {"y"}, both_branches()));
    EXPECT_EQ(definitions(import(model(nodes, numbers))), Names{definition});
  }
  EXPECT_NE(error_of(model({node("ReduceMax", {"x"}, {"m"}, {{"keepdims", 0}}), node("Cast", {"m"}, {"c"}, {{"to", 9}}),
                            node("If", {"c"}, {"y"}, both_branches(), "choice")}))
                .find("node 'choice' (If, opset 20): its condition ('c') are computed from the data"),
            std::string::npos);
}

TEST(OnnxModel, SequencesOfParts) {
  const Graph g = import(model(
      {node("SplitToSequence", {"x", "two"}, {"parts"}, {{"axis", 1}}), node("SequenceAt", {"parts", "last"}, {"a"}),
       node("SequenceAt", {"parts", "zero"}, {"b"}), node("Sub", {"a", "b"}, {"y"})},
      {integers("two", {2}, true), integers("last", {-1}, true), integers("zero", {0}, true)}));
  EXPECT_EQ(definitions(g), (Names{"split", "sub"}));
  EXPECT_EQ(answer(g), (std::vector<double>{4, 4, 4, 4}));
}

TEST(OnnxModel, MaskedSoftmaxIsOne) {
  onnx::TensorProto zero;
  zero.set_name("zero");
  zero.set_data_type(onnx::TensorProto::FLOAT);
  zero.add_float_data(0);
  const Graph g = import(model({node("Softmax", {"x"}, {"s"}, {{"axis", -1}}), node("IsNaN", {"s"}, {"n"}),
                                node("Where", {"n", "zero", "s"}, {"w"}), node("Neg", {"w"}, {"y"})},
                               {zero}));
  EXPECT_EQ(definitions(g), (Names{"softmax", "neg"}));
  EXPECT_EQ(g.ops[0].attributes.at("masked"), 1);
}

// ---------------------------------------------------------------- tensors

TEST(OnnxModel, HalfFloats) {
  onnx::TensorProto half, brain;
  half.set_name("h");
  half.set_data_type(onnx::TensorProto::FLOAT16);
  half.add_dims(6);
  const uint16_t bits[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x8000};
  half.set_raw_data(bits, sizeof bits);
  brain.set_name("b");
  brain.set_data_type(onnx::TensorProto::BFLOAT16);
  brain.add_dims(6);
  for (int v : {0x3f80, 0xc080, 0, 0, 0, 0}) brain.add_int32_data(v);
  const std::vector<double> y = answer(import(
      model({node("Cast", {"h"}, {"f"}, {{"to", 1}}), node("Add", {"x", "f"}, {"s"}), node("Add", {"s", "b"}, {"y"})},
            {half, brain})));
  EXPECT_EQ((std::vector<double>(y.begin(), y.begin() + 6)),
            (std::vector<double>{0 + 1 + 1, 1 - 2 - 4, 2 + std::ldexp(1, -24), 3 + 65504, INFINITY, 5}));
}

// Tensors of two bytes are float32 here, and a cast to such a type rounds: 2 + 2^-9 is 2 in bfloat16, 2 + 2^-10 and
// more in float16 not.
TEST(OnnxModel, CastsToHalfFloatsRound) {
  onnx::TensorProto seven;
  seven.set_name("seven");
  seven.set_data_type(onnx::TensorProto::FLOAT);
  seven.add_float_data(7);
  const std::vector<double> y = answer(import(model(
      {node("Mul", {"x", "x"}, {"s"}), node("Div", {"s", "seven"}, {"q"}), node("Cast", {"q"}, {"h"}, {{"to", 10}}),
       node("Cast", {"h"}, {"f"}, {{"to", 1}}), node("Cast", {"q"}, {"b"}, {{"to", 16}}),
       node("Cast", {"b"}, {"c"}, {{"to", 1}}), node("Sub", {"f", "c"}, {"y"})},
      {seven})));
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(y[i], rounded_to(DType::kFloat16, i * i / 7.0) - rounded_to(DType::kBFloat16, i * i / 7.0)) << i;
  EXPECT_NE(y[1], 0);
}

onnx::ModelProto with_external(const std::string& location, int64_t offset = 4, int64_t length = 24) {
  onnx::TensorProto t;
  t.set_name("layer.weight");
  t.set_data_type(onnx::TensorProto::FLOAT);
  t.add_dims(6);
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", location},
                                   {"offset", std::to_string(offset)},
                                   {"length", std::to_string(length)}}) {
    auto* entry = t.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return model({node("Add", {"x", "layer.weight"}, {"y"})}, {t});
}

TEST(OnnxModel, ExternalData) {
  const float data[7] = {-1, 1, 2, 3, 4, 5, 6};
  std::ofstream(folder() / "weights.bin", std::ios::binary).write(reinterpret_cast<const char*>(data), sizeof data);
  EXPECT_EQ(answer(import(with_external("weights.bin")))[5], 5 + 6);
  EXPECT_NE(error_of(with_external("/etc/hostname")).find("a path relative to the model's folder is needed"),
            std::string::npos);
  EXPECT_NE(error_of(with_external("../weights.bin")).find("outside the model's folder"), std::string::npos);
  EXPECT_NE(error_of(with_external("weights.bin", 8)).find("has 28 bytes; bytes 8 to 32 are wanted"),
            std::string::npos);
  EXPECT_NE(error_of(with_external("weights.bin", 4, 20)).find("external data of 20 bytes, its shape needs 24"),
            std::string::npos);
  EXPECT_NE(error_of(with_external("missing.bin")).find("tensor 'layer.weight': its data are in"), std::string::npos);
  // The graph does not need them.
  const Graph g = import(with_external("missing.bin"), {.load_weights = false});
  EXPECT_EQ(g.tensor(g.find_tensor("layer.weight")).role, Role::kParameter);
  EXPECT_FALSE(g.tensor(g.find_tensor("layer.weight")).values);
  // A link inside is followed, one that leads out is not.
  std::filesystem::remove(folder() / "inside.bin");
  std::filesystem::remove(folder() / "outside.bin");
  std::ofstream(folder().parent_path() / "onnx_model_test_secret.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), sizeof data);
  std::filesystem::create_symlink("weights.bin", folder() / "inside.bin");
  std::filesystem::create_symlink("../onnx_model_test_secret.bin", folder() / "outside.bin");
  EXPECT_EQ(answer(import(with_external("inside.bin")))[0], 1);
  EXPECT_NE(error_of(with_external("outside.bin")).find("a link out of the model's folder"), std::string::npos);
}

// Hugging Face's download cache: the model and its data are links into blobs/, two folders up.
TEST(OnnxModel, ExternalDataInADownloadCache) {
  const auto repository = folder() / "models--someone--model", snapshot = repository / "snapshots" / "0123abc";
  std::filesystem::remove_all(repository);
  std::filesystem::create_directories(repository / "blobs");
  std::filesystem::create_directories(snapshot / "onnx");
  const float data[7] = {-1, 1, 2, 3, 4, 5, 6};
  std::ofstream(repository / "blobs" / "beef", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), sizeof data);
  std::ofstream(repository / "blobs" / "cafe", std::ios::binary)
      << with_external("model.onnx_data").SerializeAsString();
  std::filesystem::create_symlink("../../blobs/cafe", snapshot / "model.onnx");
  std::filesystem::create_symlink("../../blobs/beef", snapshot / "model.onnx_data");
  std::filesystem::create_symlink("../../../blobs/cafe", snapshot / "onnx" / "model.onnx");
  std::filesystem::create_symlink("../../../blobs/beef", snapshot / "onnx" / "model.onnx_data");
  std::filesystem::create_directory_symlink("snapshots/0123abc", repository / "latest");
  for (const auto& path :
       {snapshot / "model.onnx", snapshot / "onnx" / "model.onnx", repository / "latest" / "model.onnx"})
    EXPECT_EQ(answer(import_onnx(path.string(), {}, registry()))[0], 1) << path;
  // A link from the cache to elsewhere is not followed, and a folder called snapshots alone is no cache.
  std::filesystem::remove(snapshot / "model.onnx_data");
  std::ofstream(folder() / "secret.bin", std::ios::binary).write(reinterpret_cast<const char*>(data), sizeof data);
  std::filesystem::create_symlink("../../../secret.bin", snapshot / "model.onnx_data");
  EXPECT_THROW(import_onnx((snapshot / "model.onnx").string(), {}, registry()), Error);
  std::filesystem::rename(repository / "blobs", repository / "other");
  std::filesystem::remove(snapshot / "model.onnx"), std::filesystem::remove(snapshot / "model.onnx_data");
  std::filesystem::create_symlink("../../other/cafe", snapshot / "model.onnx");
  std::filesystem::create_symlink("../../other/beef", snapshot / "model.onnx_data");
  EXPECT_THROW(import_onnx((snapshot / "model.onnx").string(), {}, registry()), Error);
}

onnx::AttributeProto loop_body() {
  onnx::AttributeProto body;
  body.set_name("body");
  body.set_type(onnx::AttributeProto::GRAPH);
  auto* graph = body.mutable_g();
  for (const char* name : {"i", "cond", "v"}) graph->add_input()->set_name(name);
  for (const char* name : {"cond", "w"}) graph->add_output()->set_name(name);
  *graph->add_node() = node("Tanh", {"v"}, {"w"});
  return body;
}

TEST(OnnxModel, LoopsAreNamed) {
  onnx::NodeProto loop = node("Loop", {"", "", "x"}, {"y"}, {}, "again");
  *loop.add_attribute() = loop_body();
  EXPECT_NE(error_of(model({loop})).find("node 'again' (Loop, opset 20): loops are not supported"), std::string::npos)
      << error_of(model({loop}));
}

// Weights that a converter wrote as Constant nodes are trained as initializers would be; one number is none.
TEST(OnnxModel, WeightsInConstants) {
  onnx::NodeProto weight = node("Constant", {}, {"w"}), one = node("Constant", {}, {"one"}, {{"value_float", 1.0}});
  auto* value = weight.add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value->mutable_t()->add_dims(6);
  for (int i = 0; i < 6; ++i) value->mutable_t()->add_float_data(static_cast<float>(i));
  const Graph g = import(model({weight, one, node("Mul", {"x", "w"}, {"m"}), node("Add", {"m", "one"}, {"y"})}));
  ASSERT_TRUE(g.find_tensor("w").valid());
  EXPECT_EQ(g.tensor(g.find_tensor("w")).role, Role::kParameter);
  EXPECT_EQ(
      std::count_if(g.tensors.begin(), g.tensors.end(), [](const Tensor& t) { return t.role == Role::kParameter; }), 1);
  EXPECT_EQ(answer(g)[5], 26);
}

// More than 2 GiB of weights beside a small file; only the part that is read is loaded.
TEST(OnnxModel, LargeExternalData) {
  const auto path = folder() / "large.bin";
  const int64_t offset = int64_t{5} << 30;
  std::ofstream(path, std::ios::binary) << "";
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(offset + 24));  // sparse: takes no room
  EXPECT_EQ(answer(import(with_external("large.bin", offset)))[3], 3);
  std::filesystem::remove(path);
}

// ---------------------------------------------------------------- versions

TEST(OnnxModel, OpsetsAndIrVersions) {
  const std::vector<onnx::NodeProto> softmax{node("Softmax", {"x"}, {"y"})};
  for (int opset : {7, 13, 17, 20, 24, 25, 28})
    EXPECT_EQ(definitions(import(model(softmax, {}, opset))), Names{"softmax"}) << opset;
  for (int ir : {3, 7, 13}) EXPECT_EQ(definitions(import(model(softmax, {}, 20, ir))), Names{"softmax"}) << ir;
  EXPECT_EQ(error_of(model(softmax, {}, 6)), "opset 6 is not supported; export the model with opset 7 or newer");
  EXPECT_EQ(error_of(model(softmax, {}, 29)),
            "opset 29 is newer than 28, the newest known; export the model with opset_version=24");
  EXPECT_NE(error_of(model(softmax, {}, 20, 99)).find("IR version 99 is newer than"), std::string::npos);
  const std::vector<onnx::NodeProto> rest{node("Mod", {"x", "x"}, {"y"}, {}, "rest")};
  EXPECT_EQ(definitions(import(model(rest, {}, 27))), Names{"mod"});
  EXPECT_EQ(error_of(model(rest, {}, 28)),
            "1 node cannot be imported:\n  node 'rest' (Mod, opset 28): Mod was changed in opset 28, which is not "
            "supported; export the model with opset_version=24");
}

TEST(OnnxModel, ShapesThatStayUnknownNameTheTensor) {
  EXPECT_NE(error_of(model({node("NonZero", {"x"}, {"places"}, {}, "where"), node("Shape", {"places"}, {"s"}),
                            node("Reshape", {"x", "s"}, {"y"})}))
                .find("node 'where' (NonZero, opset 20): its operands are not constant"),
            std::string::npos);
  const onnx::ModelProto sized =
      model({node("ReduceMax", {"x"}, {"m"}, {{"keepdims", 0}}), node("Cast", {"m"}, {"n"}, {{"to", 7}}),
             node("Unsqueeze", {"n", "zero"}, {"count"}), node("Concat", {"minus", "count"}, {"s"}, {{"axis", 0}}),
             node("Reshape", {"x", "s"}, {"y"}, {}, "turn")},
            {integers("minus", {-1}), integers("zero", {0})});
  EXPECT_NE(error_of(sized).find("node 'turn' (Reshape, opset 20): its shape ('s') are computed from the data"),
            std::string::npos);
}

// ---------------------------------------------------------------- declared shapes

// An extent, or a symbol.
using Extent = std::variant<int64_t, std::string>;
void declare(onnx::ValueInfoProto& value, const std::string& name, const std::vector<Extent>& shape) {
  value.set_name(name);
  value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  auto* to = value.mutable_type()->mutable_tensor_type()->mutable_shape();
  to->clear_dim();
  for (const Extent& extent : shape) {
    if (const auto* known = std::get_if<int64_t>(&extent)) to->add_dim()->set_dim_value(*known);
    else to->add_dim()->set_dim_param(std::get<std::string>(extent));
  }
}

// y = tanh(relu(x)), in a file that declares shapes of relu(x) and of y.
onnx::ModelProto declaring(const std::vector<Extent>& between, const std::vector<Extent>& output) {
  onnx::ModelProto m = model({node("Relu", {"x"}, {"h"}, {}, "first"), node("Tanh", {"h"}, {"y"}, {}, "second")});
  declare(*m.mutable_graph()->add_value_info(), "h", between);
  declare(*m.mutable_graph()->add_value_info(), "elsewhere", {7});
  declare(*m.mutable_graph()->mutable_output(0), "y", output);
  return m;
}

TEST(OnnxDeclared, WhatContradictsTheFileIsRefused) {
  for (const Extent& rows : {Extent(2), Extent(-1), Extent("rows"), Extent("")})
    EXPECT_EQ(error_of(declaring({rows, 6}, {rows, "columns"})), "no error");
  EXPECT_EQ(
      error_of(declaring({2, 6}, {2, 7})),
      "1 node cannot be imported:\n  node 'second' (Tanh, opset 20): its result 'y' is [2x6], and the file declares "
      "[2x7]; export the model again, or, if a tool has left that behind, correct it (graph.output)");
  EXPECT_EQ(
      error_of(declaring({"rows", 5}, {1, 6})),
      "1 node cannot be imported:\n  node 'first' (Relu, opset 20): its result 'h' is [2x6], and the file declares "
      "[rowsx5]; export the model again, or, if a tool has left that behind, correct it (graph.value_info)");
  EXPECT_NE(error_of(declaring({2, 6}, {12})).find("'y' is [2x6], and the file declares [12]"), std::string::npos);
  onnx::ModelProto weight = model({node("Add", {"x", "w"}, {"y"})}, {integers("w", {1, 2, 3, 4, 5, 6})});
  declare(*weight.mutable_graph()->add_input(), "w", {5});
  EXPECT_EQ(error_of(weight), "initializer 'w' is [6], and the file declares [5]");
}

// If dimensions are bound, shapes of an example of other extents may be left in the file.
TEST(OnnxDeclared, WhatContradictsABoundFileIsSaid) {
  onnx::ModelProto m = declaring({2, 6}, {"n", 6});
  declare(*m.mutable_graph()->mutable_input(0), "x", {"n", 6});
  OnnxFindings findings;
  import_onnx(save(m), {.bindings = {{"n", 2}}}, registry(), nullptr, &findings);
  EXPECT_EQ(shape_notes(findings), Names{});
  import_onnx(save(m), {.batch = 4}, registry(), nullptr, &findings);
  EXPECT_EQ(shape_notes(findings),
            Names{"1 value has another shape than the file declares: 'h' is [4x6], and the file declares [2x6] (node "
                  "'first'); what it declares may be left from an example of other extents"});
  declare(*m.mutable_graph()->mutable_output(0), "y", {6, "n"});  // a symbol says as much as a number
  import_onnx(save(m), {.batch = 4}, registry(), nullptr, &findings);
  EXPECT_EQ(findings.other_shapes.size(), 2u);
}

// The file declares its own batch; the graph is made for another after the comparison.
TEST(OnnxDeclared, AFixedBatchIsReplaced) {
  const Graph g = import(declaring({2, 6}, {2, 6}), {.batch = 5});
  EXPECT_EQ(g.tensor(g.outputs[0]).shape, (Shape{5, 6}));
  EXPECT_THROW(import(declaring({2, 6}, {5, 6}), {.batch = 5}), Error);
}

// ---------------------------------------------------------------- sizes that are rounded

// y = Resize(x) of x [1, 1, `from`], by a float32 scale; `declared`: of the last axis, or none.
onnx::ModelProto resized(int64_t from, float scale, std::optional<int64_t> declared,
                         const std::string& mode = "nearest", const std::string& where = "asymmetric") {
  onnx::NodeProto resize = node("Resize", {"x", "", "scales"}, {"y"}, {}, "r");
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"mode", mode},
                                    {"coordinate_transformation_mode", where},
                                    {"nearest_mode", "floor"}}) {
    auto* a = resize.add_attribute();
    a->set_name(name), a->set_type(onnx::AttributeProto::STRING), a->set_s(value);
  }
  onnx::TensorProto scales;
  scales.set_name("scales"), scales.set_data_type(onnx::TensorProto::FLOAT), scales.add_dims(3);
  for (float s : {1.0F, 1.0F, scale}) scales.add_float_data(s);
  onnx::ModelProto m = model({resize}, {scales});
  declare(*m.mutable_graph()->mutable_input(0), "x", {1, 1, from});
  if (declared) declare(*m.mutable_graph()->mutable_output(0), "y", {1, 1, *declared});
  return m;
}

TEST(OnnxResize, AnExtentNearAWholeNumberIsAsDeclared) {
  struct Case {
    int64_t from;
    float scale;
    int64_t most;   // near which the product is
    int64_t alone;  // ONNX Runtime's, if nothing is declared
  };
  for (const Case& c : {Case{10, 0.7F, 7, 7}, {10, 2.3F, 23, 23}, {100, 0.29F, 29, 29}, {11, 7.0F / 11, 7, 7}}) {
    SCOPED_TRACE(fmt::format("{} times {}", c.from, c.scale));
    for (int64_t declared : {c.most, c.most - 1}) {
      OnnxFindings findings;
      const Graph g = import_onnx(save(resized(c.from, c.scale, declared)), {}, registry(), nullptr, &findings);
      EXPECT_EQ(g.tensor(g.outputs[0]).shape.back(), declared);
      EXPECT_EQ(findings.rounded, Names{});
    }
    OnnxFindings findings;
    const Graph g = import_onnx(save(resized(c.from, c.scale, {})), {}, registry(), nullptr, &findings);
    EXPECT_EQ(g.tensor(g.outputs[0]).shape.back(), c.alone);
    ASSERT_EQ(findings.rounded.size(), 1u);
    EXPECT_EQ(findings.rounded[0].substr(0, findings.rounded[0].find(" (")),
              fmt::format("{} of {} or {} places", c.alone, c.most - 1, c.most));
    EXPECT_NE(error_of(resized(c.from, c.scale, c.most + 1)).find(fmt::format("declares [1x1x{}]", c.most + 1)),
              std::string::npos);
  }
  for (const auto& [from, scale, to] :
       {std::tuple{5, 1.5F, 7}, {3, 2.0F, 6}, {10, 0.77F, 7}}) {  // nothing is uncertain
    OnnxFindings findings;
    const Graph g = import_onnx(save(resized(from, scale, {})), {}, registry(), nullptr, &findings);
    EXPECT_EQ(g.tensor(g.outputs[0]).shape.back(), to);
    EXPECT_EQ(findings.rounded, Names{});
  }
}

// PyTorch's corners are those of the rounded length: 0, 3 of 4 places by 0.6; the standard's tests have 0, 2.14.
TEST(OnnxResize, CornersOfAFractionOfAPlace) {
  for (const auto& [producer, second] : {std::pair{"pytorch", 3.0}, {"", 3 / (4 * 0.6 - 1)}}) {
    onnx::ModelProto m = resized(4, 0.6F, 2, "linear", "align_corners");
    m.set_producer_name(producer);
    const Graph g = import(m);
    std::map<TensorId, tdl::Array> values{{g.inputs[0], tdl::real_array({1, 1, 4}, {0, 1, 2, 3})}};
    reference_run(g, values);
    EXPECT_NEAR(values.at(g.outputs[0]).reals[1], second, 1e-6) << producer;
  }
}

TEST(OnnxResize, OfIntegersThatFloat32MayNotHold) {
  onnx::ModelProto m = resized(4, 2, 8, "linear");
  m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT32);
  EXPECT_NE(error_of(m).find("node 'r' (Resize, opset 20): mode linear of INT32: in float32"), std::string::npos)
      << error_of(m);
}

// ---------------------------------------------------------------- constants, outputs, shared modules

// An operand may be data if only its shape and type are read.
TEST(OnnxModel, ShapesAndTypesAreKnown) {
  const onnx::ModelProto m =
      model({node("CastLike", {"six", "x"}, {"high"}), node("Clip", {"x", "", "high"}, {"c"}),
             node("EyeLike", {"x"}, {"eye"}, {{"k", int64_t{1}}}), node("Add", {"c", "eye"}, {"y"})},
            {integers("six", {6}, true)});
  const Graph g = import(m);
  EXPECT_EQ(definitions(g), (Names{"clip", "add"}));
  EXPECT_EQ(answer(g), (std::vector<double>{0, 2, 2, 3, 4, 5, 6, 6, 7, 6, 6, 6}));
}

TEST(OnnxModel, OutputsThatNoNodeMakes) {
  onnx::ModelProto m =
      model({node("Gather", {"x", "w"}, {"z"}), node("Identity", {"z"}, {"y"})}, {integers("w", {1, 0})});
  for (const char* name : {"z", "x", "w", "y"}) m.mutable_graph()->add_output()->set_name(name);
  const Graph g = import(m);
  Names outputs;
  for (TensorId id : g.outputs) outputs.push_back(g.tensor(id).name);
  EXPECT_EQ(outputs, (Names{"y", "z", "x", "w"}));
  EXPECT_EQ(g.outputs[2], g.inputs[0]);
}

TEST(OnnxModel, ABatchNormThatIsCalledTwiceIsNotTrained) {
  onnx::ModelProto m = model({node("BatchNormalization", {"x", "n.w", "n.b", "n.m", "n.v"}, {"h"}, {}, "one"),
                              node("BatchNormalization", {"h", "n.w", "n.b", "n.m", "n.v"}, {"y"}, {}, "two")});
  for (const char* name : {"n.w", "n.b", "n.m", "n.v"}) {
    auto* t = m.mutable_graph()->add_initializer();
    t->set_name(name), t->set_data_type(onnx::TensorProto::FLOAT), t->add_dims(6);
    for (int i = 0; i < 6; ++i) t->add_float_data(1);
  }
  OnnxFindings findings;
  const Graph g = import_onnx(save(m), {}, registry(), nullptr, &findings);
  EXPECT_EQ(definitions(g), (Names{"batch_norm_inference", "batch_norm_inference"}));
  EXPECT_EQ(findings.why_not_trained.substr(0, 76),
            "node 'two' (BatchNormalization): its running statistics ('n.m') are shared w");
}

TEST(OnnxModel, ABatchNormThatNeverAveragesIsSaid) {
  const auto notes_of = [](double momentum) {
    onnx::ModelProto m =
        model({node("BatchNormalization", {"x", "n.w", "n.b", "n.m", "n.v"}, {"y"}, {{"momentum", momentum}}, "norm")});
    for (const char* name : {"n.w", "n.b", "n.m", "n.v"}) {
      auto* t = m.mutable_graph()->add_initializer();
      t->set_name(name), t->set_data_type(onnx::TensorProto::FLOAT), t->add_dims(6);
      for (int i = 0; i < 6; ++i) t->add_float_data(1);
    }
    OnnxFindings findings;
    import_onnx(save(m), {}, registry(), nullptr, &findings);
    return training_notes(findings);
  };
  EXPECT_EQ(notes_of(0.9), Names{});
  ASSERT_EQ(notes_of(1).size(), 1u);
  EXPECT_EQ(notes_of(1)[0].substr(0, 71), "node 'norm' (BatchNormalization): its momentum in the file is 1, so tha");
}

// ---------------------------------------------------------------- models changed at random

// Truncated, with flipped bits, and with parts of the message exchanged: an import or one error of bad input, and
// nothing worse.
TEST(OnnxModel, DamagedModels) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Rng rng(kSeed);
  std::vector<onnx::NodeProto> nodes = columns();
  for (const onnx::NodeProto& n :
       {node("Equal", {"columns", "six"}, {"c"}), node("If", {"c"}, {"h"}, both_branches()),
        node("own.leaky", {"h"}, {"z"}), node("SplitToSequence", {"z", "two"}, {"parts"}, {{"axis", 1}}),
        node("SequenceAt", {"parts", "last"}, {"a"}), node("Tile", {"a", "repeats"}, {"t"}),
        node("CumSum", {"t", "one"}, {"k"}), node("Softmax", {"k"}, {"y"})})
    nodes.push_back(n);
  const onnx::ModelProto sound =
      with_functions(model(nodes, {integers("one", {1}, true), integers("six", {6}, true), integers("two", {2}, true),
                                   integers("last", {-1}, true), integers("repeats", {2, 3})}));
  const std::string whole = sound.SerializeAsString();
  ASSERT_FALSE(definitions(import(sound)).empty());
  int refused = 0, imported = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = whole;
    if (round % 5 == 0) bytes.resize(rng.below(bytes.size()));
    for (uint64_t n = round % 5 == 0 ? rng.below(2) : 1 + rng.below(3); n > 0 && !bytes.empty(); --n) {
      if (rng.below(3) == 0) bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
      else bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
    }
    const std::string path = (folder() / "damaged.onnx").string();
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      import_onnx(path, {}, registry());
      ++imported;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kBadInput) << "round " << round << ": " << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(imported, 20);
}

}  // namespace
}  // namespace partita
