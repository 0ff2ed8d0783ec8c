#include "partita/onnx/model.h"

#include <onnx/onnx.pb.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "partita/base/error.h"

namespace partita::onnx_model {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

std::string read_file(const std::string& path, int64_t offset = 0, int64_t length = -1) {
  if (std::filesystem::is_directory(path)) fail("{}: is a folder, not an ONNX file", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("{}: cannot be read: {}", path, std::strerror(errno));
  if (length < 0) return {std::istreambuf_iterator<char>(in), {}};
  const int64_t size = static_cast<int64_t>(std::filesystem::file_size(path));
  if (offset < 0 || offset > size || length > size - offset) fail("{}: has {} bytes; bytes {} to {} are wanted", path, size, offset, offset + length);
  std::string bytes(static_cast<std::size_t>(length), '\0');
  in.seekg(offset);
  in.read(bytes.data(), length);
  if (!in) fail("{}: reading it failed", path);
  return bytes;
}

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

int64_t stored_bytes(int type) {
  switch (type) {
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::BOOL: return 1;
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16: return 2;
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::FLOAT: return 4;
    default: return 8;
  }
}

// A tensor stored beside the model: its file, relative to the model's folder, and where in it.
std::string external_data(const onnx::TensorProto& tensor, const std::string& path, int64_t bytes) {
  std::string location;
  int64_t offset = 0, length = bytes;
  for (const auto& entry : tensor.external_data()) {
    auto number = [&] {
      int64_t value = -1;
      const std::string& text = entry.value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size() || value < 0) fail("{}, tensor '{}': external_data {}='{}'", path, tensor.name(), entry.key(), text);
      return value;
    };
    if (entry.key() == "location") location = entry.value();
    else if (entry.key() == "offset") offset = number();
    else if (entry.key() == "length") length = number();
  }
  const std::filesystem::path file(location);
  if (location.empty() || file.is_absolute()) fail("{}, tensor '{}': external data at '{}': a relative path is needed", path, tensor.name(), location);
  for (const auto& part : file)
    if (part == "..") fail("{}, tensor '{}': external data at '{}', outside the model's folder", path, tensor.name(), location);
  if (length != bytes) fail("{}, tensor '{}': external data of {} bytes, its shape needs {}", path, tensor.name(), length, bytes);
  return read_file((std::filesystem::path(path).parent_path() / file).string(), offset, length);
}

Values values_of(const onnx::TensorProto& tensor, const std::string& path) {
  const auto dtype = dtype_of(tensor.data_type());
  if (!dtype)
    fail("{}, tensor '{}': element type {} is not supported; export the model in float32 or float64", path, tensor.name(), type_name(tensor.data_type()));
  Values values{.dtype = *dtype};
  int64_t count = 1;
  for (int64_t extent : tensor.dims()) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) fail("{}, tensor '{}': shape [{}]", path, tensor.name(), fmt::join(tensor.dims(), "x"));
    values.shape.push_back(extent);
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count, stored_bytes(tensor.data_type()), &bytes)) fail("{}, tensor '{}': shape [{}]", path, tensor.name(), fmt::join(tensor.dims(), "x"));
  const bool external = tensor.data_location() == onnx::TensorProto::EXTERNAL;
  if (external || tensor.has_raw_data()) {
    const std::string raw = external ? external_data(tensor, path, bytes) : tensor.raw_data();
    if (static_cast<int64_t>(raw.size()) != bytes)
      fail("{}, tensor '{}': [{}] of {} needs {} bytes, the file has {}", path, tensor.name(), fmt::join(values.shape, "x"), type_name(tensor.data_type()), bytes, raw.size());
    switch (tensor.data_type()) {
      case onnx::TensorProto::FLOAT: widen<float>(raw, values.real); break;
      case onnx::TensorProto::DOUBLE: widen<double>(raw, values.real); break;
      case onnx::TensorProto::INT8: widen<int8_t>(raw, values.integer); break;
      case onnx::TensorProto::BOOL:
      case onnx::TensorProto::UINT8: widen<uint8_t>(raw, values.integer); break;
      case onnx::TensorProto::INT16: widen<int16_t>(raw, values.integer); break;
      case onnx::TensorProto::UINT16: widen<uint16_t>(raw, values.integer); break;
      case onnx::TensorProto::INT32: widen<int32_t>(raw, values.integer); break;
      case onnx::TensorProto::UINT32: widen<uint32_t>(raw, values.integer); break;
      default: widen<int64_t>(raw, values.integer); break;
    }
  } else {
    switch (tensor.data_type()) {
      case onnx::TensorProto::FLOAT: values.real.assign(tensor.float_data().begin(), tensor.float_data().end()); break;
      case onnx::TensorProto::DOUBLE: values.real.assign(tensor.double_data().begin(), tensor.double_data().end()); break;
      case onnx::TensorProto::UINT32: values.integer.assign(tensor.uint64_data().begin(), tensor.uint64_data().end()); break;
      case onnx::TensorProto::INT64: values.integer.assign(tensor.int64_data().begin(), tensor.int64_data().end()); break;
      default: values.integer.assign(tensor.int32_data().begin(), tensor.int32_data().end()); break;
    }
    const int64_t found = static_cast<int64_t>(values.real.size() + values.integer.size());
    if (found != count) fail("{}, tensor '{}': [{}] needs {} values, the file has {}", path, tensor.name(), fmt::join(values.shape, "x"), count, found);
  }
  if (*dtype == DType::kBool)
    for (int64_t& v : values.integer) v = v != 0;
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

