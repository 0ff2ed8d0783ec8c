#include "partita/onnx/model.h"

#include <onnx/onnx.pb.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/input_file.h"

namespace partita::onnx_model {
namespace {

constexpr const char* kFile = "an ONNX file";
static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

double shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

template <typename Stored, typename Ours>
void widen(const std::string& bytes, std::vector<Ours>& values) {
  values.resize(bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<Ours>(value);
  }
}

// IEEE half precision, exactly.
float half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value;
  if (exponent == 31)
    value = fraction ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  else if (exponent == 0) value = std::ldexp(static_cast<float>(fraction), -24);
  else value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits & 0x8000 ? -value : value;
}
// The upper half of a float32.
float brain(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

int64_t stored_bytes(int type) {
  switch (type) {
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::BOOL:
      return 1;
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
      return 2;
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::FLOAT:
      return 4;
    default:
      return 8;
  }
}

// Where a tensor of `bytes` bytes is that is stored beside the model: a file in the model's folder, and where in it.
struct ExternalData {
  std::string file;  // relative to the model's folder
  int64_t offset = 0, length = 0;
};

ExternalData external_data(const onnx::TensorProto& tensor, const std::string& path, int64_t bytes) {
  ExternalData data{.length = bytes};
  for (const auto& entry : tensor.external_data()) {
    auto number = [&] {
      int64_t value = -1;
      const std::string& text = entry.value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size() || value < 0)
        fail("{}, tensor '{}': external_data {}='{}'", path, tensor.name(), entry.key(), text);
      return value;
    };
    if (entry.key() == "location") data.file = entry.value();
    else if (entry.key() == "offset") data.offset = number();
    else if (entry.key() == "length") data.length = number();
  }
  const std::filesystem::path file(data.file);
  if (data.file.empty() || file.is_absolute())
    fail("{}, tensor '{}': external data at '{}': a path relative to the model's folder is needed", path, tensor.name(),
         data.file);
  for (const auto& part : file)
    if (part == "..")
      fail("{}, tensor '{}': external data at '{}', outside the model's folder", path, tensor.name(), data.file);
  if (data.length != bytes)
    fail("{}, tensor '{}': external data of {} bytes, its shape needs {}", path, tensor.name(), data.length, bytes);
  return data;
}

bool lies_in(const std::filesystem::path& file, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

// Hugging Face's download cache keeps a repository as REPOSITORY/snapshots/REVISION/.., whose files are links to
// REPOSITORY/blobs/HASH: the repository that a folder is in, or the folder itself.
std::filesystem::path repository_of(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::path at = folder; at.has_relative_path(); at = at.parent_path())
    if (at.filename() == "snapshots" && std::filesystem::is_directory(at.parent_path() / "blobs", error))
      return at.parent_path();
  return folder;
}

// No link may lead out of the model's folder, or of its repository in a cache: a file from elsewhere must not get at
// what its author cannot name.
std::string read_external(const ExternalData& data, const std::string& path, const std::string& tensor) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path(), file = folder / data.file;
  std::error_code error;
  const auto real_folder = std::filesystem::canonical(folder.empty() ? "." : folder, error),
             real_file = std::filesystem::canonical(file, error);
  if (error)
    fail("{}, tensor '{}': its data are in '{}', which cannot be read: {}; keep it beside the model", path, tensor,
         file.string(), error.message());
  if (!lies_in(real_file, real_folder) && !lies_in(real_file, repository_of(real_folder)))
    fail("{}, tensor '{}': external data at '{}', a link out of the model's folder", path, tensor, data.file);
  return read_range(file.string(), data.offset, data.length, kFile);
}

// The tensor's shape; `bytes` of its values.
Shape shape_of(const onnx::TensorProto& tensor, const std::string& path, int64_t& count, int64_t& bytes) {
  if (!dtype_of(tensor.data_type()))
    fail("{}, tensor '{}': element type {} is not supported; export the model in float32 or float64", path,
         tensor.name(), type_name(tensor.data_type()));
  Shape shape;
  count = 1;
  for (int64_t extent : tensor.dims()) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
      fail("{}, tensor '{}': shape [{}]", path, tensor.name(), fmt::join(tensor.dims(), "x"));
    shape.push_back(extent);
  }
  if (__builtin_mul_overflow(count, stored_bytes(tensor.data_type()), &bytes))
    fail("{}, tensor '{}': shape [{}]", path, tensor.name(), fmt::join(tensor.dims(), "x"));
  return shape;
}

