// Reads test cases of single operators: ONNX's own (tests/data/make_nodes.py), and ONNX Runtime's (make_runtime.py).
#pragma once
#include <onnx/onnx.pb.h>

#include <map>
#include <string>

#include "partita/graph/graph.h"

namespace partita {

struct Case {
  std::string model;  // bytes of an ONNX file of one node
  std::map<std::string, Values> in, out;
};
std::map<std::string, Case> cases(const std::string& file);  // by name

onnx::TensorProto proto(const std::string& name, const Values& values, int type);

// An operand that says where, how many or which way is constant in any model.
bool is_setting(const std::string& operation, int operand);

// Settings become initializers, and with `all_constant` all other operands Constant nodes, since an initializer may be
// a parameter.
onnx::ModelProto model_of(const Case& c, bool all_constant);

}  // namespace partita