// "train.py:41": the innermost frame of a stack trace that is not inside an installed package.
std::string location_of(const std::string& stack) {
  std::string location;
  for (std::size_t at = stack.find("File \""); at != std::string::npos; at = stack.find("File \"", at + 1)) {
    const std::size_t end = stack.find("\", line ", at);
    if (end == std::string::npos) break;
    const std::string file = stack.substr(at + 6, end - at - 6);
    if (file.starts_with("torch/") || file.find("site-packages/") != std::string::npos || file.find("/torch/nn/") != std::string::npos) continue;
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

Node node_of(const onnx::NodeProto& from, int number, const std::string& path) {
  Node node;
  node.operation = from.op_type();
  node.domain = from.domain() == "ai.onnx" ? "" : from.domain();
  node.name = from.name().empty() ? fmt::format("{} #{}", from.op_type(), number) : from.name();
  node.inputs.assign(from.input().begin(), from.input().end());
  node.outputs.assign(from.output().begin(), from.output().end());
  for (const auto& a : from.attribute()) {
    Attribute& to = node.attributes[a.name()];
    switch (a.type()) {
      case onnx::AttributeProto::FLOAT: to = shortest(a.f()); break;
      case onnx::AttributeProto::INT: to = a.i(); break;
      case onnx::AttributeProto::STRING: to = a.s(); break;
      case onnx::AttributeProto::FLOATS: {
        std::vector<double> list;
        for (float f : a.floats()) list.push_back(shortest(f));
        to = std::move(list);
        break;
      }
      case onnx::AttributeProto::INTS: to = std::vector<int64_t>(a.ints().begin(), a.ints().end()); break;
      case onnx::AttributeProto::TENSOR:
        if (dtype_of(a.t().data_type())) to = values_of(a.t(), path);
        else node.unreadable = fmt::format("attribute '{}' has elements of type {}", a.name(), type_name(a.t().data_type()));
        break;
      default: node.unreadable = fmt::format("attribute '{}' is of a kind that is not supported ({})", a.name(), onnx::AttributeProto::AttributeType_Name(a.type())); break;
    }
  }
  for (const auto& entry : from.metadata_props()) {
    if (entry.key() == "pkg.torch.onnx.name_scopes") node.scopes = words_of(entry.value());
    if (entry.key() == "pkg.torch.onnx.stack_trace") node.source.location = location_of(entry.value());
  }
  if (node.scopes.empty() && node.name.starts_with('/')) node.scopes = scopes_of_path(node.name);
  if (node.scopes.size() >= 2) node.source.module = node.scopes[node.scopes.size() - 2];
  return node;
}

// Nodes in an order in which each follows those that it reads; the file's own order where that is one already.
std::vector<Node> sorted(std::vector<Node> nodes, const Model& model) {
  std::map<std::string, std::size_t> producer;
  std::set<std::string> known;
  for (const Input& input : model.inputs) known.insert(input.name);
  for (const auto& [name, initializer] : model.initializers) known.insert(name);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& name : nodes[i].outputs) {
      if (name.empty()) continue;
      if (known.contains(name)) fail("{}: node '{}' writes '{}', which is an input or initializer", model.path, nodes[i].name, name);
      if (!producer.emplace(name, i).second) fail("{}: nodes '{}' and '{}' both write '{}'", model.path, nodes[producer[name]].name, nodes[i].name, name);
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
      if (next == nodes[i].inputs.size()) {
        seen[i] = Seen::kDone;
        order.push_back(i);
        stack.pop_back();
        continue;
      }
      const std::string& name = nodes[i].inputs[next++];
      if (name.empty() || known.contains(name)) continue;
      const auto found = producer.find(name);
      if (found == producer.end()) fail("{}: node '{}' reads '{}', which nothing in the file produces", model.path, nodes[i].name, name);
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
        fail("{}: the graph has a cycle; each of these nodes reads the next: {}'{}'", model.path, cycle, nodes[from].name);
      }
      seen[from] = Seen::kOnStack;
      stack.push_back({from, 0});
    }
  }
  std::vector<Node> result;
  for (std::size_t i : order) result.push_back(std::move(nodes[i]));
  return result;
}

}  // namespace

