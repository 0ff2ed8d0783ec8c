// Holds a validated ONNX file as plain structs, for the import; protobuf stays inside model.cc.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "partita/graph/graph.h"

namespace partita::onnx_model {

struct Subgraph;

// Floats as the shortest decimal that gives the file's float32: 1e-05, not 9.999999747378752e-06. A list of strings is
// one, with commas between.
struct TypedValues : Values {
  int64_t type = 0;  // ONNX's number of the elements' type in the file
};
using Attribute = std::variant<double, int64_t, std::string, std::vector<double>, std::vector<int64_t>, TypedValues,
                               std::shared_ptr<const Subgraph>>;

struct Node {
  std::string name;  // or its number and operator, "Conv #3", if the file has none
  std::string operation, domain;
  int64_t opset = 0;                         // of its domain: the model's, or that of its local function
  std::vector<std::string> inputs, outputs;  // names of values; "": absent
  std::vector<std::string> captured;         // names from outside that its subgraphs read
  std::map<std::string, Attribute> attributes;
  std::string unreadable;  // why an attribute could not be read (subgraphs, strings, sparse tensors), or ""
  Source source;
  std::vector<std::string> scopes;     // PyTorch's: "", "layer1", "layer1.0", "conv2d"
  std::string target;                  // PyTorch's function: "aten.linear.default"
  std::string owner;                   // the class of the module that calls it: "torch.nn.modules.linear.Linear"
  std::vector<std::string> arguments;  // of that call: "%p_embed_weight", "%x", "2"
  bool is_restored = false;  // not in the file: it makes a value that the exporter computed from a parameter (folded.h)
};

// A branch of an If. Its names are unique in the model, except that two branches of one If may use the same ones.
struct Subgraph {
  std::vector<Node> nodes;  // each after those that it reads; the first are Constants for its initializers
  std::vector<std::string> outputs;
};

struct Dimension {
  int64_t extent = -1;  // -1: symbolic
  std::string symbol;
};

struct Input {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<Dimension> shape;
  int64_t type = 0;  // ONNX's number of the elements' type in the file
};

struct Initializer {
  DType dtype = DType::kFloat32;
  Shape shape;
  int64_t type = 0;  // ONNX's number of the elements' type in the file
  std::string kind;  // PyTorch's: "PARAMETER", "BUFFER", or "" if the file does not say
  // The values that the exporter's optimizer computed it from, parameters among them. Empty: it did not.
  std::vector<std::string> folded_from;
  // Reads the values; those in a file of their own are not read before. Bad input: that file is missing, too short, or
  // not in the model's folder.
  std::function<Values()> load;
  std::optional<DType> low = {};  // float16 or bfloat16 in the file, if dtype is float32
};

struct Model {
  std::string path, producer;  // "pytorch"
  int64_t opset = 0;
  bool from_dynamo = false;          // PyTorch's newer exporter: it says which initializers are parameters
  std::vector<Input> inputs;         // without the initializers
  std::vector<std::string> outputs;  // each once
  // Shapes that the file declares for values, by name.
  std::map<std::string, std::vector<Dimension>> declared;
  // "PARAMETER" or "BUFFER", for all that PyTorch's newer exporter had, those too that the file lacks. Empty: it does
  // not say.
  std::map<std::string, std::string> kinds;
  std::map<std::string, Initializer> initializers;
  std::vector<std::string> initializer_order;
  std::vector<Node> nodes;  // each after those that it reads
};

// Reads a model, inlining local functions. Bad input: the file cannot be read, or is not an ONNX model. It is damaged
// or cyclic, or a value has two producers or none. Its opset or IR version is too old or too new.
Model read_model(const std::string& path);

// Returns why an operator of a newer opset than kNewestOpset has changed since; empty: it has not. `opset` is the
// model's.
std::string changed_since(const std::string& operation, int64_t opset);
constexpr int64_t kOldestOpset = 7, kNewestOpset = 24, kNewestKnownOpset = 28;

// Returns a dtype by ONNX's number (TensorProto.DataType); int32 and its like become int64, float16 and bfloat16
// float32. Empty: not supported.
std::optional<DType> dtype_of(int64_t onnx_type);
// Returns float16 or bfloat16, whose tensors are float32 here: a cast to it rounds. Empty: another type.
std::optional<DType> low_dtype_of(int64_t onnx_type);
int64_t onnx_type(DType dtype);            // ONNX's number
std::string type_name(int64_t onnx_type);  // "FLOAT16"
// An integer type by ONNX's number. Empty: no integer.
struct IntegerType {
  int bits = 64;
  bool is_signed = true;
  bool operator==(const IntegerType&) const = default;
};
std::optional<IntegerType> integer_type_of(int64_t onnx_type);
double shortest_decimal(float value);              // the shortest decimal that gives the same float32
constexpr int64_t kOnnxInt32 = 6, kOnnxInt64 = 7;  // TensorProto.INT32, INT64

}  // namespace partita::onnx_model
