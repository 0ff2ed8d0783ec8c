// Reads tensors of an ONNX file: their shapes, and their values, which may lie in a file beside it.
#pragma once
#include <onnx/onnx.pb.h>

#include <string>

#include "partita/graph/graph.h"

namespace partita::onnx_model {

inline constexpr const char* kOnnxFile = "an ONNX file";  // the name of the model and its external data in messages

struct TensorSize {
  Shape shape;
  int64_t count = 1, bytes = 0;
};
// These throw (bad input) with `path`, the model's. The size is the tensor's own.
TensorSize size_of(const onnx::TensorProto& tensor, const std::string& path);
Values values_of(const onnx::TensorProto& tensor, const std::string& path);
// Checks the place of a tensor of `bytes` bytes that is stored beside the model, without reading it.
void check_external(const onnx::TensorProto& tensor, const std::string& path, int64_t bytes);

}  // namespace partita::onnx_model
