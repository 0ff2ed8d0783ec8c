// Maps ONNX's element types to ours.
#include <onnx/onnx.pb.h>

#include <climits>

#include "partita/base/error.h"
#include "partita/onnx/model.h"

namespace partita::onnx_model {

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

}  // namespace partita::onnx_model
