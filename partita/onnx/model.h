// An ONNX file as plain structs, checked; protobuf stays inside model.cc.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "partita/graph/graph.h"

namespace partita::onnx_model {

// Floats as the shortest decimal that gives the file's float32: 1e-05, not 9.999999747378752e-06.
using Attribute = std::variant<double, int64_t, std::string, std::vector<double>, std::vector<int64_t>, Values>;

struct Node {
  std::string name;  // or its number and operator, "Conv #3", where the file has none
  std::string operation, domain;
  std::vector<std::string> inputs, outputs;  // names of values; "": absent
  std::map<std::string, Attribute> attributes;
  std::string unreadable;  // why an attribute could not be read (subgraphs, strings, sparse tensors), or ""
  Source source;
  std::vector<std::string> scopes;  // PyTorch's: "", "layer1", "layer1.0", "conv2d"
};

struct Dimension {
  int64_t extent = -1;  // -1: symbolic
  std::string symbol;
};

struct Input {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<Dimension> shape;
};

struct Initializer {
  Values values;
  std::string kind;  // PyTorch's: "PARAMETER", "BUFFER", or "" if the file does not say
};

struct Model {
  std::string path;
  int64_t opset = 0;
  std::vector<Input> inputs;  // without the initializers
  std::vector<std::string> outputs;
  std::map<std::string, Initializer> initializers;
  std::vector<std::string> initializer_order;
  std::vector<Node> nodes;  // each after those that it reads
};

// Bad input: cannot be read, not an ONNX model, damaged, cyclic, a value with two producers or none.
Model read_model(const std::string& path);

// A dtype by ONNX's number (TensorProto.DataType); int32 and its like become int64. Empty: not supported.
std::optional<DType> dtype_of(int64_t onnx_type);
std::string type_name(int64_t onnx_type);  // "FLOAT16"

}  // namespace partita::onnx_model
