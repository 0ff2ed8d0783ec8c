// Tests reductions with few or no elements to reduce, by every form of every opset, against the standard
// (tests/data/make_reductions.py).
#include <gtest/gtest.h>
#include <onnx/onnx.pb.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/graph/reference.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using Json = nlohmann::json;

void set_shape(onnx::TypeProto& type, const Shape& shape) {
  auto* dims = type.mutable_tensor_type()->mutable_shape();
  for (int64_t extent : shape) dims->add_dim()->set_dim_value(extent);
}

void add_integer(onnx::NodeProto& node, const std::string& name, int64_t value) {
  auto* a = node.add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}

// The node takes x, and its axes as the case has them.
onnx::ModelProto model_of(const Json& c) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  auto* opset = model.add_opset_import();
  opset->set_version(c["opset"].get<int64_t>());
  auto& graph = *model.mutable_graph();
  auto& node = *graph.add_node();
  node.set_op_type(c["op"].get<std::string>());
  node.add_input("x");
  node.add_output("y");
  for (const char* name : {"axis", "select_last_index", "keepdims", "noop_with_empty_axes"})
    if (c.contains(name)) add_integer(node, name, c[name].get<int64_t>());
  if (c.contains("axes") && !c["axes"].is_null()) {
    const auto axes = c["axes"].get<std::vector<int64_t>>();
    if (c["form"] == "attribute") {
      auto* a = node.add_attribute();
      a->set_name("axes");
      a->set_type(onnx::AttributeProto::INTS);
      for (int64_t axis : axes) a->add_ints(axis);
    } else {
      node.add_input("axes");
      auto* t = graph.add_initializer();
      t->set_name("axes");
      t->set_data_type(onnx::TensorProto::INT64);
      t->add_dims(static_cast<int64_t>(axes.size()));
      for (int64_t axis : axes) t->add_int64_data(axis);
    }
  }
  const bool integers = c.contains("integers") || c["op"].get<std::string>().starts_with("Arg");
  auto* x = graph.add_input();
  x->set_name("x");
  x->mutable_type()->mutable_tensor_type()->set_elem_type(integers ? onnx::TensorProto::INT32
                                                                   : onnx::TensorProto::FLOAT);
  set_shape(*x->mutable_type(), c["shape"].get<Shape>());
  auto* y = graph.add_output();
  y->set_name("y");
  set_shape(*y->mutable_type(), c["y_shape"].get<Shape>());
  return model;
}

std::vector<double> numbers(const Json& list) {
  std::vector<double> values;
  for (const Json& v : list) values.push_back(v.is_string() ? std::stod(v.get<std::string>()) : v.get<double>());
  return values;
}

// The fault, or nothing.
std::string wrong(const Json& c, const std::shared_ptr<const OpRegistry>& registry) {
  const std::string path = PARTITA_BINARY_DIR "/reduction.onnx";
  std::ofstream(path, std::ios::binary) << model_of(c).SerializeAsString();
  try {
    const Graph graph = import_onnx(path, {}, registry);
    const Tensor& input = graph.tensor(graph.inputs.at(0));
    Values x{.dtype = input.dtype, .shape = input.shape};
    for (double v : numbers(c["x"])) is_float(x.dtype) ? x.real.push_back(v) : x.integer.push_back(std::lround(v));
    std::map<TensorId, tdl::Array> values{{graph.inputs[0], to_array(x)}};
    reference_run(graph, values);
    const TensorId output = graph.outputs.at(0);
    const Values y = to_values(values.at(output), graph.tensor(output).dtype);
    if (y.shape != c["y_shape"].get<Shape>()) return fmt::format("shape [{}]", fmt::join(y.shape, "x"));
    const std::vector<double> expected = numbers(c["y"]);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double found = is_float(y.dtype) ? y.real[i] : static_cast<double>(y.integer[i]);
      const bool same = found == expected[i] || (std::isnan(found) && std::isnan(expected[i])) ||
                        std::abs(found - expected[i]) <= 1e-5 * std::max(1.0, std::abs(expected[i]));
      if (!same) return fmt::format("element {} is {}", i, found);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Reductions, AreWhatTheStandardSays) {
  const auto registry = standard_ops();
  std::ifstream file(PARTITA_SOURCE_DIR "/tests/data/reductions.json");
  const Json cases = Json::parse(file);
  EXPECT_GE(cases.size(), 1500u);
  int failures = 0;
  for (const Json& c : cases) {
    const std::string what = wrong(c, registry);
    if (what.empty()) continue;
    ADD_FAILURE() << c.dump() << ": " << what;
    if (++failures == 20) break;
  }
}

}  // namespace
}  // namespace partita
