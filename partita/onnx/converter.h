// Declares a converter's view of the import: one node with its operands, and the graph that is being built. There is
// one converter an operator. The tables are in convert_elementwise.cc, convert_shape.cc, convert_layers.cc,
// convert_reduce.cc, convert_resize.cc, convert_attention.cc and convert_recurrent.cc; ONNX Runtime's own operators are
// in convert_runtime.cc.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"
#include "partita/graph/builder.h"
#include "partita/onnx/constants.h"
#include "partita/onnx/model.h"

namespace partita::onnx_model {

// The value of a name in the file. It is a tensor of the graph, a constant that becomes one when an op reads it, or a
// sequence.
struct Value {
  Shape shape;
  DType dtype = DType::kFloat32;
  TensorId tensor;                         // none yet: a constant
  std::shared_ptr<const Values> constant;  // null: not constant
  std::shared_ptr<const std::vector<Value>> sequence;
  int64_t type = kOnnxInt64;  // of integers: ONNX's number of their type in the file
};
// The converted node's first results.
using Results = std::vector<Value>;

// The state that the imports of all nodes share.
struct ImportState {
  Model model;
  std::map<std::string, Value> values;          // by the file's names
  std::map<std::string, const Node*> producer;  // by name
  std::map<std::string, int> readers;           // how many operands name it
  std::set<std::string> reserved;               // names of inputs, outputs and initializers, which no op may take
  bool other_batch = false;                     // the graph will be made for another batch than the file's
  std::map<std::string, int> normalizations;    // how many BatchNormalizations read a running statistic
  std::vector<std::string> rounded;             // extents that could be others, by their rounding
  std::vector<std::string> notes;               // facts for a person who trains the file, a line each
  std::string why_not_trained;                  // why the graph is for evaluation only; empty: it is for both
};

class NodeContext {
 public:
  // `inputs`: names of the operands; `operands`: their values, null if absent. Ops are named after `op_name`.
  NodeContext(ImportState& state, const Node& node, GraphBuilder& build, std::vector<std::string> inputs,
              std::vector<Value*> operands, std::string op_name)
      : state(state),
        node(node),
        build(build),
        inputs_(std::move(inputs)),
        operands_(std::move(operands)),
        op_name_(std::move(op_name)) {}

  ImportState& state;
  const Node& node;
  GraphBuilder& build;
  bool transposed_weight = false;  // MatMul: operand 1 is the weight [o, k] itself, not its transpose

  std::size_t count() const { return operands_.size(); }
  bool present(std::size_t operand) const { return operand < operands_.size() && operands_[operand]; }
  const Value& value(std::size_t operand) const;  // bad input if absent
  const Shape& shape(std::size_t operand) const { return value(operand).shape; }
  DType dtype(std::size_t operand) const { return value(operand).dtype; }
  std::size_t rank(std::size_t operand) const { return shape(operand).size(); }
  const std::string& name(std::size_t operand) const { return inputs_.at(operand); }
  const std::string& op_name() const { return op_name_; }
  int64_t opset() const { return node.opset; }
  // The graph's tensor of an operand; a constant becomes one here.
  TensorId tensor(std::size_t operand);
  // Returns the values of a constant operand; null if absent. Bad input, with the operand's name, if it depends on the
  // data.
  const Values* constant(std::size_t operand, const char* what) const;
  // Returns a constant operand or attribute with one number.
  std::optional<double> number(std::size_t operand, const char* attribute) const;
  // The same for a whole number.
  std::optional<int64_t> whole(std::size_t operand, const char* attribute) const;
  // Returns a list that is an attribute in old opsets and an operand in new ones; empty if absent.
  std::vector<int64_t> list(const char* attribute, std::size_t operand) const;
  bool is_filled_with(std::size_t operand, double number) const;  // a constant
  // Returns the file's declared extent of an axis of the first result; -1: none.
  int64_t declared_extent(std::size_t axis, std::size_t rank) const;

  // Attributes, with their defaults.
  int64_t integer(const char* attribute, int64_t otherwise) const {
    return onnx_model::integer(node, attribute, otherwise);
  }
  double real(const char* attribute, double otherwise) const { return onnx_model::real(node, attribute, otherwise); }
  std::string text(const char* attribute, const char* otherwise) const {
    return onnx_model::text(node, attribute, otherwise);
  }
  std::vector<int64_t> integers(const char* attribute) const { return onnx_model::integers(node, attribute); }
  std::size_t axis(const char* attribute, int64_t otherwise, std::size_t rank) const {
    return static_cast<std::size_t>(axis_of(integer(attribute, otherwise), rank));
  }

  // Adds the node's last op, which takes its name: its first result, or all.
  Value op(std::string_view definition, std::vector<TensorId> operands, tdl::Attributes attributes = {});
  Results ops(std::string_view definition, std::vector<TensorId> operands, tdl::Attributes attributes = {});
  // Adds an op before the last, named after it.
  TensorId before(std::string_view definition, std::vector<TensorId> operands, tdl::Attributes attributes = {});
  std::vector<TensorId> several_before(std::string_view definition, std::vector<TensorId> operands,
                                       tdl::Attributes attributes = {});
  TensorId reshaped_before(TensorId tensor, const Shape& shape);  // itself if it has that shape
  TensorId transposed_before(TensorId tensor, const std::vector<int64_t>& order);
  TensorId scalar(double number, DType dtype) { return build.scalar(op_name_ + ".number", number, dtype); }
  TensorId constant_tensor(Values values, const std::string& suffix);
  Value reshaped(TensorId tensor, const Shape& shape);
  Value made(TensorId id) const { return {build.shape(id), build.graph().tensor(id).dtype, id, nullptr, nullptr}; }
  Value same(std::size_t operand) const { return value(operand); }  // the operand itself under another name
  DType dtype_of(TensorId id) const { return build.graph().tensor(id).dtype; }

 private:
  std::vector<std::string> inputs_;
  std::vector<Value*> operands_;
  std::string op_name_;
};

using Converter = std::function<Results(NodeContext&)>;
using Converters = std::map<std::string, Converter>;
void add_elementwise_converters(Converters& table);
void add_shape_converters(Converters& table);
void add_layer_converters(Converters& table);
void add_reduce_converters(Converters& table);
void add_resize_converters(Converters& table);
void add_recurrent_converters(Converters& table);
void add_attention_converters(Converters& table);
// Adds operators of ONNX Runtime's own, by their names in the domain com.microsoft.
void add_runtime_converters(Converters& table);
void add_runtime_attention_converters(Converters& table);

Results einsum(NodeContext& n);

Value constant_value(Values values);
bool is_read(NodeContext& n, std::size_t result);  // by a node, or as an output
// Returns a scale or bias over the last axes of x, whose extents are `last`, from a shape that broadcasts to them.
TensorId over_last_axes(NodeContext& n, std::size_t operand, const Shape& last);
// Returns an operand's numbers of places along an axis of `extent`, those below zero counted from the end. Bad input: a
// constant one outside; computed ones are checked at run time (the op `places`).
TensorId places_in(NodeContext& n, std::size_t operand, int64_t extent);
// Bad input if a constant of this shape would be larger than any sensible one.
void check_room(const Shape& shape);
inline std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, "x")); }

}  // namespace partita::onnx_model
