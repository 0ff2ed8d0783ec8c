// Reads tensors of an ONNX file.
#include "partita/onnx/tensors.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "partita/base/error.h"
#include "partita/base/float16.h"
#include "partita/base/input_file.h"
#include "partita/graph/stored_values.h"
#include "partita/onnx/model.h"

namespace partita::onnx_model {
namespace {

// The place of a tensor of `bytes` bytes that is stored beside the model: a file in the model's folder, and an offset
// in it.
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

// float16 or bfloat16, by ONNX's number of the type.
float from_low(int type, uint16_t bits) {
  if (type == onnx::TensorProto::FLOAT16) {
    Float16 value;
    value.bits = bits;
    return value;
  }
  BFloat16 value;
  value.bits = bits;
  return value;
}

StoredType stored_type_of(int type) {
  switch (type) {
    case onnx::TensorProto::INT8:
      return StoredType::kInt8;
    case onnx::TensorProto::UINT8:
      return StoredType::kUint8;
    case onnx::TensorProto::BOOL:
      return StoredType::kBool;
    case onnx::TensorProto::FLOAT16:
      return StoredType::kFloat16;
    case onnx::TensorProto::BFLOAT16:
      return StoredType::kBFloat16;
    case onnx::TensorProto::INT16:
      return StoredType::kInt16;
    case onnx::TensorProto::UINT16:
      return StoredType::kUint16;
    case onnx::TensorProto::INT32:
      return StoredType::kInt32;
    case onnx::TensorProto::UINT32:
      return StoredType::kUint32;
    case onnx::TensorProto::FLOAT:
      return StoredType::kFloat32;
    case onnx::TensorProto::DOUBLE:
      return StoredType::kFloat64;
    default:
      return StoredType::kInt64;
  }
}

bool lies_in(const std::filesystem::path& file, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

// Hugging Face's download cache keeps a repository as REPOSITORY/snapshots/REVISION/.., whose files are links to
// REPOSITORY/blobs/HASH. Returns the repository that a folder is in, or the folder itself.
std::filesystem::path repository_of(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::path at = folder; at.has_relative_path(); at = at.parent_path())
    if (at.filename() == "snapshots" && std::filesystem::is_directory(at.parent_path() / "blobs", error))
      return at.parent_path();
  return folder;
}

// No link may lead out of the model's folder, or of its repository in a cache: a file from elsewhere must not reach
// files that its author cannot name.
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
  return read_range(file.string(), data.offset, data.length, kOnnxFile);
}

// The values of a tensor that has them as numbers.
void read_fields(const onnx::TensorProto& tensor, Values& values) {
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT:
      values.real.assign(tensor.float_data().begin(), tensor.float_data().end());
      break;
    case onnx::TensorProto::DOUBLE:
      values.real.assign(tensor.double_data().begin(), tensor.double_data().end());
      break;
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
      for (int32_t bits : tensor.int32_data())
        values.real.push_back(from_low(tensor.data_type(), static_cast<uint16_t>(bits)));
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
}

}  // namespace

double shortest_decimal(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

TensorSize size_of(const onnx::TensorProto& tensor, const std::string& path) {
  if (!dtype_of(tensor.data_type()))
    fail("{}, tensor '{}': element type {} is not supported; export the model in float32 or float64", path,
         tensor.name(), type_name(tensor.data_type()));
  TensorSize size{.shape = Shape(tensor.dims().begin(), tensor.dims().end())};
  const int64_t each = bytes_of(stored_type_of(tensor.data_type()));
  const auto bytes = stored_bytes(size.shape, stored_type_of(tensor.data_type()));
  if (!bytes)
    fail("{}, tensor '{}': [{}] is no shape: its extents are negative, or more than can be counted", path,
         tensor.name(), fmt::join(tensor.dims(), "x"));
  size.bytes = *bytes;
  size.count = *bytes / each;
  return size;
}

Values values_of(const onnx::TensorProto& tensor, const std::string& path) {
  const auto [shape, count, bytes] = size_of(tensor, path);
  Values values;
  values.shape = shape;
  values.dtype = *dtype_of(tensor.data_type());
  const bool external = tensor.data_location() == onnx::TensorProto::EXTERNAL;
  if (external || tensor.has_raw_data()) {
    const std::string raw =
        external ? read_external(external_data(tensor, path, bytes), path, tensor.name()) : tensor.raw_data();
    if (static_cast<int64_t>(raw.size()) != bytes)
      fail("{}, tensor '{}': [{}] of {} needs {} bytes, the file has {}", path, tensor.name(),
           fmt::join(values.shape, "x"), type_name(tensor.data_type()), bytes, raw.size());
    values = from_bytes(values.shape, stored_type_of(tensor.data_type()), raw);
    values.dtype = *dtype_of(tensor.data_type());
  } else {
    read_fields(tensor, values);
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

void check_external(const onnx::TensorProto& tensor, const std::string& path, int64_t bytes) {
  external_data(tensor, path, bytes);
}

}  // namespace partita::onnx_model
