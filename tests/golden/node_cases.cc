// Reads test cases of single operators, and makes their models.
#include "tests/golden/node_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/runtime/npz.h"

namespace partita {

std::map<std::string, Case> cases(const std::string& file) {
  std::map<std::string, Case> result;
  for (auto& [key, values] : read_arrays(std::string(PARTITA_SOURCE_DIR) + "/tests/data/" + file)) {
    const std::size_t slash = key.find('/');
    Case& c = result[key.substr(0, slash)];
    const std::string kind = key.substr(slash + 1);
    if (kind == "model")
      for (int64_t byte : values.integer) c.model += static_cast<char>(byte);
    else if (kind.starts_with("in/")) c.in[kind.substr(3)] = values;
    else c.out[kind.substr(4)] = values;
  }
  return result;
}

onnx::TensorProto proto(const std::string& name, const Values& values, int type) {
  onnx::TensorProto t;
  t.set_name(name);
  for (int64_t extent : values.shape) t.add_dims(extent);
  t.set_data_type(type);
  for (double v : values.real)
    type == onnx::TensorProto::DOUBLE ? t.add_double_data(v) : t.add_float_data(static_cast<float>(v));
  for (int64_t v : values.integer) {
    if (type == onnx::TensorProto::INT64) t.add_int64_data(v);
    else if (type == onnx::TensorProto::UINT32) t.add_uint64_data(static_cast<uint64_t>(v));
    else t.add_int32_data(static_cast<int32_t>(v));
  }
  return t;
}

bool is_setting(const std::string& operation, int operand) {
  static const std::map<std::string, std::set<int>> settings{{"Clip", {1, 2}},
                                                             {"ConstantOfShape", {0}},
                                                             {"CumSum", {1}},
                                                             {"Dropout", {1, 2}},
                                                             {"Expand", {1}},
                                                             {"If", {0}},
                                                             {"OneHot", {1, 2}},
                                                             {"Pad", {1, 2, 3}},
                                                             {"Range", {0, 1, 2}},
                                                             {"Reshape", {1}},
                                                             {"Resize", {1, 2, 3}},
                                                             {"Slice", {1, 2, 3, 4}},
                                                             {"Split", {1}},
                                                             {"Squeeze", {1}},
                                                             {"Tile", {1}},
                                                             {"TopK", {1}},
                                                             {"Trilu", {1}},
                                                             {"Unsqueeze", {1}},
                                                             {"NonZero", {0}},
                                                             {"ReduceL1", {1}},
                                                             {"ReduceL2", {1}},
                                                             {"ReduceLogSum", {1}},
                                                             {"ReduceLogSumExp", {1}},
                                                             {"ReduceMax", {1}},
                                                             {"ReduceMean", {1}},
                                                             {"ReduceMin", {1}},
                                                             {"ReduceProd", {1}},
                                                             {"ReduceSum", {1}},
                                                             {"ReduceSumSquare", {1}},
                                                             {"EyeLike", {0}},
                                                             {"BatchNormalization", {3, 4}},
                                                             {"LSTM", {4, 7}},
                                                             {"GRU", {4}},
                                                             {"RNN", {4}},
                                                             {"Upsample", {1}}};
  const auto found = settings.find(operation);
  return found != settings.end() && found->second.contains(operand);
}

onnx::ModelProto model_of(const Case& c, bool all_constant) {
  onnx::ModelProto model;
  if (!model.ParseFromString(c.model)) fail("its model cannot be parsed");
  const onnx::NodeProto node = model.graph().node(0);
  std::vector<onnx::TensorProto> constants;
  for (const auto& input : model.graph().input()) {
    int operand = 0;
    while (operand < node.input_size() && node.input(operand) != input.name()) ++operand;
    const onnx::TensorProto values = proto(input.name(), c.in.at(input.name()), input.type().tensor_type().elem_type());
    if (is_setting(node.op_type(), operand)) *model.mutable_graph()->add_initializer() = values;
    else if (all_constant) constants.push_back(values);
  }
  for (const onnx::TensorProto& t : constants) {
    auto* inputs = model.mutable_graph()->mutable_input();
    inputs->erase(std::find_if(inputs->begin(), inputs->end(), [&](const auto& i) { return i.name() == t.name(); }));
    onnx::NodeProto* constant = model.mutable_graph()->add_node();
    constant->set_op_type("Constant");
    constant->add_output(t.name());
    auto* value = constant->add_attribute();
    value->set_name("value");
    value->set_type(onnx::AttributeProto::TENSOR);
    *value->mutable_t() = t;
  }
  return model;
}

}  // namespace partita