void read_raw(const std::string& raw, int type, Values& values) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
      widen<float>(raw, values.real);
      break;
    case onnx::TensorProto::DOUBLE:
      widen<double>(raw, values.real);
      break;
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
      widen<uint16_t>(raw, values.real);
      for (double& v : values.real)
        v = type == onnx::TensorProto::FLOAT16 ? half(static_cast<uint16_t>(v)) : brain(static_cast<uint16_t>(v));
      break;
    case onnx::TensorProto::INT8:
      widen<int8_t>(raw, values.integer);
      break;
    case onnx::TensorProto::BOOL:
    case onnx::TensorProto::UINT8:
      widen<uint8_t>(raw, values.integer);
      break;
    case onnx::TensorProto::INT16:
      widen<int16_t>(raw, values.integer);
      break;
    case onnx::TensorProto::UINT16:
      widen<uint16_t>(raw, values.integer);
      break;
    case onnx::TensorProto::INT32:
      widen<int32_t>(raw, values.integer);
      break;
    case onnx::TensorProto::UINT32:
      widen<uint32_t>(raw, values.integer);
      break;
    default:
      widen<int64_t>(raw, values.integer);
      break;
  }
}

Values values_of(const onnx::TensorProto& tensor, const std::string& path) {
  int64_t count = 0, bytes = 0;
  Values values;
  values.shape = shape_of(tensor, path, count, bytes);
  values.dtype = *dtype_of(tensor.data_type());
  const bool external = tensor.data_location() == onnx::TensorProto::EXTERNAL;
  if (external || tensor.has_raw_data()) {
    const std::string raw =
        external ? read_external(external_data(tensor, path, bytes), path, tensor.name()) : tensor.raw_data();
    if (static_cast<int64_t>(raw.size()) != bytes)
      fail("{}, tensor '{}': [{}] of {} needs {} bytes, the file has {}", path, tensor.name(),
           fmt::join(values.shape, "x"), type_name(tensor.data_type()), bytes, raw.size());
    read_raw(raw, tensor.data_type(), values);
  } else {
    switch (tensor.data_type()) {
      case onnx::TensorProto::FLOAT:
        values.real.assign(tensor.float_data().begin(), tensor.float_data().end());
        break;
      case onnx::TensorProto::DOUBLE:
        values.real.assign(tensor.double_data().begin(), tensor.double_data().end());
        break;
      case onnx::TensorProto::FLOAT16:
        for (int32_t bits : tensor.int32_data()) values.real.push_back(half(static_cast<uint16_t>(bits)));
        break;
      case onnx::TensorProto::BFLOAT16:
        for (int32_t bits : tensor.int32_data()) values.real.push_back(brain(static_cast<uint16_t>(bits)));
        break;
      case onnx::TensorProto::UINT32:
      case onnx::TensorProto::UINT64:
        values.integer.assign(tensor.uint64_data().begin(), tensor.uint64_data().end());
        break;
      case onnx::TensorProto::INT64:
        values.integer.assign(tensor.int64_data().begin(), tensor.int64_data().end());
        break;
      default:
        values.integer.assign(tensor.int32_data().begin(), tensor.int32_data().end());
        break;
    }
    const int64_t found = static_cast<int64_t>(values.real.size() + values.integer.size());
    if (found != count)
      fail("{}, tensor '{}': [{}] needs {} values, the file has {}", path, tensor.name(), fmt::join(values.shape, "x"),
           count, found);
  }
  if (values.dtype == DType::kBool)
    for (int64_t& v : values.integer) v = v != 0;
  if (tensor.data_type() == onnx::TensorProto::UINT64)
    for (int64_t v : values.integer)
      if (v < 0)
        fail("{}, tensor '{}': the value {} is not supported: of UINT64 those below 2^63 are", path, tensor.name(),
             static_cast<uint64_t>(v));
  return values;
}

