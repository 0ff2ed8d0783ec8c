// Gives tensors their first values, and moves values into and out of registers.
#include "partita/runtime/weights.h"

#include <algorithm>
#include <type_traits>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/runtime/typed.h"

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

namespace {

// Numbers of a tensor as they lie in memory, and back.
template <typename T>
void write_numbers(const Values& values, T* to) {
  const size_t n = static_cast<size_t>(volume(values.shape));
  for (size_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, uint8_t>) to[i] = values.integer[i] != 0;
    else if constexpr (std::is_integral_v<T>) to[i] = values.integer[i];
    else if constexpr (std::is_floating_point_v<T>) to[i] = static_cast<T>(values.real[i]);
    else to[i] = T(static_cast<float>(values.real[i]));
  }
}
template <typename T>
void read_numbers(const T* from, size_t count, Values& values) {
  if constexpr (std::is_integral_v<T>) values.integer.assign(from, from + count);
  else values.real.assign(from, from + count);
}

}  // namespace

View view_of(const Values& values, const Shape& axes, std::vector<std::byte>& bytes) {
  size_t n = static_cast<size_t>(volume(values.shape));
  ensure(n == (is_float(values.dtype) ? values.real.size() : values.integer.size()),
         "values of shape [{}] hold {} numbers", fmt::join(values.shape, ", "),
         is_float(values.dtype) ? values.real.size() : values.integer.size());
  bytes.resize(n * static_cast<size_t>(bytes_of(values.dtype)));
  with_type(values.dtype, [&](auto zero) { write_numbers(values, reinterpret_cast<decltype(zero)*>(bytes.data())); });
  return {bytes.data(), values.dtype, full_box(axes), dense_strides(axes), axes};
}

Values values_of(const View& view, const Shape& shape) {
  Values values{view.dtype, shape, {}, {}};
  std::vector<std::byte> bytes(static_cast<size_t>(volume(view.box) * bytes_of(view.dtype)));
  View dense = view;
  dense.data = bytes.data();
  dense.strides = dense_strides(extents(view.box));
  copy_box(view, dense);
  const size_t n = static_cast<size_t>(volume(view.box));
  with_type(view.dtype,
            [&](auto zero) { read_numbers(reinterpret_cast<const decltype(zero)*>(bytes.data()), n, values); });
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
    const View to = memory.view({RegisterId(r), false, {}, -1}, 0, 1);
    if (reg.term > 0) fill_view(to, 0);  // of a sum, the first term has the values
    else copy_box(view_of(values, reg.axes, bytes), to);
  }
}

namespace {

// The values, or one term of a tensor that is kept as a sum.
Values read_term(const Memory& memory, TensorId id, const Tensor& tensor, int term) {
  const PhysicalGraph& graph = memory.graph();
  Values values{tensor.dtype, tensor.shape, {}, {}};
  if (is_float(tensor.dtype)) values.real.resize(volume(tensor.shape));
  else values.integer.resize(volume(tensor.shape));
  std::vector<std::byte> bytes;
  std::vector<Box> missing;
  std::optional<View> whole;
  for (size_t r = 0; r < graph.registers.size(); ++r) {
    const Register& reg = graph.registers[r];
    if (!holds(reg, id) || std::max(reg.term, 0) != term) continue;
    if (!whole) {
      whole = view_of(values, reg.axes, bytes);
      missing = {full_box(reg.axes)};
    }
    missing = copy_missing(missing, memory.view({RegisterId(r), false, {}, -1}, 0, 1), *whole);
  }
  ensure(whole.has_value() && missing.empty(), "'{}' is not whole in memory", tensor.name);
  return values_of(*whole, tensor.shape);
}

}  // namespace

Values read_tensor(const Memory& memory, TensorId id, const Tensor& tensor) {
  int last = 0;
  for (const Register& reg : memory.graph().registers)
    if (holds(reg, id)) last = std::max(last, reg.term);
  Values values = read_term(memory, id, tensor, 0);
  for (int term = 1; term <= last; ++term) {
    const Values more = read_term(memory, id, tensor, term);
    for (size_t i = 0; i < values.real.size(); ++i) values.real[i] += more.real[i];
  }
  return values;
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
