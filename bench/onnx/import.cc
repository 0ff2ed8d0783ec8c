// Times the import of a model with 10,000 nodes: writes it as onnx_import_bench.onnx in the current folder, imports it
// five times, and prints the best time. bench/onnx/load.py times Python's onnx package for the same file.
#include <onnx/onnx.pb.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "partita/base/error.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace {

constexpr int kBlocks = 1250, kNodesPerBlock = 8, kWidth = 16;

void add_weight(onnx::GraphProto& graph, const std::string& name, const std::vector<int64_t>& shape) {
  onnx::TensorProto& t = *graph.add_initializer();
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (int64_t extent : shape) t.add_dims(extent), count *= extent;
  for (int64_t i = 0; i < count; ++i) t.add_float_data(static_cast<float>((i * 7 + count) % 13) / 100);
}

void add_integer(onnx::GraphProto& graph, const std::string& name, int64_t value) {
  onnx::TensorProto& t = *graph.add_initializer();
  t.set_name(name);
  t.set_data_type(onnx::TensorProto::INT64);
  t.add_dims(1);
  t.add_int64_data(value);
}

// Blocks as an exporter writes them without its optimizer: a reshape to a shape that is computed, a linear layer, GELU,
// layer norm.
onnx::ModelProto model() {
  onnx::ModelProto m;
  m.set_ir_version(10);
  m.add_opset_import()->set_version(20);
  onnx::GraphProto& graph = *m.mutable_graph();
  graph.set_name("blocks");
  for (const char* name : {"x", "y"}) {
    auto& info = std::string_view(name) == "x" ? *graph.add_input() : *graph.add_output();
    info.set_name(name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    for (int extent : {8, kWidth})
      info.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  add_integer(graph, "zero", 0);
  add_integer(graph, "minus", -1);
  auto add = [&](const std::string& operation, const std::vector<std::string>& inputs, const std::string& output) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(operation);
    node.set_name("node_" + output);
    for (const auto& input : inputs) node.add_input(input);
    node.add_output(output);
    return output;
  };
  std::string x = "x";
  for (int b = 0; b < kBlocks; ++b) {
    const std::string layer = fmt::format("layers.{}", b), id = std::to_string(b);
    add_weight(graph, layer + ".linear.weight", {kWidth, kWidth});
    for (const char* name : {".linear.bias", ".norm.weight", ".norm.bias"}) add_weight(graph, layer + name, {kWidth});
    const std::string batch = add("Gather", {add("Shape", {x}, "shape" + id), "zero"}, "batch" + id);
    onnx::NodeProto& concat = *graph.add_node();
    concat.set_op_type("Concat");
    concat.add_input(batch);
    concat.add_input("minus");
    concat.add_output("to" + id);
    auto& axis = *concat.add_attribute();
    axis.set_name("axis");
    axis.set_type(onnx::AttributeProto::INT);
    axis.set_i(0);
    const std::string flat = add("Reshape", {x, "to" + id}, "flat" + id);
    const std::string linear =
        add("Add", {add("MatMul", {flat, layer + ".linear.weight"}, "product" + id), layer + ".linear.bias"},
            "linear" + id);
    x = add("LayerNormalization", {add("Gelu", {linear}, "gelu" + id), layer + ".norm.weight", layer + ".norm.bias"},
            b + 1 == kBlocks ? "y" : "norm" + id);
  }
  return m;
}

}  // namespace

int main() {
  const std::string path = "onnx_import_bench.onnx";
  std::ofstream(path, std::ios::binary) << model().SerializeAsString();
  const auto registry = partita::standard_ops();
  double best = 1e9;
  std::size_t ops = 0;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    ops = partita::import_onnx(path, {}, registry).ops.size();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%d nodes -> %zu ops in %.3f s\n", kBlocks * kNodesPerBlock, ops, best);
}