// ---------------------------------------------------------------- where a node came from

// The words of a printed Python list: "['', 'stem', 'stem.conv']".
std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = list.find('\''); at != std::string::npos; at = list.find('\'', at + 1)) {
    const std::size_t end = list.find('\'', at + 1);
    if (end == std::string::npos) break;
    words.push_back(list.substr(at + 1, end - at - 1));
    at = end;
  }
  return words;
}

// The kinds of an exported program's inputs, from its printed signature: "p_head_weight: PARAMETER
// target='head.weight'".
std::map<std::string, std::string> kinds_in(const std::string& signature) {
  std::map<std::string, std::string> kinds;
  std::istringstream lines(signature);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": "), target = line.find(" target='");
    const std::size_t end = target == std::string::npos ? target : line.find('\'', target + 9);
    if (colon == std::string::npos || end == std::string::npos || colon + 2 > target) continue;
    kinds[line.substr(target + 9, end - target - 9)] = line.substr(colon + 2, target - colon - 2);
  }
  return kinds;
}

// "train.py:41": the innermost frame of a stack trace that is not inside an installed package.
std::string location_of(const std::string& stack) {
  std::string location;
  for (std::size_t at = stack.find("File \""); at != std::string::npos; at = stack.find("File \"", at + 1)) {
    const std::size_t end = stack.find("\", line ", at);
    if (end == std::string::npos) break;
    const std::string file = stack.substr(at + 6, end - at - 6);
    if (file.starts_with("torch/") || file.find("site-packages/") != std::string::npos ||
        file.find("/torch/nn/") != std::string::npos)
      continue;
    std::size_t digits = end + 8;
    while (digits < stack.size() && stack[digits] >= '0' && stack[digits] <= '9') ++digits;
    location = fmt::format("{}:{}", file, stack.substr(end + 8, digits - end - 8));
  }
  return location;
}

// The scopes in a name of the TorchScript exporter: "/layer1/layer1.0/conv1/Conv" is in layer1.0.conv1.
std::vector<std::string> scopes_of_path(const std::string& name) {
  std::vector<std::string> scopes{""};
  std::size_t at = 1;
  for (std::size_t slash = name.find('/', at); slash != std::string::npos; at = slash + 1, slash = name.find('/', at)) {
    const std::string part = name.substr(at, slash - at), &outer = scopes.back();
    const std::string last = outer.substr(outer.rfind('.') == std::string::npos ? 0 : outer.rfind('.') + 1);
    if (outer.empty()) scopes.push_back(part);
    else if (part.starts_with(last + ".")) scopes.push_back(outer.substr(0, outer.size() - last.size()) + part);
    else scopes.push_back(outer + "." + part);
  }
  scopes.push_back(name.substr(at));
  return scopes;
}

// ---------------------------------------------------------------- nodes, local functions, subgraphs

std::vector<Node> sorted(std::vector<Node> nodes, const std::string& path, const std::set<std::string>& known,
                         bool is_subgraph);

constexpr int kDeepest = 64;                   // functions or subgraphs in each other; more is a circle
constexpr std::size_t kMostNodes = 1'000'000;  // after inlining; and as many calls

// What a node's names and attributes mean where it stands: at the top nothing changes; inside a function its values get
// a prefix of their own, and its parameters are the caller's values and attributes.
struct Scope {
  std::map<std::string, int64_t> opsets;  // by domain, "" for ONNX's own
  std::string prefix;
  std::map<std::string, std::string> values;  // of a function: its inputs and outputs -> the caller's values
  const std::map<std::string, Attribute>* arguments = nullptr;
  const Node* caller = nullptr;
  int depth = 0;