std::optional<DType> dtype_of(int64_t type) {
  switch (type) {
    case onnx::TensorProto::FLOAT: return DType::kFloat32;
    case onnx::TensorProto::DOUBLE: return DType::kFloat64;
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::INT64: return DType::kInt64;
    case onnx::TensorProto::BOOL: return DType::kBool;
    default: return {};
  }
}

std::string type_name(int64_t type) {
  if (type < INT_MIN || type > INT_MAX || !onnx::TensorProto::DataType_IsValid(static_cast<int>(type))) return fmt::format("number {}", type);
  return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type));
}

Model read_model(const std::string& path) {
  const std::string bytes = read_file(path);
  onnx::ModelProto proto;
  if (bytes.size() > INT_MAX) fail("{}: larger than 2 GiB; export it with its weights in a file of their own (external_data=True)", path);
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !proto.has_graph() || proto.ir_version() <= 0 || proto.opset_import().empty())
    fail("{}: not an ONNX file, or damaged ({} bytes)", path, bytes.size());
  Model model;
  model.path = path;
  for (const auto& opset : proto.opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx") model.opset = opset.version();
  if (model.opset < 7) fail("{}: opset {} is not supported; export the model with opset 7 or newer", path, model.opset);

  const onnx::GraphProto& graph = proto.graph();
  std::map<std::string, std::string> kinds;
  for (const auto& info : graph.value_info())
    for (const auto& entry : info.metadata_props())
      if (entry.key() == "pkg.torch.export.graph_signature.InputSpec.kind") kinds[info.name()] = entry.value();
  for (const auto& tensor : graph.initializer()) {
    if (!model.initializers.emplace(tensor.name(), Initializer{values_of(tensor, path), kinds[tensor.name()]}).second)
      fail("{}: two initializers are named '{}'", path, tensor.name());
    model.initializer_order.push_back(tensor.name());
  }
  if (!graph.sparse_initializer().empty()) fail("{}: sparse initializers are not supported", path);
  for (const auto& info : graph.input()) {
    if (model.initializers.contains(info.name())) continue;
    const auto& type = info.type();
    if (!type.has_tensor_type()) fail("{}: input '{}' is not a tensor", path, info.name());
    const auto dtype = dtype_of(type.tensor_type().elem_type());
    if (!dtype)
      fail("{}: input '{}' has elements of type {}, which is not supported; export the model in float32 or float64", path, info.name(), type_name(type.tensor_type().elem_type()));
    if (!type.tensor_type().has_shape()) fail("{}: input '{}' has no shape; export the model with one", path, info.name());
    Input input{.name = info.name(), .dtype = *dtype};
    for (const auto& dim : type.tensor_type().shape().dim()) {
      if (dim.has_dim_value() && dim.dim_value() < 0) fail("{}: input '{}' has the extent {}", path, info.name(), dim.dim_value());
      input.shape.push_back({dim.has_dim_value() ? dim.dim_value() : -1, dim.dim_param()});
    }
    model.inputs.push_back(std::move(input));
  }
  for (const auto& info : graph.output()) model.outputs.push_back(info.name());
  if (model.outputs.empty()) fail("{}: the graph has no outputs", path);

  std::vector<Node> nodes;
  for (const auto& node : graph.node()) nodes.push_back(node_of(node, static_cast<int>(nodes.size()), path));
  model.nodes = sorted(std::move(nodes), model);
  return model;
}

}  // namespace partita::onnx_model
