// Reads the nodes of an ONNX file.
#include "partita/onnx/nodes.h"

#include "partita/base/error.h"
#include "partita/onnx/origins.h"
#include "partita/onnx/tensors.h"

namespace partita::onnx_model {
namespace {

constexpr int kDeepest = 64;                   // functions or subgraphs in each other; more is a circle
constexpr std::size_t kMostNodes = 1'000'000;  // after inlining; and as many calls

std::string domain(const std::string& name) { return name == "ai.onnx" ? "" : name; }

// The meaning of a node's names and attributes in its scope. At the top nothing changes; inside a function its values
// get a prefix of their own, and its parameters are the caller's values and attributes.
struct Scope {
  Opsets opsets;
  std::string prefix;
  std::map<std::string, std::string> values;  // for a function: its inputs and outputs -> the caller's values
  const std::map<std::string, Attribute>* arguments = nullptr;
  const Node* caller = nullptr;
  int depth = 0;

  std::string value(const std::string& name) const {
    if (name.empty()) return name;
    const auto found = values.find(name);
    return found != values.end() ? found->second : prefix + name;
  }
};

// "%e : .. = call_function[target=..](args = (%p_weight, %x, 2), kwargs = {})": its plain arguments, up to the first
// that is a list.
std::vector<std::string> arguments_of(const std::string& call) {
  constexpr std::string_view kBegin = "](args = (";
  std::vector<std::string> arguments;
  std::size_t at = call.find(kBegin);
  if (at == std::string::npos) return arguments;
  for (at += kBegin.size();;) {
    const std::size_t end = call.find_first_of(",()[]", at);
    if (end == std::string::npos || (call[end] != ',' && call[end] != ')')) return arguments;
    if (end > at) arguments.push_back(call.substr(at, end - at));
    if (call[end] == ')') return arguments;
    at = call.find_first_not_of(' ', end + 1);
    if (at == std::string::npos) return arguments;
  }
}

class NodeReader {
 public:
  NodeReader(const onnx::ModelProto& model, const std::string& path) : path_(path) {
    for (const auto& function : model.functions())
      functions_[key(function.domain(), function.name(), function.overload())] = &function;
  }

  // The nodes of a list, calls of local functions replaced by their bodies.
  void read(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& from, const Scope& scope,
            std::vector<Node>& nodes) {
    int number = 0;
    for (const onnx::NodeProto& proto : from) {
      Node node = node_of(proto, number++, scope);
      const auto function = functions_.find(key(proto.domain(), proto.op_type(), proto.overload()));
      if (function == functions_.end()) {
        nodes.push_back(std::move(node));
        if (nodes.size() > kMostNodes)
          fail("{}: more than {} nodes once its local functions are inlined", path_, kMostNodes);
      } else {
        inline_call(*function->second, node, scope, nodes);
      }
    }
  }

 private:
  static std::string key(const std::string& domain_name, const std::string& name, const std::string& overload) {
    return fmt::format("{}::{}:{}", domain(domain_name), name, overload);
  }

  // Gives the function's outputs their names outside. An output that is an input as well is a copy of it: these.
  static std::vector<Node> bind_outputs(const onnx::FunctionProto& function, const Node& call, Scope& scope) {
    std::vector<Node> copies;
    for (int i = 0; i < static_cast<int>(call.outputs.size()); ++i) {
      const std::string &inside = function.output(i), &outside = call.outputs[static_cast<std::size_t>(i)];
      if (outside.empty()) continue;
      if (const auto given = scope.values.find(inside); given != scope.values.end()) {
        Node copy = call;
        copy.operation = "Identity", copy.domain = "", copy.attributes.clear(), copy.opset = kNewestOpset;
        copy.inputs = {given->second}, copy.outputs = {outside}, copy.captured.clear();
        copies.push_back(std::move(copy));
      } else {
        scope.values[inside] = outside;
      }
    }
    return copies;
  }

