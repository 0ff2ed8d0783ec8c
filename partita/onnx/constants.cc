// Evaluates operators on constants.
#include "partita/onnx/constants.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "partita/base/error.h"

namespace partita::onnx_model {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 28;  // of a computed constant; more is a damaged file

Values filled(DType dtype, const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > kMostElements)
      fail("a constant of shape [{}]", fmt::join(shape, "x"));
  Values values{.dtype = dtype, .shape = shape};
  if (is_float(dtype)) values.real.resize(static_cast<std::size_t>(count));
  else values.integer.resize(static_cast<std::size_t>(count));
  return values;
}

// Row-major offsets into a tensor of shape `from`, broadcast to `to`, for each element of `to`.
void for_each_offset(const Shape& to, const std::vector<int64_t>& strides, int64_t start,
                     const std::function<void(std::size_t to, std::size_t from)>& f) {
  std::vector<int64_t> at(to.size());
  int64_t offset = start;
  const int64_t count = volume(to);
  for (int64_t i = 0; i < count; ++i) {
    f(static_cast<std::size_t>(i), static_cast<std::size_t>(offset));
    for (std::size_t a = to.size(); a-- > 0;) {
      offset += strides[a];
      if (++at[a] < to[a]) break;
      offset -= strides[a] * to[a];
      at[a] = 0;
    }
  }
}

std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t place = 1;
  for (std::size_t a = shape.size(); a-- > 0; place *= shape[a]) strides[a] = place;
  return strides;
}

// A view of `x`: element i of the result is the element at start + strides * (index of i).
Values viewed(const Values& x, const Shape& to, const std::vector<int64_t>& strides, int64_t start = 0) {
  Values y = filled(x.dtype, to);
  for_each_offset(to, strides, start, [&](std::size_t i, std::size_t from) {
    if (is_float(x.dtype)) y.real[i] = x.real[from];
    else y.integer[i] = x.integer[from];
  });
  return y;
}

Values expanded(const Values& x, const Shape& to) {
  const std::vector<int64_t> own = strides_of(x.shape);
  std::vector<int64_t> strides(to.size());
  for (std::size_t a = 0; a < x.shape.size(); ++a)
    if (x.shape[a] != 1) strides[to.size() - x.shape.size() + a] = own[a];
  return viewed(x, to, strides);
}

double rounded(double value, DType dtype) { return dtype == DType::kFloat32 ? static_cast<float>(value) : value; }

Values cast(const Values& x, DType to) {
  Values y = filled(to, x.shape);
  for (std::size_t i = 0; i < static_cast<std::size_t>(volume(x.shape)); ++i) {
    if (is_float(to)) y.real[i] = rounded(is_float(x.dtype) ? x.real[i] : static_cast<double>(x.integer[i]), to);
    else if (!is_float(x.dtype)) y.integer[i] = to == DType::kBool ? x.integer[i] != 0 : x.integer[i];
    else if (to == DType::kBool) y.integer[i] = x.real[i] != 0;
    else if (!(std::abs(x.real[i]) < 9.2e18))
      y.integer[i] = INT64_MIN;  // undefined in ONNX; the result of x86, and so of PyTorch
    else y.integer[i] = static_cast<int64_t>(x.real[i]);
  }
  return y;
}

Values unary(const Values& x, double (*on_real)(double), int64_t (*on_integer)(int64_t)) {
  Values y = x;
  if (!on_integer && !is_float(x.dtype)) fail("an operand of {}", name_of(x.dtype));
  if (!on_real && is_float(x.dtype)) fail("an operand of {}", name_of(x.dtype));
  for (double& v : y.real) v = rounded(on_real(v), x.dtype);
  for (int64_t& v : y.integer) v = on_integer(v);
  return y;
}

struct Binary {
  double (*real)(double, double);
  int64_t (*integer)(int64_t, int64_t);
  bool comparison = false;
};

