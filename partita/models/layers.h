// Builds the single layers of all families of models, with PyTorch's parameter names, layouts and initial values.
#pragma once
#include <string>

#include "partita/graph/builder.h"

namespace partita {

// Rows and columns: a kernel's extent, a padding on both sides.
struct Extent2 {
  int64_t rows, columns;
  Extent2(int64_t both) : rows(both), columns(both) {}
  Extent2(int64_t rows, int64_t columns) : rows(rows), columns(columns) {}
};

class Layers {
 public:
  Layers(GraphBuilder& builder, DType dtype) : b(builder), dtype(dtype) {}

  struct Convolution {
    int64_t outputs = 0;
    Extent2 kernel = 1;
    int64_t stride = 1;
    Extent2 padding = 0;
    int64_t groups = 1;
    bool bias = false;
  };
  // x [n, c, height, width]; weights NAME.weight [outputs, c/groups, rows, columns], NAME.bias [outputs].
  TensorId convolution(TensorId x, const std::string& name, const Convolution& options);
  // Batch norm in training form over axis 1, with NAME.weight, NAME.bias and the running statistics. `fine`: in
  // elementary operations.
  TensorId batch_norm(TensorId x, const std::string& name, double eps = 1e-5, double momentum = 0.1, bool fine = false);
  // x [.., inputs] -> [.., outputs]; weights NAME.weight [outputs, inputs], NAME.bias [outputs].
  TensorId linear(TensorId x, const std::string& name, int64_t outputs, bool bias = true);
  // `words` rows of `width` numbers; ids [..] -> [.., width].
  TensorId embedding(TensorId ids, const std::string& name, int64_t words, int64_t width);
  TensorId relu(TensorId x, const std::string& name) { return b.op("relu", {x}, {}, name); }
  // Nothing at p = 0.
  TensorId dropout(TensorId x, const std::string& name, double p);
  TensorId max_pool(TensorId x, const std::string& name, int64_t kernel, int64_t stride, int64_t padding = 0);
  TensorId average_pool(TensorId x, const std::string& name, int64_t kernel, int64_t stride, int64_t padding = 0,
                        bool count_padding = true);
  // [n, c, height, width] -> [n, c]
  TensorId global_average(TensorId x, const std::string& name);
  TensorId concat(std::vector<TensorId> parts, const std::string& name, int64_t axis = 1);
  // [batch, steps, heads size] -> [batch, heads, steps, size], and back.
  TensorId split_heads(TensorId x, const std::string& name, int64_t heads);
  TensorId merge_heads(TensorId x, const std::string& name);
  TensorId parameter(const std::string& name, Shape shape, double bound, double fill = 0);

  GraphBuilder& b;
  DType dtype;
};

}  // namespace partita