  std::string value(const std::string& name) const {
    if (name.empty()) return name;
    const auto found = values.find(name);
    return found != values.end() ? found->second : prefix + name;
  }
};

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

  static std::map<std::string, int64_t> opsets(
      const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
    std::map<std::string, int64_t> versions;
    for (const auto& opset : imports) versions[domain(opset.domain())] = opset.version();
    return versions;
  }

 private:
  static std::string domain(const std::string& name) { return name == "ai.onnx" ? "" : name; }
  static std::string key(const std::string& domain_name, const std::string& name, const std::string& overload) {
    return fmt::format("{}::{}:{}", domain(domain_name), name, overload);
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
    scope.opsets = function.opset_import().empty() ? outer.opsets : opsets(function.opset_import());
    scope.prefix = fmt::format("{}/{}/", call.name, calls_++);
    scope.depth = outer.depth + 1;
    for (int i = 0; i < function.input_size(); ++i)
      scope.values[function.input(i)] =
          i < static_cast<int>(call.inputs.size()) ? call.inputs[static_cast<std::size_t>(i)] : "";
    // An output that is an input as well is a copy of it.
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
        node.attributes[a.name()] = shortest(a.f());
        break;
      case onnx::AttributeProto::INT:
        node.attributes[a.name()] = a.i();
        break;
      case onnx::AttributeProto::STRING:
        node.attributes[a.name()] = a.s();
        break;
      case onnx::AttributeProto::FLOATS: {
        std::vector<double> list;
        for (float f : a.floats()) list.push_back(shortest(f));
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
      }
    }
    if (node.scopes.empty() && from.name().starts_with('/')) node.scopes = scopes_of_path(from.name());
    if (node.scopes.size() >= 2) node.source.module = node.scopes[node.scopes.size() - 2];
    if (scope.caller) {  // what the function does not say, its caller does
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

// Nodes in an order in which each follows those that it reads; the file's own order where that is one already.
// `known`: what is there before them; of a subgraph also all that may be read from outside.
std::vector<Node> sorted(std::vector<Node> nodes, const std::string& path, const std::set<std::string>& known,
                         bool is_subgraph) {
  std::map<std::string, std::size_t> producer;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& name : nodes[i].outputs) {
      if (name.empty()) continue;
      if (known.contains(name))
        fail("{}: node '{}' writes '{}', which is an input or initializer", path, nodes[i].name, name);
      if (!producer.emplace(name, i).second)
        fail("{}: nodes '{}' and '{}' both write '{}'", path, nodes[producer[name]].name, nodes[i].name, name);
    }
  // Depth first without recursion; a node on the stack that is met again closes a cycle.
  enum class Seen : char { kNo, kOnStack, kDone };
  std::vector<Seen> seen(nodes.size(), Seen::kNo);
  std::vector<std::size_t> order;
  struct Visit {
    std::size_t node, next_input;
  };
  for (std::size_t root = 0; root < nodes.size(); ++root) {
    if (seen[root] != Seen::kNo) continue;
    std::vector<Visit> stack{{root, 0}};
    seen[root] = Seen::kOnStack;
    while (!stack.empty()) {
      auto& [i, next] = stack.back();
      const std::size_t inputs = nodes[i].inputs.size();
      if (next == inputs + nodes[i].captured.size()) {
        seen[i] = Seen::kDone;
        order.push_back(i);
        stack.pop_back();
        continue;
      }
      const std::string& name = next < inputs ? nodes[i].inputs[next] : nodes[i].captured[next - inputs];
      ++next;
      if (name.empty() || known.contains(name)) continue;
      const auto found = producer.find(name);
      if (found == producer.end() && is_subgraph) continue;
      if (found == producer.end())
        fail("{}: node '{}' reads '{}', which nothing in the file produces", path, nodes[i].name, name);
      const std::size_t from = found->second;
      if (seen[from] == Seen::kDone) continue;
      if (seen[from] == Seen::kOnStack) {
        std::string cycle;
        bool in = false;
        for (const Visit& visit : stack) {
          in = in || visit.node == from;
          if (in) cycle += fmt::format("'{}' -> ", nodes[visit.node].name);
        }
        // each node on the stack reads the next one
        fail("{}: the graph has a cycle; each of these nodes reads the next: {}'{}'", path, cycle, nodes[from].name);
      }
      seen[from] = Seen::kOnStack;
      stack.push_back({from, 0});
    }
  }
  std::vector<Node> result;
  for (std::size_t i : order) result.push_back(std::move(nodes[i]));
  return result;
}

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