  void inline_call(const onnx::FunctionProto& function, const Node& call, const Scope& outer,
                   std::vector<Node>& nodes) {
    if (static_cast<std::size_t>(calls_) > kMostNodes)
      fail("{}: more than {} calls of local functions", path_, kMostNodes);
    if (outer.depth + 1 > kDeepest)
      fail("{}: local function '{}' calls itself, directly or through others", path_, function.name());
    if (static_cast<int>(call.inputs.size()) > function.input_size() ||
        static_cast<int>(call.outputs.size()) > function.output_size())
      fail("{}: node '{}' calls local function '{}' with {} inputs and {} outputs; it has {} and {}", path_, call.name,
           function.name(), call.inputs.size(), call.outputs.size(), function.input_size(), function.output_size());
    Scope scope;
    scope.opsets = function.opset_import().empty() ? outer.opsets : opsets_of(function.opset_import());
    scope.prefix = fmt::format("{}/{}/", call.name, calls_++);
    scope.depth = outer.depth + 1;
    for (int i = 0; i < function.input_size(); ++i)
      scope.values[function.input(i)] =
          i < static_cast<int>(call.inputs.size()) ? call.inputs[static_cast<std::size_t>(i)] : "";
    std::vector<Node> copies = bind_outputs(function, call, scope);
    std::map<std::string, Attribute> arguments = call.attributes;
    for (const auto& defaulted : function.attribute_proto()) {
      if (arguments.contains(defaulted.name())) continue;
      Node holder;
      read_attribute(defaulted, outer, holder);
      if (!holder.attributes.empty()) arguments.merge(holder.attributes);
    }
    scope.arguments = &arguments;
    scope.caller = &call;
    read(function.node(), scope, nodes);
    for (Node& copy : copies) nodes.push_back(std::move(copy));
  }

  void read_attribute(const onnx::AttributeProto& a, const Scope& scope, Node& node) {
    if (!a.ref_attr_name().empty()) {  // an argument of the function; absent if the caller does not give it
      if (!scope.arguments)
        fail("{}: node '{}': attribute '{}' refers to '{}', outside a function", path_, node.name, a.name(),
             a.ref_attr_name());
      if (const auto given = scope.arguments->find(a.ref_attr_name()); given != scope.arguments->end())
        node.attributes[a.name()] = given->second;
      return;
    }
    auto unreadable = [&](std::string why) { node.unreadable = std::move(why); };
    switch (a.type()) {
      case onnx::AttributeProto::FLOAT:
        node.attributes[a.name()] = shortest_decimal(a.f());
        break;
      case onnx::AttributeProto::INT:
        node.attributes[a.name()] = a.i();
        break;
      case onnx::AttributeProto::STRING:
        node.attributes[a.name()] = a.s();
        break;
      case onnx::AttributeProto::FLOATS: {
        std::vector<double> list;
        for (float f : a.floats()) list.push_back(shortest_decimal(f));
        node.attributes[a.name()] = std::move(list);
        break;
      }
      case onnx::AttributeProto::INTS:
        node.attributes[a.name()] = std::vector<int64_t>(a.ints().begin(), a.ints().end());
        break;
      case onnx::AttributeProto::STRINGS:
        node.attributes[a.name()] = fmt::format("{}", fmt::join(a.strings(), ","));
        break;
      case onnx::AttributeProto::TENSOR:
        if (dtype_of(a.t().data_type()))
          node.attributes[a.name()] = TypedValues{values_of(a.t(), path_), a.t().data_type()};
        else unreadable(fmt::format("attribute '{}' has elements of type {}", a.name(), type_name(a.t().data_type())));
        break;
      case onnx::AttributeProto::GRAPH:
        node.attributes[a.name()] = subgraph(a.g(), scope, node);
        break;
      default:
        unreadable(fmt::format("attribute '{}' is of a kind that is not supported ({})", a.name(),
                               onnx::AttributeProto::AttributeType_Name(a.type())));
        break;
    }
  }

  std::shared_ptr<const Subgraph> subgraph(const onnx::GraphProto& graph, const Scope& outer, Node& node);