int64_t wrapping(unsigned __int128 value) { return static_cast<int64_t>(static_cast<uint64_t>(value)); }
int64_t divided(int64_t a, int64_t b) {
  if (b == 0) fail("a division by zero");
  return b == -1 ? wrapping(-static_cast<unsigned __int128>(static_cast<uint64_t>(a))) : a / b;
}
int64_t modulo(int64_t a, int64_t b) {  // with the sign of b, as ONNX's Mod of integers
  if (b == 0) fail("a division by zero");
  const int64_t rest = b == -1 ? 0 : a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
int64_t remainder(int64_t a, int64_t b) {  // with the sign of a
  if (b == 0) fail("a division by zero");
  return b == -1 ? 0 : a % b;
}
int64_t power(int64_t a, int64_t b) {
  if (b < 0) fail("an integer to the power {}", b);
  int64_t result = 1;
  for (; b > 0; --b)
    if (__builtin_mul_overflow(result, a, &result) || b > 4096) fail("a power that is too large");
  return result;
}

const std::map<std::string, Binary>& binaries() {
  static const std::map<std::string, Binary> table{
      {"Add",
       {[](double a, double b) { return a + b; },
        [](int64_t a, int64_t b) {
          return wrapping(static_cast<unsigned __int128>(a) + static_cast<unsigned __int128>(b));
        }}},
      {"Sub",
       {[](double a, double b) { return a - b; },
        [](int64_t a, int64_t b) {
          return wrapping(static_cast<unsigned __int128>(a) - static_cast<unsigned __int128>(b));
        }}},
      {"Mul",
       {[](double a, double b) { return a * b; },
        [](int64_t a, int64_t b) {
          return wrapping(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
        }}},
      {"Div", {[](double a, double b) { return a / b; }, divided}},
      {"Mod", {[](double a, double b) { return std::fmod(a, b); }, modulo}},
      {"Pow", {[](double a, double b) { return std::pow(a, b); }, power}},
      {"Min", {[](double a, double b) { return std::min(a, b); }, [](int64_t a, int64_t b) { return std::min(a, b); }}},
      {"Max", {[](double a, double b) { return std::max(a, b); }, [](int64_t a, int64_t b) { return std::max(a, b); }}},
      {"Equal",
       {[](double a, double b) { return double(a == b); }, [](int64_t a, int64_t b) { return int64_t(a == b); }, true}},
      {"Less",
       {[](double a, double b) { return double(a < b); }, [](int64_t a, int64_t b) { return int64_t(a < b); }, true}},
      {"LessOrEqual",
       {[](double a, double b) { return double(a <= b); }, [](int64_t a, int64_t b) { return int64_t(a <= b); }, true}},
      {"Greater",
       {[](double a, double b) { return double(a > b); }, [](int64_t a, int64_t b) { return int64_t(a > b); }, true}},
      {"GreaterOrEqual",
       {[](double a, double b) { return double(a >= b); }, [](int64_t a, int64_t b) { return int64_t(a >= b); }, true}},
      {"And", {nullptr, [](int64_t a, int64_t b) { return int64_t(a && b); }, true}},
      {"Or", {nullptr, [](int64_t a, int64_t b) { return int64_t(a || b); }, true}},
      {"Xor", {nullptr, [](int64_t a, int64_t b) { return int64_t((a != 0) != (b != 0)); }, true}},
      {"BitwiseAnd", {nullptr, [](int64_t a, int64_t b) { return a & b; }}},
      {"BitwiseOr", {nullptr, [](int64_t a, int64_t b) { return a | b; }}},
      {"BitwiseXor", {nullptr, [](int64_t a, int64_t b) { return a ^ b; }}},
  };
  return table;
}

Values binary(const Binary& f, const Values& a, const Values& b) {
  if (is_float(a.dtype) != is_float(b.dtype)) fail("operands of {} and {}", name_of(a.dtype), name_of(b.dtype));
  const Shape shape = broadcast(a.shape, b.shape);
  const Values x = expanded(a, shape), y = expanded(b, shape);
  Values z = filled(f.comparison ? DType::kBool : a.dtype, shape);
  for (std::size_t i = 0; i < static_cast<std::size_t>(volume(shape)); ++i) {
    if (!is_float(a.dtype)) z.integer[i] = f.integer(x.integer[i], y.integer[i]);
    else if (!f.real) fail("operands of {}", name_of(a.dtype));
    else if (f.comparison) z.integer[i] = f.real(x.real[i], y.real[i]) != 0;
    else z.real[i] = rounded(f.real(x.real[i], y.real[i]), a.dtype);
  }
  return z;
}

Values concat(const std::vector<const Values*>& operands, int64_t axis) {
  for (const Values* x : operands)
    if (!x) fail("a part is missing");
  Shape shape = operands.at(0)->shape;
  const std::size_t a = static_cast<std::size_t>(axis_of(axis, shape.size()));
  shape[a] = 0;
  for (const Values* x : operands) {
    if (x->shape.size() != shape.size() || x->dtype != operands[0]->dtype) fail("parts of different ranks or types");
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (i != a && x->shape[i] != shape[i]) fail("parts of different shapes");
    shape[a] += x->shape[a];
  }
  Values y = filled(operands[0]->dtype, shape);
  const std::vector<int64_t> strides = strides_of(shape);
  int64_t offset = 0;
  for (const Values* x : operands) {
    for_each_offset(x->shape, strides, offset * strides[a], [&](std::size_t from, std::size_t to) {
      if (is_float(y.dtype)) y.real[to] = x->real[from];
      else y.integer[to] = x->integer[from];
    });
    offset += x->shape[a];
  }
  return y;
}

Values gather(const Values& x, const Values& ids, int64_t axis) {
  const std::size_t a = static_cast<std::size_t>(axis_of(axis, x.shape.size()));
  const std::vector<int64_t> strides = strides_of(x.shape);
  if (is_float(ids.dtype)) fail("ids of {}", name_of(ids.dtype));
  Shape shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(a));
  shape.insert(shape.end(), ids.shape.begin(), ids.shape.end());
  shape.insert(shape.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(a) + 1, x.shape.end());
  Values y = filled(x.dtype, shape);
  const int64_t inner = strides[a],
                outer = volume(Shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(a)));
  std::size_t to = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t id : ids.integer) {
      const int64_t from = (o * x.shape[a] + place_of(id, x.shape[a])) * inner;
      for (int64_t i = 0; i < inner; ++i, ++to) {
        if (is_float(x.dtype)) y.real[to] = x.real[static_cast<std::size_t>(from + i)];
        else y.integer[to] = x.integer[static_cast<std::size_t>(from + i)];
      }
    }
  return y;
}