std::optional<DType> low_dtype_of(int64_t type) {
  if (type == onnx::TensorProto::FLOAT16) return DType::kFloat16;
  if (type == onnx::TensorProto::BFLOAT16) return DType::kBFloat16;
  return {};
}

std::optional<DType> dtype_of(int64_t type) {
  switch (type) {
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
    case onnx::TensorProto::FLOAT:
      return DType::kFloat32;
    case onnx::TensorProto::DOUBLE:
      return DType::kFloat64;
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::UINT64:
    case onnx::TensorProto::INT64:
      return DType::kInt64;
    case onnx::TensorProto::BOOL:
      return DType::kBool;
    default:
      return {};
  }
}

std::optional<IntegerType> integer_type_of(int64_t type) {
  switch (type) {
    case onnx::TensorProto::INT8:
      return IntegerType{8, true};
    case onnx::TensorProto::UINT8:
      return IntegerType{8, false};
    case onnx::TensorProto::INT16:
      return IntegerType{16, true};
    case onnx::TensorProto::UINT16:
      return IntegerType{16, false};
    case onnx::TensorProto::INT32:
      return IntegerType{32, true};
    case onnx::TensorProto::UINT32:
      return IntegerType{32, false};
    case onnx::TensorProto::INT64:
      return IntegerType{64, true};
    case onnx::TensorProto::UINT64:
      return IntegerType{64, false};
    default:
      return {};
  }
}

static_assert(onnx::TensorProto::INT32 == kOnnxInt32 && onnx::TensorProto::INT64 == kOnnxInt64);

int64_t onnx_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return onnx::TensorProto::FLOAT16;
    case DType::kBFloat16:
      return onnx::TensorProto::BFLOAT16;
    case DType::kFloat32:
      return onnx::TensorProto::FLOAT;
    case DType::kFloat64:
      return onnx::TensorProto::DOUBLE;
    case DType::kInt64:
      return onnx::TensorProto::INT64;
    case DType::kBool:
      return onnx::TensorProto::BOOL;
  }
  return onnx::TensorProto::UNDEFINED;
}

std::string type_name(int64_t type) {
  if (type < INT_MIN || type > INT_MAX || !onnx::TensorProto::DataType_IsValid(static_cast<int>(type)))
    return fmt::format("number {}", type);
  return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type));
}

// What was written new at an opset above kNewestOpset, by ONNX's own record (onnx.defs, opset 28).
std::string changed_since(const std::string& operation, int64_t opset) {
  static const std::map<std::string, int64_t> changes{
      {"Attention", 25}, {"Range", 27}, {"Mod", 28}, {"SpaceToDepth", 28}};
  const auto found = changes.find(operation);
  if (opset <= kNewestOpset || found == changes.end() || opset < found->second) return "";
  return fmt::format("{} was changed in opset {}, which is not supported; export the model with opset_version={}",
                     operation, found->second, kNewestOpset);
}