  Node node_of(const onnx::NodeProto& from, int number, const Scope& scope) {
    Node node;
    node.operation = from.op_type();
    node.domain = domain(from.domain());
    node.name = from.name().empty() ? fmt::format("{} #{}", from.op_type(), number) : from.name();
    if (scope.caller) node.name = scope.caller->name + "/" + node.name;
    const auto opset = scope.opsets.find(node.domain);
    node.opset = opset == scope.opsets.end() ? 0 : opset->second;
    for (const std::string& name : from.input()) node.inputs.push_back(scope.value(name));
    for (const std::string& name : from.output()) node.outputs.push_back(scope.value(name));
    for (const auto& a : from.attribute()) read_attribute(a, scope, node);
    for (const auto& entry : from.metadata_props()) {
      if (entry.key() == "pkg.torch.onnx.name_scopes") node.scopes = words_of(entry.value());
      if (entry.key() == "pkg.torch.onnx.stack_trace") node.source.location = location_of(entry.value());
      if (entry.key() == "pkg.torch.onnx.class_hierarchy") {
        const std::vector<std::string> classes = words_of(entry.value());
        if (!classes.empty()) node.target = classes.back();
        if (classes.size() > 1) node.owner = classes[classes.size() - 2];
      }
      if (entry.key() == "pkg.torch.onnx.fx_node") node.arguments = arguments_of(entry.value());
    }
    if (node.scopes.empty() && from.name().starts_with('/')) node.scopes = scopes_of_path(from.name());
    if (node.scopes.size() >= 2) node.source.module = node.scopes[node.scopes.size() - 2];
    if (scope.caller) {  // the caller says what the function does not
      if (node.scopes.empty()) node.scopes = scope.caller->scopes;
      if (node.source.module.empty()) node.source.module = scope.caller->source.module;
      if (node.source.location.empty()) node.source.location = scope.caller->source.location;
    }
    return node;
  }

  const std::string& path_;
  std::map<std::string, const onnx::FunctionProto*> functions_;
  int calls_ = 0, depth_ = 0;
};

std::shared_ptr<const Subgraph> NodeReader::subgraph(const onnx::GraphProto& graph, const Scope& outer, Node& node) {
  if (depth_ + 1 > kDeepest)
    fail("{}: node '{}': subgraphs in each other, more than {} deep", path_, node.name, kDeepest);
  ++depth_;
  auto result = std::make_shared<Subgraph>();
  std::set<std::string> inside;
  for (const auto& input : graph.input()) inside.insert(outer.value(input.name()));  // of a loop's body
  for (const auto& tensor : graph.initializer()) {
    Node constant;
    constant.name = tensor.name();
    constant.operation = "Constant";
    constant.opset = kNewestOpset;
    constant.outputs = {outer.value(tensor.name())};
    constant.attributes["value"] = TypedValues{values_of(tensor, path_), tensor.data_type()};
    result->nodes.push_back(std::move(constant));
  }
  read(graph.node(), outer, result->nodes);
  result->nodes = sorted(std::move(result->nodes), path_, {}, true);
  for (const auto& output : graph.output()) result->outputs.push_back(outer.value(output.name()));
  for (const Node& n : result->nodes) inside.insert(n.outputs.begin(), n.outputs.end());
  auto capture = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (!name.empty() && !inside.contains(name)) node.captured.push_back(name);
  };
  for (const Node& n : result->nodes) {
    capture(n.inputs);
    capture(n.captured);
  }
  capture(result->outputs);
  --depth_;
  return result;
}

}  // namespace

Opsets opsets_of(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  Opsets versions;
  for (const auto& opset : imports) versions[domain(opset.domain())] = opset.version();
  return versions;
}

std::vector<Node> read_nodes(const onnx::ModelProto& model, const std::string& path, const Opsets& opsets) {
  Scope scope;
  scope.opsets = opsets;
  std::vector<Node> nodes;
  NodeReader(model, path).read(model.graph().node(), scope, nodes);
  return nodes;
}

}  // namespace partita::onnx_model