Values constant(const Node& node) {
  const auto of = [](DType dtype, Shape shape) { return Values{.dtype = dtype, .shape = std::move(shape)}; };
  if (const auto* v = attribute<TypedValues>(node, "value")) return *v;
  if (const auto* v = attribute<int64_t>(node, "value_int")) {
    Values y = of(DType::kInt64, {});
    y.integer = {*v};
    return y;
  }
  if (const auto* v = attribute<double>(node, "value_float")) {
    Values y = of(DType::kFloat32, {});
    y.real = {*v};
    return y;
  }
  if (const auto* v = attribute<std::vector<int64_t>>(node, "value_ints")) {
    Values y = of(DType::kInt64, {static_cast<int64_t>(v->size())});
    y.integer = *v;
    return y;
  }
  if (const auto* v = attribute<std::vector<double>>(node, "value_floats")) {
    Values y = of(DType::kFloat32, {static_cast<int64_t>(v->size())});
    y.real = *v;
    return y;
  }
  fail("a constant of a kind that is not supported");
}

Values range(const Values& from, const Values& to, const Values& step) {
  if (volume(from.shape) != 1 || volume(to.shape) != 1 || volume(step.shape) != 1) fail("a range needs scalars");
  if (is_float(from.dtype) != is_float(to.dtype) || is_float(from.dtype) != is_float(step.dtype))
    fail("a range of different types");
  if (!is_float(from.dtype)) {
    const int64_t lo = from.integer[0], hi = to.integer.at(0), by = step.integer.at(0);
    if (by == 0) fail("a range with step 0");
    const __int128 distance = by > 0 ? static_cast<__int128>(hi) - lo : static_cast<__int128>(lo) - hi,
                   stride = by > 0 ? by : -static_cast<__int128>(by);
    const __int128 count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    if (count > kMostElements) fail("a range of too many values");
    Values y = filled(DType::kInt64, {static_cast<int64_t>(count)});
    for (std::size_t i = 0; i < y.integer.size(); ++i) y.integer[i] = lo + static_cast<int64_t>(i) * by;
    return y;
  }
  const double count = std::max(0.0, std::ceil((to.real.at(0) - from.real[0]) / step.real.at(0)));
  if (!(count <= static_cast<double>(kMostElements))) fail("a range of too many values");
  Values y = filled(from.dtype, {static_cast<int64_t>(count)});
  for (std::size_t i = 0; i < y.real.size(); ++i)
    y.real[i] = rounded(from.real[0] + static_cast<double>(i) * step.real[0], from.dtype);
  return y;
}

