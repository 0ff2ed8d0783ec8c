#include "partita/runtime/weights.h"

#include <cstring>

#include "partita/base/error.h"
#include "partita/base/float16.h"
#include "partita/base/rng.h"

namespace partita {

Values initial_values(const Tensor& tensor, uint64_t seed) {
  if (tensor.values) return *tensor.values;
  Values values{tensor.dtype, tensor.shape, {}, {}};
  int64_t n = volume(tensor.shape);
  uint64_t stream = hash_name(tensor.name);
  for (int64_t i = 0; i < n; ++i) {
    double u = tensor.initial_bound > 0
                   ? (2 * philox_uniform(seed, stream, 0, static_cast<uint64_t>(i)) - 1) * tensor.initial_bound
                   : 0;
    double x = tensor.initial_fill + u;
    if (is_float(tensor.dtype)) values.real.push_back(x);
    else values.integer.push_back(static_cast<int64_t>(x));
  }
  return values;
}

View view_of(const Values& values, const Shape& axes, std::vector<std::byte>& bytes) {
  size_t n = static_cast<size_t>(volume(values.shape));
  ensure(n == (is_float(values.dtype) ? values.real.size() : values.integer.size()),
         "values of shape [{}] hold {} numbers", fmt::join(values.shape, ", "),
         is_float(values.dtype) ? values.real.size() : values.integer.size());
  bytes.resize(n * static_cast<size_t>(bytes_of(values.dtype)));
  for (size_t i = 0; i < n; ++i) switch (values.dtype) {
      case DType::kFloat32:
        reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(values.real[i]);
        break;
      case DType::kFloat64:
        reinterpret_cast<double*>(bytes.data())[i] = values.real[i];
        break;
      case DType::kInt64:
        reinterpret_cast<int64_t*>(bytes.data())[i] = values.integer[i];
        break;
      case DType::kBool:
        reinterpret_cast<uint8_t*>(bytes.data())[i] = values.integer[i] != 0;
        break;
      case DType::kFloat16:
        reinterpret_cast<Float16*>(bytes.data())[i] = Float16(static_cast<float>(values.real[i]));
        break;
      case DType::kBFloat16:
        reinterpret_cast<BFloat16*>(bytes.data())[i] = BFloat16(static_cast<float>(values.real[i]));
        break;
    }
  View view;
  view.data = bytes.data();
  view.dtype = values.dtype;
  view.axes = axes;
  view.box = full_box(axes);
  view.strides.resize(axes.size());
  int64_t stride = 1;
  for (size_t a = axes.size(); a-- > 0;) view.strides[a] = stride, stride *= axes[a];
  return view;
}

Values values_of(const View& view, const Shape& shape) {
  Values values{view.dtype, shape, {}, {}};
  std::vector<std::byte> bytes(static_cast<size_t>(volume(view.box) * bytes_of(view.dtype)));
  View dense = view;
  dense.data = bytes.data();
  int64_t stride = 1;
  for (size_t a = view.box.size(); a-- > 0;) dense.strides[a] = stride, stride *= view.box[a].size();
  copy_box(view, dense);
  size_t n = static_cast<size_t>(volume(view.box));
  for (size_t i = 0; i < n; ++i) switch (view.dtype) {
      case DType::kFloat32:
        values.real.push_back(reinterpret_cast<float*>(bytes.data())[i]);
        break;
      case DType::kFloat64:
        values.real.push_back(reinterpret_cast<double*>(bytes.data())[i]);
        break;
      case DType::kInt64:
        values.integer.push_back(reinterpret_cast<int64_t*>(bytes.data())[i]);
        break;
      case DType::kBool:
        values.integer.push_back(reinterpret_cast<uint8_t*>(bytes.data())[i]);
        break;
      case DType::kFloat16:
        values.real.push_back(reinterpret_cast<Float16*>(bytes.data())[i]);
        break;
      case DType::kBFloat16:
        values.real.push_back(reinterpret_cast<BFloat16*>(bytes.data())[i]);
        break;
    }
  return values;
}

namespace {
bool holds(const Register& reg, TensorId id) { return reg.tensor == id && (reg.carried || reg.constant); }
}  // namespace

void write_tensor(const Memory& memory, TensorId id, const Values& given, const Tensor& tensor) {
  if (given.shape != tensor.shape)
    fail("'{}': the values have shape [{}], the model's tensor has [{}]", tensor.name, fmt::join(given.shape, ", "),
         fmt::join(tensor.shape, ", "));
  if (is_float(given.dtype) != is_float(tensor.dtype))
    fail("'{}': the values are {}, the model's tensor is {}", tensor.name, name_of(given.dtype), name_of(tensor.dtype));
  Values values = given;
  values.dtype = tensor.dtype;
  std::vector<std::byte> bytes;
  const PhysicalGraph& graph = memory.graph();
  for (size_t r = 0; r < graph.registers.size(); ++r) {
    const Register& reg = graph.registers[r];
    if (!holds(reg, id)) continue;
    copy_box(view_of(values, reg.axes, bytes), memory.view({RegisterId(r), false, {}, -1}, 0, 1));
  }
}

Values read_tensor(const Memory& memory, TensorId id, const Tensor& tensor) {
  const PhysicalGraph& graph = memory.graph();
  Values values{tensor.dtype, tensor.shape, {}, {}};
  (is_float(tensor.dtype) ? (void)values.real.resize(volume(tensor.shape))
                          : (void)values.integer.resize(volume(tensor.shape)));
  std::vector<std::byte> bytes;
  std::vector<Box> missing;
  std::optional<View> whole;
  for (size_t r = 0; r < graph.registers.size(); ++r) {
    const Register& reg = graph.registers[r];
    if (!holds(reg, id)) continue;
    if (!whole) {
      whole = view_of(values, reg.axes, bytes);
      missing = {full_box(reg.axes)};
    }
    View from = memory.view({RegisterId(r), false, {}, -1}, 0, 1);
    std::vector<Box> rest;
    for (const Box& box : missing) {
      Box common = intersect(box, from.box);
      for (Box& left : subtract(box, from.box)) rest.push_back(std::move(left));
      if (is_empty(common)) continue;
      View to = *whole;
      to.box = common;
      for (size_t a = 0; a < common.size(); ++a) to.data += common[a].lo * to.strides[a] * bytes_of(to.dtype);
      copy_box(from, to);
    }
    missing = std::move(rest);
  }
  ensure(whole.has_value() && missing.empty(), "'{}' is not whole in memory", tensor.name);
  return values_of(*whole, tensor.shape);
}

void write_initial(const Memory& memory, const Graph& graph, uint64_t seed,
                   const std::map<std::string, Values>& given) {
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    if (tensor.producer.valid() || tensor.role == Role::kInput) continue;
    auto found = given.find(tensor.name);
    write_tensor(memory, TensorId(t), found != given.end() ? found->second : initial_values(tensor, seed), tensor);
  }
}

std::map<std::string, Values> read_weights(const Memory& memory, const Graph& graph) {
  std::map<std::string, Values> weights;
  for (size_t t = 0; t < graph.tensors.size(); ++t)
    if (graph.tensors[t].role == Role::kParameter || graph.tensors[t].role == Role::kState)
      weights[graph.tensors[t].name] = read_tensor(memory, TensorId(t), graph.tensors[t]);
  return weights;
}

}  // namespace partita
