// Builds single layers: convolutions, norms, linear layers and pooling.
#include "partita/models/layers.h"

#include <cmath>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

tdl::Attributes window(int64_t stride, Extent2 padding) {
  const double s = static_cast<double>(stride), rows = static_cast<double>(padding.rows),
               columns = static_cast<double>(padding.columns);
  return {{"sh", s}, {"sw", s}, {"pt", rows}, {"pb", rows}, {"pl", columns}, {"pr", columns}};
}

tdl::Attributes pooling(int64_t kernel, int64_t stride, int64_t padding) {
  tdl::Attributes attributes = window(stride, padding);
  attributes["kh"] = attributes["kw"] = static_cast<double>(kernel);
  return attributes;
}

}  // namespace

TensorId Layers::parameter(const std::string& name, Shape shape, double bound, double fill) {
  return b.parameter(name, std::move(shape), bound, fill, dtype);
}

TensorId Layers::convolution(TensorId x, const std::string& name, const Convolution& o) {
  const int64_t inputs = b.shape(x).at(1);
  if (inputs % o.groups || o.outputs % o.groups)
    fail("convolution '{}': {} and {} channels are not whole groups of {}", name, inputs, o.outputs, o.groups);
  b.set_source({name, ""});
  // Kaiming's for ReLU, fan out, as a uniform distribution of the same deviation (torchvision's ResNets).
  const int64_t fan_out = o.outputs / o.groups * o.kernel.rows * o.kernel.columns;
  const double bound = std::sqrt(6.0 / static_cast<double>(fan_out));
  std::vector<TensorId> operands{
      x, parameter(name + ".weight", {o.outputs, inputs / o.groups, o.kernel.rows, o.kernel.columns}, bound)};
  if (o.bias) operands.push_back(parameter(name + ".bias", {o.outputs}, 0));
  tdl::Attributes attributes = window(o.stride, o.padding);
  if (o.groups != 1) attributes["groups"] = static_cast<double>(o.groups);
  return b.op("conv2d", operands, attributes, name);
}

TensorId Layers::batch_norm(TensorId x, const std::string& name, double eps, double momentum, bool fine) {
  const int64_t c = b.shape(x).at(1);
  b.set_source({name, ""});
  const TensorId w = parameter(name + ".weight", {c}, 0, 1), bias = parameter(name + ".bias", {c}, 0);
  const TensorId mean = b.state(name + ".running_mean", {c}, 0, dtype),
                 variance = b.state(name + ".running_var", {c}, 1, dtype);
  const auto norm = fine ? elementary_batch_norm : batch_norm_training;
  return norm(b, x, w, bias, mean, variance, eps, momentum, name);
}

TensorId Layers::linear(TensorId x, const std::string& name, int64_t outputs, bool bias) {
  const int64_t inputs = b.shape(x).back();
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  b.set_source({name, ""});
  std::vector<TensorId> operands{x, parameter(name + ".weight", {outputs, inputs}, bound)};
  if (bias) operands.push_back(parameter(name + ".bias", {outputs}, bound));
  return b.op("linear", operands, {{"transposed", 1}}, name);
}

TensorId Layers::embedding(TensorId ids, const std::string& name, int64_t words, int64_t width) {
  b.set_source({name, ""});
  return b.op("gather", {parameter(name + ".weight", {words, width}, std::sqrt(3.0) / 50), ids}, {{"axis", 0}}, name);
}

TensorId Layers::dropout(TensorId x, const std::string& name, double p) {
  return p == 0 ? x : b.op("dropout", {x}, {{"p", p}}, name);
}

TensorId Layers::max_pool(TensorId x, const std::string& name, int64_t kernel, int64_t stride, int64_t padding) {
  return b.op("max_pool", {x}, pooling(kernel, stride, padding), name);
}

TensorId Layers::average_pool(TensorId x, const std::string& name, int64_t kernel, int64_t stride, int64_t padding,
                              bool count_padding) {
  tdl::Attributes attributes = pooling(kernel, stride, padding);
  attributes["count_padding"] = count_padding;
  return b.op("average_pool", {x}, attributes, name);
}

TensorId Layers::global_average(TensorId x, const std::string& name) {
  return b.op("flatten", {b.op("global_average_pool", {x}, {}, name)}, {{"axis", 1}}, name + ".flatten");
}

TensorId Layers::split_heads(TensorId x, const std::string& name, int64_t heads) {
  const Shape shape = b.shape(x);
  if (shape.at(2) % heads) fail("'{}': {} columns are not {} equal heads", name, shape[2], heads);
  const TensorId parts =
      b.op("reshape", {x}, list_attributes("shape", {shape[0], shape[1], heads, shape[2] / heads}), name + ".heads");
  return b.op("transpose", {parts}, list_attributes("perm", {0, 2, 1, 3}), name + ".transpose");
}

TensorId Layers::merge_heads(TensorId x, const std::string& name) {
  const Shape shape = b.shape(x);
  const TensorId parts = b.op("transpose", {x}, list_attributes("perm", {0, 2, 1, 3}), name + ".transpose");
  return b.op("reshape", {parts}, list_attributes("shape", {shape[0], shape[2], shape[1] * shape[3]}), name + ".merge");
}

TensorId Layers::concat(std::vector<TensorId> parts, const std::string& name, int64_t axis) {
  return b.op("concat", std::move(parts), {{"axis", static_cast<double>(axis)}}, name);
}

}  // namespace partita