// Places where x is not 0: [rank, count].
Values nonzero(const Values& x) {
  std::vector<int64_t> found;
  for (std::size_t i = 0; i < static_cast<std::size_t>(volume(x.shape)); ++i)
    if (is_float(x.dtype) ? x.real[i] != 0 : x.integer[i] != 0) found.push_back(static_cast<int64_t>(i));
  Values y = filled(DType::kInt64, {static_cast<int64_t>(x.shape.size()), static_cast<int64_t>(found.size())});
  const std::vector<int64_t> strides = strides_of(x.shape);
  for (std::size_t a = 0; a < x.shape.size(); ++a)
    for (std::size_t i = 0; i < found.size(); ++i) y.integer[a * found.size() + i] = found[i] / strides[a] % x.shape[a];
  return y;
}

Values eye_like(const Node& node, const Values& x) {
  if (x.shape.size() != 2) fail("an operand of {} axes", x.shape.size());
  const auto dtype = has(node, "dtype") ? dtype_of(integer(node, "dtype", 0)) : x.dtype;
  if (!dtype) fail("a result of {}", type_name(integer(node, "dtype", 0)));
  Values y = filled(*dtype, x.shape);
  const int64_t k = integer(node, "k", 0);
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    if (k >= x.shape[1] || k <= -x.shape[0] || i + k < 0 || i + k >= x.shape[1]) continue;
    const std::size_t at = static_cast<std::size_t>(i * x.shape[1] + i + k);
    if (is_float(*dtype)) y.real[at] = 1;
    else y.integer[at] = 1;
  }
  return y;
}

Values transposed(const Node& node, const Values& x) {
  std::vector<int64_t> order = integers(node, "perm");
  if (order.empty())
    for (std::size_t a = x.shape.size(); a-- > 0;) order.push_back(static_cast<int64_t>(a));
  if (order.size() != x.shape.size()) fail("perm [{}] for {} axes", fmt::join(order, ", "), x.shape.size());
  const std::vector<int64_t> own = strides_of(x.shape);
  Shape shape;
  std::vector<int64_t> strides;
  for (int64_t axis : order) {
    const std::size_t a = static_cast<std::size_t>(axis_of(axis, x.shape.size()));
    shape.push_back(x.shape[a]);
    strides.push_back(own[a]);
  }
  if (volume(shape) != volume(x.shape)) fail("perm [{}] names an axis twice", fmt::join(order, ", "));
  return viewed(x, shape, strides);
}

Values sliced(const Node& node, const std::vector<const Values*>& in) {
  const Values& x = *in.at(0);
  auto list = [&](std::size_t i) { return i < in.size() && in[i] ? in[i]->integer : std::vector<int64_t>(); };
  const SliceRange range = in.size() > 1 ? slice_range(x.shape, list(1), list(2), list(3), list(4))
                                         : slice_range(x.shape, integers(node, "starts"), integers(node, "ends"),
                                                       integers(node, "axes"), {});
  std::vector<int64_t> strides = strides_of(x.shape);
  int64_t start = 0;
  for (std::size_t a = 0; a < strides.size(); ++a) {
    start += range.starts[a] * strides[a];
    strides[a] *= range.steps[a];
  }
  if (volume(range.sizes) == 0) return filled(x.dtype, range.sizes);
  return viewed(x, range.sizes, strides, start);
}

