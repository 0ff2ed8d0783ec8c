// Reads an ONNX file as plain structs, and validates it.
#include "partita/onnx/model.h"

#include <onnx/onnx.pb.h>

#include <algorithm>
#include <climits>
#include <set>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/onnx/nodes.h"
#include "partita/onnx/origins.h"
#include "partita/onnx/tensors.h"

namespace partita::onnx_model {
namespace {

onnx::ModelProto parsed(const std::string& path) {
  if (is_regular_file(path) && size_of_file(path, kOnnxFile) > INT_MAX)
    fail("{}: larger than 2 GiB; export it with its weights in a file of their own (external_data=True)", path);
  const std::string bytes = read_file(path, kOnnxFile, INT_MAX);
  onnx::ModelProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !proto.has_graph() ||
      proto.ir_version() <= 0 || proto.opset_import().empty())
    fail("{}: not an ONNX file, or damaged ({} bytes)", path, bytes.size());
  if (proto.ir_version() > onnx::IR_VERSION)
    fail(
        "{}: IR version {} is newer than {}, the newest known; "
        "export the model with an older opset_version, such as {}",
        path, proto.ir_version(), static_cast<int>(onnx::IR_VERSION), kNewestOpset);
  return proto;
}

void check_opset(const Model& model) {
  if (model.opset < kOldestOpset)
    fail("{}: opset {} is not supported; export the model with opset {} or newer", model.path, model.opset,
         kOldestOpset);
  if (model.opset > kNewestKnownOpset)
    fail("{}: opset {} is newer than {}, the newest known; export the model with opset_version={}", model.path,
         model.opset, kNewestKnownOpset, kNewestOpset);
}

// `kind`, `folded_from`: the newer exporter's notes on it, or "".
Initializer initializer_of(const onnx::TensorProto& tensor, const std::string& path, const std::string& kind,
                           const std::string& folded_from) {
  Initializer initializer{.kind = kind, .folded_from = words_of(folded_from)};
  const TensorSize size = size_of(tensor, path);
  initializer.shape = size.shape;
  initializer.dtype = *dtype_of(tensor.data_type());
  initializer.type = tensor.data_type();
  initializer.low = low_dtype_of(tensor.data_type());
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    check_external(tensor, path, size.bytes);  // its place is checked now, its values are read on demand
    initializer.load = [place = tensor, path] { return values_of(place, path); };
  } else {
    auto values = std::make_shared<const Values>(values_of(tensor, path));
    initializer.load = [values] { return *values; };
  }
  return initializer;
}

// As declared; -1 is symbolic, as some writers have it.
std::vector<Dimension> dimensions_of(const onnx::TensorShapeProto& shape) {
  std::vector<Dimension> dimensions;
  for (const auto& dim : shape.dim())
    dimensions.push_back({dim.has_dim_value() ? std::max<int64_t>(dim.dim_value(), -1) : -1, dim.dim_param()});
  return dimensions;
}

Input input_of(const onnx::ValueInfoProto& info, const std::string& path) {
  const auto& type = info.type();
  if (!type.has_tensor_type()) fail("{}: input '{}' is not a tensor", path, info.name());
  const auto dtype = dtype_of(type.tensor_type().elem_type());
  if (!dtype)
    fail("{}: input '{}' has elements of type {}, which is not supported; export the model in float32 or float64", path,
         info.name(), type_name(type.tensor_type().elem_type()));
  if (!type.tensor_type().has_shape())
    fail("{}: input '{}' has no shape; export the model with one", path, info.name());
  Input input{.name = info.name(), .dtype = *dtype, .type = type.tensor_type().elem_type()};
  for (const auto& dim : type.tensor_type().shape().dim())
    if (dim.has_dim_value() && dim.dim_value() < -1)
      fail("{}: input '{}' has the extent {}", path, info.name(), dim.dim_value());
  input.shape = dimensions_of(type.tensor_type().shape());
  return input;
}

// The notes of PyTorch's newer exporter on values: their kind, and the values they were computed from.
struct Said {
  std::map<std::string, std::string> kinds, folded;
};

Said said_of_values(const onnx::GraphProto& graph) {
  Said said;
  for (const auto& info : graph.value_info())
    for (const auto& entry : info.metadata_props()) {
      if (entry.key() == "pkg.torch.export.graph_signature.InputSpec.kind") said.kinds[info.name()] = entry.value();
      if (entry.key() == "pkg.onnxscript.optimizer.folded_from") said.folded[info.name()] = entry.value();
    }
  return said;
}

void read_initializers(const onnx::GraphProto& graph, Model& model) {
  Said said = said_of_values(graph);
  for (const auto& tensor : graph.initializer()) {
    const std::string& name = tensor.name();
    Initializer initializer = initializer_of(tensor, model.path, said.kinds[name], said.folded[name]);
    if (!model.initializers.emplace(name, std::move(initializer)).second)
      fail("{}: two initializers are named '{}'", model.path, name);
    model.initializer_order.push_back(name);
  }
  if (!graph.sparse_initializer().empty()) fail("{}: sparse initializers are not supported", model.path);
}

void read_declared(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values, Model& model) {
  for (const auto& info : values)
    if (info.type().has_tensor_type() && info.type().tensor_type().has_shape())
      model.declared[info.name()] = dimensions_of(info.type().tensor_type().shape());
}

}  // namespace

// The operators renewed at an opset above kNewestOpset, by ONNX's own record (onnx.defs, opset 28).
std::string changed_since(const std::string& operation, int64_t opset) {
  static const std::map<std::string, int64_t> changes{
      {"Attention", 25}, {"Range", 27}, {"Mod", 28}, {"SpaceToDepth", 28}};
  const auto found = changes.find(operation);
  if (opset <= kNewestOpset || found == changes.end() || opset < found->second) return "";
  return fmt::format("{} was changed in opset {}, which is not supported; export the model with opset_version={}",
                     operation, found->second, kNewestOpset);
}

Model read_model(const std::string& path) {
  const onnx::ModelProto proto = parsed(path);
  const onnx::GraphProto& graph = proto.graph();
  const Opsets opsets = opsets_of(proto.opset_import());
  Model model;
  model.path = path;
  model.producer = proto.producer_name();
  model.opset = opsets.contains("") ? opsets.at("") : 0;
  check_opset(model);
  for (const auto& entry : graph.metadata_props())
    if (entry.key() == "pkg.torch.export.ExportedProgram.graph_signature") model.kinds = kinds_in(entry.value());
  for (const auto& node : graph.node())
    for (const auto& entry : node.metadata_props())
      model.from_dynamo = model.from_dynamo || entry.key() == "pkg.torch.onnx.name_scopes";
  read_initializers(graph, model);
  std::set<std::string> known(model.initializer_order.begin(), model.initializer_order.end());
  for (const auto& info : graph.input()) {
    if (model.initializers.contains(info.name())) continue;
    known.insert(info.name());
    model.inputs.push_back(input_of(info, path));
  }
  for (const auto& info : graph.output())
    if (std::find(model.outputs.begin(), model.outputs.end(), info.name()) == model.outputs.end())
      model.outputs.push_back(info.name());
  read_declared(graph.value_info(), model);
  read_declared(graph.input(), model);
  read_declared(graph.output(), model);
  if (model.outputs.empty()) fail("{}: the graph has no outputs", path);
  model.nodes = sorted(read_nodes(proto, path, opsets), path, known, false);
  return model;
}

}  // namespace partita::onnx_model
