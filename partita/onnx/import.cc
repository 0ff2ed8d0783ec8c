// From an ONNX file's nodes to a graph's ops. One function an operator, in the table at the end of `converters`.
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/onnx/constants.h"
#include "partita/onnx/model.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using namespace onnx_model;

// What a name of the file stands for: a tensor of the graph, or a constant that becomes one when an op reads it.
struct Value {
  Shape shape;
  DType dtype = DType::kFloat32;
  TensorId tensor;                         // none yet: a constant
  std::shared_ptr<const Values> constant;  // null: not constant
};

tdl::Attributes listed(const std::string& name, const std::vector<int64_t>& values) {
  tdl::Attributes attributes;
  for (std::size_t i = 0; i < values.size(); ++i) attributes[fmt::format("{}.{}", name, i)] = static_cast<double>(values[i]);
  return attributes;
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, "x")); }

class Importer {
 public:
  Importer(const std::string& path, const OnnxOptions& options, std::shared_ptr<const OpRegistry> registry)
      : model_(read_model(path)), build_(name_of_file(path), std::move(registry)) {
    bind_inputs(options);
    for (const std::string& name : model_.outputs) reserved_.insert(name);
    find_state();
    find_live();
    for (const std::string& name : model_.initializer_order) add_initializer(name);
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) report_.push_back(import_node(i));
  }

  const std::vector<OnnxNode>& report() const { return report_; }

  Graph finish() {
    std::vector<std::string> refused;
    for (const OnnxNode& node : report_)
      if (node.fate == OnnxNode::Fate::kUnsupported)
        refused.push_back(fmt::format("  node '{}' ({}, opset {}){}: {}", node.name, node.operation, model_.opset,
                                      node.source.location.empty() ? "" : " from " + node.source.location, node.why));
    if (!refused.empty())
      fail("{}: {} node{} cannot be imported:\n{}", model_.path, refused.size(), refused.size() == 1 ? "" : "s", fmt::join(refused, "\n"));
    std::vector<TensorId> outputs;
    build_.set_source({});
    for (const std::string& name : model_.outputs) {
      const auto found = values_.find(name);
      if (found == values_.end()) fail("{}: output '{}' is produced by nothing in the file", model_.path, name);
      TensorId id = tensor(found->second, name);
      // Each output is a result of its own, under the file's name.
      const bool taken = std::find(outputs.begin(), outputs.end(), id) != outputs.end();
      if (!build_.graph().tensor(id).producer.valid() || build_.graph().tensor(id).name != name || taken) {
        reserved_.erase(name);
        id = build_.op("identity", {id}, {}, name);
        if (build_.graph().tensor(id).name != name) fail("{}: output '{}' has the name of an input or initializer that it is not", model_.path, name);
      }
      outputs.push_back(id);
    }
    return fold_constants(build_.finish(outputs));
  }

 private:
  using Fate = OnnxNode::Fate;
  // The converted node's first results; an invalid Value for one that nobody may read.
  using Results = std::vector<Value>;
  using Converter = Results (Importer::*)();

  static std::string name_of_file(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
    return file.substr(0, file.rfind('.'));
  }

  // ---------------------------------------------------------------- inputs and initializers

  void bind_inputs(const OnnxOptions& options) {
    std::set<std::string> symbols, used;
    for (const Input& input : model_.inputs) {
      Shape shape;
      for (std::size_t a = 0; a < input.shape.size(); ++a) {
        const Dimension& dim = input.shape[a];
        int64_t extent = dim.extent;
        if (extent < 0) {
          const std::string symbol = dim.symbol.empty() ? fmt::format("{}.{}", input.name, a) : dim.symbol;
          symbols.insert(symbol);
          const auto bound = options.bindings.find(symbol);
          if (bound != options.bindings.end()) {
            extent = bound->second;
            used.insert(symbol);
            if (extent < 1) fail("{}: --bind {}={}: an extent is at least 1", model_.path, symbol, extent);
          } else if (a > 0 || options.batch == 0) {
            fail("{}: input '{}', dimension {} ('{}') has no extent; give one: --bind {}=N", model_.path, input.name, a, symbol, symbol);
          }
        }
        if (a == 0 && options.batch != 0) {
          if (options.batch < 1) fail("{}: a batch of {}", model_.path, options.batch);
          if (dim.extent < 0 && extent > 0 && extent != options.batch)
            fail("{}: input '{}', dimension 0 is bound to {}, but the batch is {}", model_.path, input.name, extent, options.batch);
          if (dim.extent >= 0 && dim.extent != options.batch) file_batch_ = dim.extent;
          extent = batch_ = options.batch;
        }
        shape.push_back(extent);
      }
      const TensorId id = build_.input(input.name, shape, input.dtype);
      reserved_.insert(input.name);
      values_[input.name] = {shape, input.dtype, id, nullptr};
    }
    for (const auto& [name, extent] : options.bindings)
      if (!symbols.contains(name)) {
        const std::string known = symbols.empty() ? std::string("it has none; use --batch to replace a fixed batch") : fmt::format("it has {}", fmt::join(symbols, ", "));
        fail("{}: --bind {}={}: the model has no symbolic dimension of that name: {}", model_.path, name, extent, known);
      }
  }

  void find_state() {
    for (const Node& node : model_.nodes)
      if (node.operation == "BatchNormalization" && node.inputs.size() == 5)
        for (std::size_t i : {3, 4}) state_.insert(node.inputs[i]);
  }

  // Parameters and state in the file's order; constants when somebody reads them.
  void add_initializer(const std::string& name) {
    const Initializer& initializer = model_.initializers.at(name);
    const Values& values = initializer.values;
    Value value{values.shape, values.dtype, {}, nullptr};
    // A scalar that no module owns is a number in the model's code.
    const bool number = values.shape.empty() || (volume(values.shape) == 1 && name.find('.') == std::string::npos);
    const bool weight = is_float(values.dtype) && initializer.kind != "BUFFER" && (initializer.kind == "PARAMETER" || !number);
    if (!read_.contains(name)) {
      value.constant = std::make_shared<const Values>(values);  // not read: never in the graph
    } else if (state_.contains(name) && is_float(values.dtype)) {
      value.tensor = build_.state(name, values);
    } else if (weight) {
      value.tensor = build_.parameter(name, values);
    } else {
      value.constant = std::make_shared<const Values>(values);
    }
    reserved_.insert(name);
    values_[name] = std::move(value);
  }

  // ---------------------------------------------------------------- nodes

  // `y = MatMul(x, Transpose(w))` of a matrix w reads w itself: the transposed form of a linear layer.
  const Node* transposed_weight(const Node& node) const {
    if (node.operation != "MatMul" || node.inputs.size() != 2) return nullptr;
    const auto found = producer_.find(node.inputs[1]);
    if (found == producer_.end()) return nullptr;
    const Node& transpose = model_.nodes[found->second];
    const auto perm = transpose.attributes.find("perm");
    const auto* order = perm == transpose.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&perm->second);
    return transpose.operation == "Transpose" && order && *order == std::vector<int64_t>{1, 0} ? &transpose : nullptr;
  }

  std::vector<std::string> inputs_of(const Node& node) const {
    if (const Node* transpose = transposed_weight(node)) return {node.inputs[0], transpose->inputs.at(0)};
    return node.inputs;
  }

  // Nodes that an output depends on, and the names that they read.
  void find_live() {
    for (std::size_t i = 0; i < model_.nodes.size(); ++i)
      for (const std::string& name : model_.nodes[i].outputs) producer_[name] = i;
    live_.assign(model_.nodes.size(), false);
    read_.insert(model_.outputs.begin(), model_.outputs.end());
    for (std::size_t i = model_.nodes.size(); i-- > 0;) {
      const Node& node = model_.nodes[i];
      live_[i] = std::any_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& name) { return read_.contains(name); });
      if (!live_[i]) continue;
      for (const std::string& name : inputs_of(node)) read_.insert(name);
    }
    read_.erase("");
  }

  OnnxNode import_node(std::size_t i) {
    node_ = &model_.nodes[i];
    OnnxNode report{Fate::kImported, node_->name, node_->operation, node_->source, ""};
    if (!node_->domain.empty()) report.operation = node_->domain + "::" + node_->operation;
    auto refuse = [&](std::string why) {
      report.fate = Fate::kUnsupported;
      report.why = std::move(why);
      return report;
    };
    if (!live_[i]) {
      report.fate = Fate::kUnused;
      return report;
    }
    const auto converter = converters().find(node_->operation);
    const bool known = node_->domain.empty() && (converter != converters().end() || can_evaluate(node_->operation) || node_->operation == "Shape" || node_->operation == "Size");
    if (!known) return refuse("no operation of ours stands for it");
    if (!node_->unreadable.empty()) return refuse(node_->unreadable);

    in_.clear();
    bool all_constant = true;
    in_names_ = inputs_of(*node_);
    for (const std::string& name : in_names_) {
      if (name.empty()) {
        in_.push_back(nullptr);
        continue;
      }
      const auto found = values_.find(name);
      if (found == values_.end()) {
        report.fate = Fate::kBlocked;
        return report;
      }
      all_constant = all_constant && found->second.constant;
      in_.push_back(&found->second);
    }
    const std::size_t first_op = build_.graph().ops.size();
    try {
      Results results;
      if (node_->operation == "Shape" || node_->operation == "Size") {
        results = {shape_of()};
      } else if (all_constant && can_evaluate(node_->operation)) {
        std::vector<const Values*> constants;
        for (const Value* value : in_) constants.push_back(value ? value->constant.get() : nullptr);
        results = {constant(evaluate_constant(*node_, constants))};
      } else if (converter == converters().end()) {
        return refuse("its operands are not constant, and it is supported for constants only");
      } else {
        build_.set_source(node_->source);
        op_name_ = chosen_name();
        results = (this->*converter->second)();
      }
      for (std::size_t r = 0; r < node_->outputs.size(); ++r) {
        const std::string& name = node_->outputs[r];
        if (name.empty()) continue;
        if (r < results.size()) values_[name] = results[r];
        else if (read_.contains(name)) return refuse(fmt::format("its result {} ('{}') is read, and is not supported", r, name));
      }
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      return refuse(error.what());
    }
    std::vector<std::string> made;
    for (std::size_t o = first_op; o < build_.graph().ops.size(); ++o) made.push_back(build_.graph().ops[o].definition);
    if (made.empty()) report.fate = Fate::kFolded;
    else report.why = fmt::format("{}", fmt::join(made, ", "));
    return report;
  }

  // The output's own name for what the graph gives back; else the module with the weights, or module.operation.
  std::string chosen_name() {
    for (const std::string& name : node_->outputs)
      if (std::find(model_.outputs.begin(), model_.outputs.end(), name) != model_.outputs.end()) return name;
    const std::string& module = node_->source.module;
    std::string name;
    for (const std::string& input : in_names_)
      if (!module.empty() && input.starts_with(module + ".") && input.find('.', module.size() + 1) == std::string::npos && model_.initializers.contains(input)) name = module;
    if (name.empty()) {
      std::string last = node_->scopes.empty() ? node_->name : node_->scopes.back();
      if (node_->scopes.empty() || last == node_->operation)
        std::transform(last.begin(), last.end(), last.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      name = module.empty() ? last : module + "." + last;
    }
    while (reserved_.contains(name)) name += "_op";
    return name;
  }

  // ---------------------------------------------------------------- making ops

  static Value constant(Values values) {
    Value value{values.shape, values.dtype, {}, nullptr};
    value.constant = std::make_shared<const Values>(std::move(values));
    return value;
  }
  Value made(TensorId id) const { return {build_.graph().tensor(id).shape, build_.graph().tensor(id).dtype, id, nullptr}; }

  // The graph's tensor of a value; a constant becomes one here.
  TensorId tensor(Value& value, const std::string& name) {
    if (value.tensor.valid()) return value.tensor;
    ensure(value.constant != nullptr, "'{}' is neither a tensor nor a constant", name);
    std::string free = model_.initializers.contains(name) ? name : name + ".constant";
    while (build_.graph().find_tensor(free).valid() || (free != name && reserved_.contains(free))) free += "_";
    return value.tensor = build_.constant(free, *value.constant);
  }
  TensorId tensor(std::size_t operand) {
    if (operand >= in_.size() || !in_[operand]) fail("operand {} is missing", operand);
    return tensor(values_.at(in_names_[operand]), in_names_[operand]);
  }
  const Value& value(std::size_t operand) const {
    if (operand >= in_.size() || !in_[operand]) fail("operand {} is missing", operand);
    return *in_[operand];
  }
  bool present(std::size_t operand) const { return operand < in_.size() && in_[operand]; }
  const Values* constant_operand(std::size_t operand, const char* what) const {
    if (!present(operand)) return nullptr;
    if (!in_[operand]->constant) fail("its {} ('{}') are computed from the data; only constant ones are supported", what, in_names_[operand]);
    return in_[operand]->constant.get();
  }
  // A list that is an attribute in old opsets and an operand in new ones.
  std::vector<int64_t> list(const char* attribute, std::size_t operand) const {
    const Values* values = constant_operand(operand, attribute);
    return values ? values->integer : integers(*node_, attribute);
  }

  Value op(const char* definition, std::vector<TensorId> operands, tdl::Attributes attributes = {}) {
    return made(build_.ops(definition, std::move(operands), std::move(attributes), op_name_).front());
  }
  // An op before the node's last, named after it.
  TensorId before(const char* definition, std::vector<TensorId> operands, tdl::Attributes attributes = {}) {
    return build_.op(definition, std::move(operands), std::move(attributes), op_name_ + "." + definition);
  }
  TensorId number(double v, DType dtype) { return build_.scalar(op_name_ + ".number", v, dtype); }
  // The operand itself under another name.
  Value same(std::size_t operand) const { return value(operand); }

  Value reshape_to(std::size_t operand, const Shape& shape) {
    if (shape == value(operand).shape) return same(operand);
    return op("reshape", {tensor(operand)}, listed("shape", shape));
  }

  Value shape_of() {
    const Shape& shape = value(0).shape;
    if (node_->operation == "Size") return constant({.dtype = DType::kInt64, .shape = {}, .integer = {volume(shape)}});
    const int64_t rank = static_cast<int64_t>(shape.size());
    auto end = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const int64_t first = end(integer(*node_, "start", 0)), last = std::max(first, end(integer(*node_, "end", rank)));
    return constant({.dtype = DType::kInt64, .shape = {last - first}, .integer = {shape.begin() + first, shape.begin() + last}});
  }

  // ---------------------------------------------------------------- converters

  template <const char* const& definition>
  Results unary() {
    return {op(definition, {tensor(0)})};
  }

  Results convolution() {
    const Shape x = value(0).shape, w = value(1).shape;
    if (x.size() != 4 || w.size() != 4) fail("a convolution of {} with {}: only two-dimensional ones are supported", shape_text(x), shape_text(w));
    tdl::Attributes attributes = windows(x, {w[2], w[3]});
    attributes["groups"] = static_cast<double>(integer(*node_, "group", 1));
    std::vector<TensorId> operands{tensor(0), tensor(1)};
    if (present(2) && !is_zero(value(2))) operands.push_back(tensor(2));
    return {op("conv2d", std::move(operands), std::move(attributes))};
  }

  static bool is_zero(const Value& value) {
    return value.constant && std::all_of(value.constant->real.begin(), value.constant->real.end(), [](double v) { return v == 0; }) &&
           std::all_of(value.constant->integer.begin(), value.constant->integer.end(), [](int64_t v) { return v == 0; });
  }

  // Stride, dilation and padding of a window over the last two axes of x.
  tdl::Attributes windows(const Shape& x, const std::array<int64_t, 2>& kernel) {
    auto pair = [&](const char* name) {
      const std::vector<int64_t> values = integers(*node_, name);
      if (!values.empty() && values.size() != 2) fail("{} of {} axes: only two-dimensional windows are supported", name, values.size());
      return values.empty() ? std::vector<int64_t>{1, 1} : values;
    };
    const std::vector<int64_t> stride = pair("strides"), dilation = pair("dilations");
    std::vector<int64_t> pads = integers(*node_, "pads");
    if (pads.empty()) pads = {0, 0, 0, 0};
    if (pads.size() != 4) fail("pads of {} numbers", pads.size());
    const std::string automatic = text(*node_, "auto_pad", "NOTSET");
    if (automatic == "VALID") pads = {0, 0, 0, 0};
    else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      for (std::size_t a = 0; a < 2; ++a) {
        if (stride[a] < 1) fail("a stride of {}", stride[a]);
        const int64_t count = (x[2 + a] + stride[a] - 1) / stride[a];
        const int64_t total = std::max<int64_t>(0, (count - 1) * stride[a] + dilation[a] * (kernel[a] - 1) + 1 - x[2 + a]);
        pads[a] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
        pads[a + 2] = total - pads[a];
      }
    } else if (automatic != "NOTSET") {
      fail("auto_pad {}", automatic);
    }
    auto d = [](int64_t v) { return static_cast<double>(v); };
    return {{"sh", d(stride[0])}, {"sw", d(stride[1])}, {"dh", d(dilation[0])}, {"dw", d(dilation[1])},
            {"pt", d(pads[0])},   {"pl", d(pads[1])},   {"pb", d(pads[2])},     {"pr", d(pads[3])}};
  }

  tdl::Attributes pool_attributes() {
    const Shape& x = value(0).shape;
    const std::vector<int64_t> kernel = integers(*node_, "kernel_shape");
    if (x.size() != 4 || kernel.size() != 2) fail("pooling of {}: only two-dimensional pooling is supported", shape_text(x));
    tdl::Attributes attributes = windows(x, {kernel[0], kernel[1]});
    attributes["kh"] = static_cast<double>(kernel[0]);
    attributes["kw"] = static_cast<double>(kernel[1]);
    attributes["ceil"] = static_cast<double>(integer(*node_, "ceil_mode", 0));
    return attributes;
  }
  Results max_pool() {
    if (integer(*node_, "storage_order", 0)) fail("storage_order 1");
    return {op("max_pool", {tensor(0)}, pool_attributes())};
  }
  Results average_pool() {
    tdl::Attributes attributes = pool_attributes();
    attributes["count_padding"] = static_cast<double>(integer(*node_, "count_include_pad", 0));
    return {op("average_pool", {tensor(0)}, std::move(attributes))};
  }
  Results global_average_pool() {
    if (value(0).shape.size() != 4) fail("global pooling of {}: only two-dimensional pooling is supported", shape_text(value(0).shape));
    return {op("global_average_pool", {tensor(0)})};
  }
  Results global_max_pool() {
    if (value(0).shape.size() != 4) fail("global pooling of {}: only two-dimensional pooling is supported", shape_text(value(0).shape));
    return {op("reduce_max", {tensor(0)}, {{"axes.0", 2}, {"axes.1", 3}, {"keepdims", 1}})};
  }

  Results batch_norm() {
    if (in_.size() != 5) fail("{} operands instead of 5", in_.size());
    const double eps = real(*node_, "epsilon", 1e-5), momentum = 1 - real(*node_, "momentum", 0.9);
    const TensorId x = tensor(0), scale = tensor(1), bias = tensor(2), mean = tensor(3), variance = tensor(4);
    const auto role = [&](TensorId id) { return build_.graph().tensor(id).role; };
    if (role(mean) != Role::kState || role(variance) != Role::kState)
      fail("its running mean and variance are no initializers of the file");
    if (!normalized_.insert(mean).second || !normalized_.insert(variance).second)
      fail("its running statistics are shared with another BatchNormalization: a module that is used twice cannot be trained");
    // The result must have the node's name, and batch_norm has three.
    const bool is_output = std::find(model_.outputs.begin(), model_.outputs.end(), op_name_) != model_.outputs.end();
    return {made(batch_norm_training(build_, x, scale, bias, mean, variance, eps, momentum, is_output ? op_name_ + ".norm" : op_name_))};
  }

  Results gemm() {
    const double alpha = real(*node_, "alpha", 1), beta = real(*node_, "beta", 1);
    if (value(0).shape.size() != 2 || value(1).shape.size() != 2) fail("operands {} and {}", shape_text(value(0).shape), shape_text(value(1).shape));
    const bool bias = present(2) && beta != 0 && !is_zero(value(2));
    const bool transposed = integer(*node_, "transB", 0) != 0;
    TensorId x = tensor(0);
    if (integer(*node_, "transA", 0)) x = before("transpose", {x}, listed("perm", {1, 0}));
    const tdl::Attributes attributes{{"transposed", transposed ? 1.0 : 0.0}};
    const int64_t outputs = value(1).shape[transposed ? 0 : 1];
    if (alpha == 1 && !bias) return {op("linear", {x, tensor(1)}, attributes)};
    if (alpha == 1 && beta == 1 && value(2).shape == Shape{outputs}) return {op("linear", {x, tensor(1), tensor(2)}, attributes)};
    TensorId y = before("linear", {x, tensor(1)}, attributes);
    const DType dtype = build_.graph().tensor(y).dtype;
    if (alpha != 1 && !bias) return {op("mul", {y, number(alpha, dtype)})};
    if (alpha != 1) y = before("mul", {y, number(alpha, dtype)});
    TensorId b = tensor(2);
    if (beta != 1) b = before("mul", {b, number(beta, dtype)});
    return {op("add", {y, b})};
  }

  Results matmul() {
    const Shape &a = value(0).shape, &b = value(1).shape;
    if (transposed_weight(*node_)) {
      if (a.size() >= 2 && b.size() == 2) return {op("linear", {tensor(0), tensor(1)}, {{"transposed", 1}})};
      fail("operands {} and {} transposed", shape_text(a), shape_text(b));
    }
    if (a.size() < 2 || b.size() < 2) fail("operands {} and {}: products with vectors are not supported", shape_text(a), shape_text(b));
    if (b.size() == 2 && build_.graph().tensor(tensor(1)).role == Role::kParameter) return {op("linear", {tensor(0), tensor(1)})};
    return {op("matmul", {tensor(0), tensor(1)})};
  }

  // Element-wise of any number of operands, one by one.
  Value chain(const char* definition) {
    if (in_.empty()) fail("no operands");
    if (in_.size() == 1) return same(0);
    TensorId sum = tensor(0);
    for (std::size_t i = 1; i + 1 < in_.size(); ++i) sum = before(definition, {sum, tensor(i)});
    return op(definition, {sum, tensor(in_.size() - 1)});
  }

  template <const char* const& definition>
  Results binary() {
    const auto& a = value(0);
    const auto& b = value(1);
    if (a.dtype != b.dtype) fail("operands of {} and {}", name_of(a.dtype), name_of(b.dtype));
    broadcast(a.shape, b.shape);
    return {op(definition, {tensor(0), tensor(1)})};
  }
  template <const char* const& definition>
  Results any_number() {
    return {chain(definition)};
  }
  Results mean() {
    const Value sum = in_.size() > 1 ? made(before("add", {tensor(0), tensor(1)})) : same(0);
    TensorId total = sum.tensor;
    for (std::size_t i = 2; i < in_.size(); ++i) total = before("add", {total, tensor(i)});
    if (in_.size() == 1) return {sum};
    return {op("div", {total, number(static_cast<double>(in_.size()), sum.dtype)})};
  }
  Results division() {
    if (!is_float(value(0).dtype)) fail("a division of integers that are not constant");
    static constexpr const char* kDiv = "div";
    return binary<kDiv>();
  }
  Results power() {
    const Values* exponent = value(1).constant.get();
    if (exponent && volume(exponent->shape) == 1 && exponent->shape.size() <= value(0).shape.size() && is_float(value(0).dtype)) {
      const double e = is_float(exponent->dtype) ? exponent->real[0] : static_cast<double>(exponent->integer[0]);
      if (e == 1) return {same(0)};
      if (e == 2) return {op("square", {tensor(0)})};
      if (e == 0.5) return {op("sqrt", {tensor(0)})};
      if (e == -1) return {op("reciprocal", {tensor(0)})};
      return {op("pow", {tensor(0), number(e, value(0).dtype)})};
    }
    static constexpr const char* kPow = "pow";
    return binary<kPow>();
  }
  Results where() {
    if (value(1).dtype != value(2).dtype) fail("choices of {} and {}", name_of(value(1).dtype), name_of(value(2).dtype));
    return {op("where", {tensor(0), tensor(1), tensor(2)})};
  }
  Results leaky_relu() { return {op("leaky_relu", {tensor(0)}, {{"alpha", real(*node_, "alpha", 0.01)}})}; }
  Results clip() {
    auto bound = [&](std::size_t operand, const char* name, double otherwise) {
      const Values* values = constant_operand(operand, "bounds");
      if (!values) return real(*node_, name, otherwise);
      if (volume(values->shape) != 1 || !is_float(values->dtype)) fail("a bound that is no floating number");
      return values->real[0];
    };
    const double infinity = std::numeric_limits<double>::infinity();
    return {op("clip", {tensor(0)}, {{"lo", bound(1, "min", -infinity)}, {"hi", bound(2, "max", infinity)}})};
  }
  Results gelu() { return {op(text(*node_, "approximate", "none") == "tanh" ? "gelu_tanh" : "gelu", {tensor(0)})}; }

  template <const char* const& definition>
  Results softmax() {
    const Shape& x = value(0).shape;
    const int64_t axis = axis_of(integer(*node_, "axis", model_.opset >= 13 ? -1 : 1), x.size());
    // Before opset 13 all axes from `axis` on are one.
    if (model_.opset < 13 && axis + 1 != static_cast<int64_t>(x.size())) fail("axis {} of {} in opset {}, which joins the axes behind it", axis, shape_text(x), model_.opset);
    return {op(definition, {tensor(0)}, {{"axis", static_cast<double>(axis)}})};
  }

  template <const char* const& definition>
  Results reduction() {
    const Shape& x = value(0).shape;
    std::vector<int64_t> axes = list("axes", 1);
    if (axes.empty() && integer(*node_, "noop_with_empty_axes", 0)) return {same(0)};
    for (int64_t& axis : axes) axis = axis_of(axis, x.size());
    std::sort(axes.begin(), axes.end());
    const bool keepdims = integer(*node_, "keepdims", 1) != 0;
    if (std::string_view(definition) == "reduce_mean" && x.size() == 4 && axes == std::vector<int64_t>{2, 3} && keepdims) return {op("global_average_pool", {tensor(0)})};
    tdl::Attributes attributes = listed("axes", axes);
    attributes["keepdims"] = keepdims;
    return {op(definition, {tensor(0)}, std::move(attributes))};
  }
  Results argmax() {
    const Shape& x = value(0).shape;
    if (axis_of(integer(*node_, "axis", 0), x.size()) + 1 != static_cast<int64_t>(x.size()) || integer(*node_, "select_last_index", 0)) fail("only the first along the last axis is supported");
    if (!integer(*node_, "keepdims", 1)) return {op("argmax", {tensor(0)})};
    const TensorId y = before("argmax", {tensor(0)});
    Shape shape = x;
    shape.back() = 1;
    return {op("reshape", {y}, listed("shape", shape))};
  }

  // A shape in the file may have the file's batch in it; under another batch that extent, or multiple of it, is the new one's.
  void rebatch(const Shape& x, std::vector<int64_t>& target) const {
    if (file_batch_ <= 0 || target.empty() || x.empty()) return;
    if (target[0] >= file_batch_ && target[0] % file_batch_ == 0 && x[0] % batch_ == 0) target[0] = target[0] / file_batch_ * batch_;
  }
  Results reshape() {
    const Values* shape = constant_operand(1, "shape");
    std::vector<int64_t> target = shape ? shape->integer : integers(*node_, "shape");
    rebatch(value(0).shape, target);
    return {reshape_to(0, reshaped(value(0).shape, target, integer(*node_, "allowzero", 0) != 0))};
  }
  Results flatten() {
    const Shape& x = value(0).shape;
    const int64_t axis = integer(*node_, "axis", 1);
    const int64_t front = axis == static_cast<int64_t>(x.size()) ? axis : axis_of(axis, x.size());
    const int64_t rows = volume(Shape(x.begin(), x.begin() + front));
    return {reshape_to(0, {rows, volume(Shape(x.begin() + front, x.end()))})};
  }
  Results squeeze() { return {reshape_to(0, squeezed(value(0).shape, list("axes", 1)))}; }
  Results unsqueeze() { return {reshape_to(0, unsqueezed(value(0).shape, list("axes", 1)))}; }
  Results expand() {
    const Values* shape = constant_operand(1, "shape");
    if (!shape) fail("its shape is missing");
    std::vector<int64_t> target = shape->integer;
    if (target.size() == value(0).shape.size()) rebatch(value(0).shape, target);
    const Shape to = broadcast(value(0).shape, target);
    return {to == value(0).shape ? same(0) : op("expand", {tensor(0)}, listed("shape", to))};
  }
  Results transpose() {
    const std::size_t rank = value(0).shape.size();
    std::vector<int64_t> order = integers(*node_, "perm");
    if (order.empty())
      for (std::size_t a = rank; a-- > 0;) order.push_back(static_cast<int64_t>(a));
    if (std::is_sorted(order.begin(), order.end()) && order.size() == rank) return {same(0)};
    return {op("transpose", {tensor(0)}, listed("perm", order))};
  }
  Results concat() {
    std::vector<TensorId> operands;
    const int64_t axis = axis_of(integer(*node_, "axis", 0), value(0).shape.size());
    for (std::size_t i = 0; i < in_.size(); ++i)
      if (value(i).shape.size() == value(0).shape.size() && volume(value(i).shape) == 0 && in_.size() > 1 && volume(value(0).shape) != 0) continue;  // an empty part
      else operands.push_back(tensor(i));
    if (operands.size() == 1 && in_.size() == 1) return {same(0)};
    return {op("concat", std::move(operands), {{"axis", static_cast<double>(axis)}})};
  }
  Results slice() {
    const Shape& x = value(0).shape;
    const SliceRange range = slice_range(x, list("starts", 1), list("ends", 2), list("axes", 3), present(4) ? list("steps", 4) : std::vector<int64_t>());
    if (range.sizes == x && std::all_of(range.steps.begin(), range.steps.end(), [](int64_t s) { return s == 1; })) return {same(0)};
    tdl::Attributes attributes = listed("starts", range.starts);
    attributes.merge(listed("sizes", range.sizes));
    attributes.merge(listed("steps", range.steps));
    return {op("slice", {tensor(0)}, std::move(attributes))};
  }
  Results split() {
    const Shape& x = value(0).shape;
    const std::size_t axis = static_cast<std::size_t>(axis_of(integer(*node_, "axis", 0), x.size()));
    std::vector<int64_t> sizes = list("split", 1);
    const int64_t parts = static_cast<int64_t>(node_->outputs.size());
    if (sizes.empty()) {
      const int64_t each = (x[axis] + parts - 1) / parts;  // the last may be smaller
      for (int64_t left = x[axis]; static_cast<int64_t>(sizes.size()) < parts; left -= each) sizes.push_back(std::clamp<int64_t>(left, 0, each));
    }
    if (static_cast<int64_t>(sizes.size()) != parts) fail("{} sizes for {} results", sizes.size(), parts);
    tdl::Attributes attributes = listed("sizes", sizes);
    attributes["axis"] = static_cast<double>(axis);
    Results results;
    for (TensorId id : build_.ops("split", {tensor(0)}, std::move(attributes), op_name_)) results.push_back(made(id));
    return results;
  }
  Results pad() {
    const Shape& x = value(0).shape;
    const std::string mode = text(*node_, "mode", "constant");
    if (mode != "constant") fail("mode {}: only constant padding is supported", mode);
    const std::vector<int64_t> pads = list("pads", 1);
    std::vector<int64_t> axes = list("axes", 3), before(x.size()), after(x.size());
    if (axes.empty())
      for (std::size_t a = 0; a < x.size(); ++a) axes.push_back(static_cast<int64_t>(a));
    if (pads.size() != 2 * axes.size()) fail("{} pads for {} axes", pads.size(), axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::size_t a = static_cast<std::size_t>(axis_of(axes[i], x.size()));
      before[a] = pads[i];
      after[a] = pads[i + axes.size()];
    }
    const Values* fill = constant_operand(2, "values");
    if (fill && volume(fill->shape) != 1) fail("a padding value of shape {}", shape_text(fill->shape));
    if (is_all_zero(before) && is_all_zero(after)) return {same(0)};
    tdl::Attributes attributes = listed("before", before);
    attributes.merge(listed("after", after));
    attributes["value"] = !fill ? real(*node_, "value", 0) : is_float(fill->dtype) ? fill->real[0] : static_cast<double>(fill->integer[0]);
    return {op("pad", {tensor(0)}, std::move(attributes))};
  }
  static bool is_all_zero(const std::vector<int64_t>& values) {
    return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
  }
  Results gather() {
    const Shape& x = value(0).shape;
    const std::size_t axis = static_cast<std::size_t>(axis_of(integer(*node_, "axis", 0), x.size()));
    const Value& ids = value(1);
    if (is_float(ids.dtype)) fail("ids of {}", name_of(ids.dtype));
    if (ids.constant && volume(ids.shape) == 1) {  // one place: a slice
      tdl::Attributes attributes = listed("starts", std::vector<int64_t>(x.size()));
      Shape sizes = x;
      sizes[axis] = 1;
      attributes.merge(listed("sizes", sizes));
      attributes[fmt::format("starts.{}", axis)] = static_cast<double>(axis_of(ids.constant->integer[0], static_cast<std::size_t>(x[axis])));
      Shape shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
      shape.insert(shape.end(), ids.shape.begin(), ids.shape.end());
      shape.insert(shape.end(), x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end());
      if (shape == sizes) return {op("slice", {tensor(0)}, std::move(attributes))};
      const TensorId y = before("slice", {tensor(0)}, std::move(attributes));
      return {op("reshape", {y}, listed("shape", shape))};
    }
    TensorId places = tensor(1);
    if (ids.constant && std::any_of(ids.constant->integer.begin(), ids.constant->integer.end(), [](int64_t v) { return v < 0; })) {
      Values positive = *ids.constant;
      for (int64_t& id : positive.integer) id = axis_of(id, static_cast<std::size_t>(x[axis]));
      Value counted = constant(std::move(positive));
      places = tensor(counted, op_name_ + ".ids");
    }
    return {op("gather", {tensor(0), places}, {{"axis", static_cast<double>(axis)}})};
  }
  Results cast_to(DType to) {
    if (value(0).dtype == to) return {same(0)};
    return {op("cast", {tensor(0)}, {{"to", static_cast<double>(to)}})};
  }
  Results cast() {
    const auto to = dtype_of(integer(*node_, "to", 0));
    if (!to) fail("a cast to {}, which is not supported", type_name(integer(*node_, "to", 0)));
    return cast_to(*to);
  }
  Results cast_like() { return cast_to(value(1).dtype); }
  Results identity() { return {same(0)}; }
  Results dropout() {
    const Values* training = constant_operand(2, "mode");
    const Values* ratio = constant_operand(1, "ratio");
    if (training && !training->integer.empty() && training->integer[0] && !(ratio && !ratio->real.empty() && ratio->real[0] == 0))
      fail("dropout in training mode is not supported: export the model in evaluation mode (model.eval())");
    return {same(0)};
  }

  static const std::map<std::string, Converter>& converters() {
    static constexpr const char *kRelu = "relu", *kTanh = "tanh", *kSigmoid = "sigmoid", *kErf = "erf", *kExp = "exp", *kLog = "log", *kSqrt = "sqrt", *kNeg = "neg",
                                *kAbs = "abs", *kSign = "sign", *kFloor = "floor", *kReciprocal = "reciprocal", *kSin = "sin", *kCos = "cos", *kNot = "logical_not",
                                *kAdd = "add", *kSub = "sub", *kMul = "mul", *kMaximum = "maximum", *kMinimum = "minimum", *kEqual = "equal", *kLess = "less",
                                *kLessEqual = "less_equal", *kGreater = "greater", *kGreaterEqual = "greater_equal", *kAnd = "logical_and", *kOr = "logical_or",
                                *kSoftmax = "softmax", *kLogSoftmax = "log_softmax", *kSum = "reduce_sum", *kMean = "reduce_mean", *kMax = "reduce_max",
                                *kMin = "reduce_min", *kProd = "reduce_prod", *kSilu = "silu";
    static const std::map<std::string, Converter> table{
        {"Conv", &Importer::convolution},
        {"BatchNormalization", &Importer::batch_norm},
        {"MaxPool", &Importer::max_pool},
        {"AveragePool", &Importer::average_pool},
        {"GlobalAveragePool", &Importer::global_average_pool},
        {"GlobalMaxPool", &Importer::global_max_pool},
        {"Gemm", &Importer::gemm},
        {"MatMul", &Importer::matmul},
        {"Relu", &Importer::unary<kRelu>},
        {"Tanh", &Importer::unary<kTanh>},
        {"Sigmoid", &Importer::unary<kSigmoid>},
        {"Swish", &Importer::unary<kSilu>},
        {"Erf", &Importer::unary<kErf>},
        {"Exp", &Importer::unary<kExp>},
        {"Log", &Importer::unary<kLog>},
        {"Sqrt", &Importer::unary<kSqrt>},
        {"Neg", &Importer::unary<kNeg>},
        {"Abs", &Importer::unary<kAbs>},
        {"Sign", &Importer::unary<kSign>},
        {"Floor", &Importer::unary<kFloor>},
        {"Reciprocal", &Importer::unary<kReciprocal>},
        {"Sin", &Importer::unary<kSin>},
        {"Cos", &Importer::unary<kCos>},
        {"Not", &Importer::unary<kNot>},
        {"LeakyRelu", &Importer::leaky_relu},
        {"Clip", &Importer::clip},
        {"Gelu", &Importer::gelu},
        {"Add", &Importer::binary<kAdd>},
        {"Sub", &Importer::binary<kSub>},
        {"Mul", &Importer::binary<kMul>},
        {"Div", &Importer::division},
        {"Pow", &Importer::power},
        {"Equal", &Importer::binary<kEqual>},
        {"Less", &Importer::binary<kLess>},
        {"LessOrEqual", &Importer::binary<kLessEqual>},
        {"Greater", &Importer::binary<kGreater>},
        {"GreaterOrEqual", &Importer::binary<kGreaterEqual>},
        {"And", &Importer::binary<kAnd>},
        {"Or", &Importer::binary<kOr>},
        {"Where", &Importer::where},
        {"Sum", &Importer::any_number<kAdd>},
        {"Max", &Importer::any_number<kMaximum>},
        {"Min", &Importer::any_number<kMinimum>},
        {"Mean", &Importer::mean},
        {"Softmax", &Importer::softmax<kSoftmax>},
        {"LogSoftmax", &Importer::softmax<kLogSoftmax>},
        {"ReduceSum", &Importer::reduction<kSum>},
        {"ReduceMean", &Importer::reduction<kMean>},
        {"ReduceMax", &Importer::reduction<kMax>},
        {"ReduceMin", &Importer::reduction<kMin>},
        {"ReduceProd", &Importer::reduction<kProd>},
        {"ArgMax", &Importer::argmax},
        {"Reshape", &Importer::reshape},
        {"Flatten", &Importer::flatten},
        {"Squeeze", &Importer::squeeze},
        {"Unsqueeze", &Importer::unsqueeze},
        {"Expand", &Importer::expand},
        {"Transpose", &Importer::transpose},
        {"Concat", &Importer::concat},
        {"Slice", &Importer::slice},
        {"Split", &Importer::split},
        {"Pad", &Importer::pad},
        {"Gather", &Importer::gather},
        {"Cast", &Importer::cast},
        {"CastLike", &Importer::cast_like},
        {"Identity", &Importer::identity},
        {"Dropout", &Importer::dropout},
    };
    return table;
  }

  const Model model_;
  GraphBuilder build_;
  std::map<std::string, Value> values_;
  std::map<std::string, std::size_t> producer_;
  std::vector<bool> live_;
  std::set<std::string> read_, state_, reserved_;
  std::set<TensorId> normalized_;
  int64_t file_batch_ = 0, batch_ = 0;  // set where --batch replaces another batch of the file
  std::vector<OnnxNode> report_;

  // The node being imported: its operands and the name of its last op.
  const Node* node_ = nullptr;
  std::vector<std::string> in_names_;
  std::vector<const Value*> in_;  // null: absent
  std::string op_name_;
};

}  // namespace

std::string_view name_of(OnnxNode::Fate fate) {
  switch (fate) {
    case OnnxNode::Fate::kImported: return "imported";
    case OnnxNode::Fate::kFolded: return "folded";
    case OnnxNode::Fate::kUnused: return "unused";
    case OnnxNode::Fate::kBlocked: return "behind an unsupported node";
    case OnnxNode::Fate::kUnsupported: return "unsupported";
  }
  return "";
}

Graph import_onnx(const std::string& path, const OnnxOptions& options, std::shared_ptr<const OpRegistry> registry) {
  return Importer(path, options, std::move(registry)).finish();
}

std::vector<OnnxNode> describe_onnx(const std::string& path, const OnnxOptions& options, std::shared_ptr<const OpRegistry> registry) {
  return Importer(path, options, std::move(registry)).report();
}

}  // namespace partita