// The operators, each from its node and operands; `in` has as many as the least number given.
struct Evaluator {
  std::size_t operands;
  std::function<Values(const Node&, const std::vector<const Values*>&)> evaluate;
};

std::vector<int64_t> axes_from(const Node& node, const std::vector<const Values*>& in) {
  return in.size() > 1 && in[1] ? in[1]->integer : integers(node, "axes");
}

Values with_shape(Values x, Shape shape) {
  x.shape = std::move(shape);
  return x;
}

using Evaluators = std::map<std::string, Evaluator>;
using In = const std::vector<const Values*>&;

// Operators that move and make elements.
Evaluators moving_evaluators() {
  return {
      {"Constant", {0, [](const Node& node, In) { return constant(node); }}},
      {"ConstantOfShape",
       {1,
        [](const Node& node, In in) {
          const Values* value = attribute<TypedValues>(node, "value");
          Values y = filled(value ? value->dtype : DType::kFloat32, in[0]->integer);
          if (value && volume(value->shape) != 1) fail("a value of {} elements", volume(value->shape));
          if (value && is_float(y.dtype)) std::fill(y.real.begin(), y.real.end(), value->real[0]);
          else if (value) std::fill(y.integer.begin(), y.integer.end(), value->integer[0]);
          return y;
        }}},
      {"Identity", {1, [](const Node&, In in) { return *in[0]; }}},
      {"Cast",
       {1,
        [](const Node& node, In in) {
          const auto to = dtype_of(integer(node, "to", 0));
          if (!to) fail("a cast to {}, which is not supported", type_name(integer(node, "to", 0)));
          Values y = cast(*in[0], *to);
          if (const auto low = low_dtype_of(integer(node, "to", 0)))
            for (double& value : y.real) value = rounded_to(*low, value);
          return y;
        }}},
      {"CastLike", {2, [](const Node&, In in) { return cast(*in[0], in[1]->dtype); }}},
      {"Reshape",
       {2,
        [](const Node& node, In in) {
          return with_shape(*in[0], reshaped(in[0]->shape, in[1]->integer, integer(node, "allowzero", 0) != 0));
        }}},
      {"Flatten",
       {1,
        [](const Node& node, In in) {
          const Shape& x = in[0]->shape;
          const int64_t axis = integer(node, "axis", 1),
                        front = axis == static_cast<int64_t>(x.size()) ? axis : axis_of(axis, x.size());
          const int64_t rows = volume(Shape(x.begin(), x.begin() + front));
          return with_shape(*in[0], {rows, volume(Shape(x.begin() + front, x.end()))});
        }}},
      {"Squeeze",
       {1, [](const Node& node, In in) { return with_shape(*in[0], squeezed(in[0]->shape, axes_from(node, in))); }}},
      {"Unsqueeze",
       {1, [](const Node& node, In in) { return with_shape(*in[0], unsqueezed(in[0]->shape, axes_from(node, in))); }}},
      {"Expand", {2, [](const Node&, In in) { return expanded(*in[0], broadcast(in[0]->shape, in[1]->integer)); }}},
      {"Concat", {1, [](const Node& node, In in) { return concat(in, integer(node, "axis", 0)); }}},
      {"Gather", {2, [](const Node& node, In in) { return gather(*in[0], *in[1], integer(node, "axis", 0)); }}},
      {"Slice", {1, sliced}},
      {"Transpose", {1, [](const Node& node, In in) { return transposed(node, *in[0]); }}},
      {"Range", {3, [](const Node&, In in) { return range(*in[0], *in[1], *in[2]); }}},
      {"NonZero", {1, [](const Node&, In in) { return nonzero(*in[0]); }}},
      {"EyeLike", {1, [](const Node& node, In in) { return eye_like(node, *in[0]); }}},
  };
}