Model read_model(const std::string& path) {
  const std::string bytes = read_file(path, kFile);
  onnx::ModelProto proto;
  if (bytes.size() > INT_MAX)
    fail("{}: larger than 2 GiB; export it with its weights in a file of their own (external_data=True)", path);
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !proto.has_graph() ||
      proto.ir_version() <= 0 || proto.opset_import().empty())
    fail("{}: not an ONNX file, or damaged ({} bytes)", path, bytes.size());
  if (proto.ir_version() > onnx::IR_VERSION)
    fail(
        "{}: IR version {} is newer than {}, the newest known; export the model with an older opset_version, such as "
        "{}",
        path, proto.ir_version(), static_cast<int>(onnx::IR_VERSION), kNewestOpset);
  Model model;
  model.path = path;
  model.producer = proto.producer_name();
  Scope scope;
  scope.opsets = NodeReader::opsets(proto.opset_import());
  model.opset = scope.opsets.contains("") ? scope.opsets.at("") : 0;
  if (model.opset < kOldestOpset)
    fail("{}: opset {} is not supported; export the model with opset {} or newer", path, model.opset, kOldestOpset);
  if (model.opset > kNewestKnownOpset)
    fail("{}: opset {} is newer than {}, the newest known; export the model with opset_version={}", path, model.opset,
         kNewestKnownOpset, kNewestOpset);

  const onnx::GraphProto& graph = proto.graph();
  std::map<std::string, std::string> kinds, folded;
  for (const auto& info : graph.value_info())
    for (const auto& entry : info.metadata_props()) {
      if (entry.key() == "pkg.torch.export.graph_signature.InputSpec.kind") kinds[info.name()] = entry.value();
      if (entry.key() == "pkg.onnxscript.optimizer.folded_from") folded[info.name()] = entry.value();
    }
  for (const auto& entry : graph.metadata_props())
    if (entry.key() == "pkg.torch.export.ExportedProgram.graph_signature") model.kinds = kinds_in(entry.value());
  for (const auto& node : graph.node())
    for (const auto& entry : node.metadata_props())
      model.from_dynamo = model.from_dynamo || entry.key() == "pkg.torch.onnx.name_scopes";
  std::set<std::string> known;
  for (const auto& tensor : graph.initializer()) {
    Initializer initializer{.kind = kinds[tensor.name()], .folded_from = words_of(folded[tensor.name()])};
    int64_t count = 0, size = 0;
    initializer.shape = shape_of(tensor, path, count, size);
    initializer.dtype = *dtype_of(tensor.data_type());
    initializer.type = tensor.data_type();
    initializer.low = low_dtype_of(tensor.data_type());
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
      external_data(tensor, path, size);  // its place is checked now, its values are read when they are wanted
      onnx::TensorProto place = tensor;
      initializer.load = [place, path] { return values_of(place, path); };
    } else {
      auto values = std::make_shared<const Values>(values_of(tensor, path));
      initializer.load = [values] { return *values; };
    }
    if (!model.initializers.emplace(tensor.name(), std::move(initializer)).second)
      fail("{}: two initializers are named '{}'", path, tensor.name());
    model.initializer_order.push_back(tensor.name());
    known.insert(tensor.name());
  }
  if (!graph.sparse_initializer().empty()) fail("{}: sparse initializers are not supported", path);
  for (const auto& info : graph.input()) {
    if (model.initializers.contains(info.name())) continue;
    const auto& type = info.type();
    if (!type.has_tensor_type()) fail("{}: input '{}' is not a tensor", path, info.name());
    const auto dtype = dtype_of(type.tensor_type().elem_type());
    if (!dtype)
      fail("{}: input '{}' has elements of type {}, which is not supported; export the model in float32 or float64",
           path, info.name(), type_name(type.tensor_type().elem_type()));
    if (!type.tensor_type().has_shape())
      fail("{}: input '{}' has no shape; export the model with one", path, info.name());
    Input input{.name = info.name(), .dtype = *dtype, .type = type.tensor_type().elem_type()};
    for (const auto& dim : type.tensor_type().shape().dim()) {
      const bool is_open = !dim.has_dim_value() || dim.dim_value() == -1;  // -1: symbolic, as some writers have it
      if (!is_open && dim.dim_value() < 0) fail("{}: input '{}' has the extent {}", path, info.name(), dim.dim_value());
      input.shape.push_back({is_open ? -1 : dim.dim_value(), dim.dim_param()});
    }
    known.insert(info.name());
    model.inputs.push_back(std::move(input));
  }
  for (const auto& info : graph.output()) model.outputs.push_back(info.name());
  if (model.outputs.empty()) fail("{}: the graph has no outputs", path);

  std::vector<Node> nodes;
  NodeReader(proto, path).read(graph.node(), scope, nodes);
  model.nodes = sorted(std::move(nodes), path, known, false);
  return model;
}

}  // namespace partita::onnx_model