// Operators that compute each element.
Evaluators computing_evaluators() {
  return {
      {"BitwiseNot", {1, [](const Node&, In in) { return unary(*in[0], nullptr, [](int64_t v) { return ~v; }); }}},
      {"Neg",
       {1,
        [](const Node&, In in) {
          return unary(
              *in[0], [](double v) { return -v; },
              [](int64_t v) { return wrapping(-static_cast<unsigned __int128>(v)); });
        }}},
      {"Abs",
       {1,
        [](const Node&, In in) {
          return unary(
              *in[0], [](double v) { return std::abs(v); },
              [](int64_t v) { return v < 0 ? wrapping(-static_cast<unsigned __int128>(v)) : v; });
        }}},
      {"Floor",
       {1,
        [](const Node&, In in) {
          return unary(
              *in[0], [](double v) { return std::floor(v); }, nullptr);
        }}},
      {"Ceil",
       {1,
        [](const Node&, In in) {
          return unary(
              *in[0], [](double v) { return std::ceil(v); }, nullptr);
        }}},
      {"Sqrt",
       {1,
        [](const Node&, In in) {
          return unary(
              *in[0], [](double v) { return std::sqrt(v); }, nullptr);
        }}},
      {"Not",
       {1, [](const Node&, In in) { return unary(*in[0], nullptr, [](int64_t v) { return int64_t(v == 0); }); }}},
      {"Where",
       {3,
        [](const Node&, In in) {
          const Shape shape = broadcast(broadcast(in[0]->shape, in[1]->shape), in[2]->shape);
          if (in[1]->dtype != in[2]->dtype || is_float(in[0]->dtype))
            fail("a condition of {}, choices of {} and {}", name_of(in[0]->dtype), name_of(in[1]->dtype),
                 name_of(in[2]->dtype));
          const Values c = expanded(*in[0], shape), a = expanded(*in[1], shape), b = expanded(*in[2], shape);
          Values y = a;
          for (std::size_t i = 0; i < c.integer.size(); ++i) {
            if (c.integer[i]) continue;
            if (is_float(y.dtype)) y.real[i] = b.real[i];
            else y.integer[i] = b.integer[i];
          }
          return y;
        }}},
  };
}

const Evaluators& evaluators() {
  static const Evaluators kAll = [] {
    Evaluators all = moving_evaluators();
    all.merge(computing_evaluators());
    return all;
  }();
  return kAll;
}

}  // namespace

bool can_evaluate(const std::string& operation) {
  return evaluators().contains(operation) || binaries().contains(operation);
}

Values evaluate_constant(const Node& node, const std::vector<const Values*>& operands) {
  if (const auto found = binaries().find(node.operation); found != binaries().end()) {
    if (operands.empty() || !operands[0]) fail("an operand is missing");
    Values result = *operands[0];
    const Binary* f = &found->second;
    static const Binary kTruncated{[](double a, double b) { return std::fmod(a, b); }, remainder};
    if (node.operation == "Mod" && integer(node, "fmod", 0)) f = &kTruncated;
    if (node.operation == "Pow" && operands.size() == 2 && operands[1] &&
        is_float(result.dtype) != is_float(operands[1]->dtype)) {
      const DType base = result.dtype;  // of the result; computed in the floating one
      const auto real = [](const Values& x) { return is_float(x.dtype) ? x : cast(x, DType::kFloat64); };
      return cast(binary(*f, real(result), real(*operands[1])), base);
    }
    for (std::size_t i = 1; i < operands.size(); ++i) {
      if (!operands[i]) fail("an operand is missing");
      result = binary(*f, result, *operands[i]);
    }
    return result;
  }
  const Evaluator& evaluator = evaluators().at(node.operation);
  for (std::size_t i = 0; i < evaluator.operands; ++i)
    if (i >= operands.size() || !operands[i]) fail("operand {} is missing", i);
  return evaluator.evaluate(node, operands);
}

}  // namespace partita::onnx_model
