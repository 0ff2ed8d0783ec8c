// Prints graphs as text, a line a tensor and a line an op:
//
//   graph mlp
//   tensor x float32[24x32] input sample=0
//   tensor w float32[32x64] parameter bound=0.125
//   tensor y float32[24x64] activation sample=0
//   op y = matmul(x, w) -> y
//   inputs x
//   outputs y
//
// A name with other characters than [A-Za-z0-9_./:+-] is quoted as in JSON. Numbers are printed so that they read back
// the same. Values are `splat:V`, `list:V;V;..`, or, from 65 elements on, the bytes of float32 or float64 numbers in
// hex.
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/graph/graph.h"

namespace partita {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string word(const std::string& name) {
  const bool plain = !name.empty() && name != "->" &&
                     name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:+-") ==
                         std::string::npos;
  return plain ? name : quoted(name);
}

std::string type(DType dtype, const Shape& shape) {
  return fmt::format("{}[{}]", name_of(dtype), fmt::join(shape, "x"));
}

template <typename T>
std::string hex(const std::vector<double>& values) {
  std::string text;
  text.reserve(values.size() * sizeof(T) * 2);
  for (double value : values) {
    const T narrow = static_cast<T>(value);
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &narrow, sizeof(T));
    for (unsigned char byte : bytes) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
  }
  return text;
}

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

std::string print_values(const Values& values) {
  const std::size_t n = values.real.size() + values.integer.size();
  if (n == 0) return "none";
  if (!is_float(values.dtype)) {
    if (n > 1 &&
        std::all_of(values.integer.begin(), values.integer.end(), [&](int64_t v) { return v == values.integer[0]; }))
      return fmt::format("splat:{}", values.integer[0]);
    return fmt::format("list:{}", fmt::join(values.integer, ";"));
  }
  if (n > 1 &&
      std::all_of(values.real.begin(), values.real.end(), [&](double v) { return same_bits(v, values.real[0]); }))
    return fmt::format("splat:{}", values.real[0]);
  if (n <= 64) return fmt::format("list:{}", fmt::join(values.real, ";"));
  const bool narrow = std::all_of(values.real.begin(), values.real.end(),
                                  [](double v) { return same_bits(static_cast<double>(static_cast<float>(v)), v); });
  return narrow ? "f32:" + hex<float>(values.real) : "f64:" + hex<double>(values.real);
}

}  // namespace

std::string print(const Graph& graph) {
  if (graph.whole) return print(*graph.whole) + fmt::format("micro-batches {}\n", graph.micro_batches());
  std::string out = fmt::format("graph {}\n", word(graph.name));
  for (const Tensor& t : graph.tensors) {
    out += fmt::format("tensor {} {} {}", word(t.name), type(t.dtype, t.shape), name_of(t.role));
    if (t.same_as.valid()) out += fmt::format(" same={}", word(graph.tensor(t.same_as).name));
    if (t.sample_axis >= 0) out += fmt::format(" sample={}", t.sample_axis);
    if (t.replaces.valid()) out += fmt::format(" replaces={}", word(graph.tensor(t.replaces).name));
    if (t.initial_bound != 0) out += fmt::format(" bound={}", t.initial_bound);
    if (t.initial_fill != 0) out += fmt::format(" fill={}", t.initial_fill);
    if (t.values) out += fmt::format(" values={}", print_values(*t.values));
    out += '\n';
  }
  auto names = [&](const std::vector<TensorId>& ids, const char* separator) {
    std::vector<std::string> words;
    for (TensorId id : ids) words.push_back(word(graph.tensor(id).name));
    return fmt::format("{}", fmt::join(words, separator));
  };
  for (const Op& op : graph.ops) {
    out += fmt::format("op {} = {}({})", word(op.name), word(op.definition), names(op.operands, ", "));
    for (const auto& [name, value] : op.attributes) out += fmt::format(" @{}={}", name, value);
    out += fmt::format(" -> {}", names(op.results, ", "));
    if (op.phase != Phase::kForward) out += fmt::format(" phase={}", name_of(op.phase));
    if (op.forward.valid()) out += fmt::format(" forward={}", word(graph.op(op.forward).name));
    if (op.time_step >= 0) out += fmt::format(" step={}", op.time_step);
    if (op.cell >= 0) out += fmt::format(" cell={}", op.cell);
    if (op.device_type != DeviceType::kGpu) out += fmt::format(" device={}", name_of(op.device_type));
    if (!op.colocation.empty()) out += fmt::format(" colocation={}", quoted(op.colocation));
    if (!op.source.module.empty()) out += fmt::format(" module={}", quoted(op.source.module));
    if (!op.source.location.empty()) out += fmt::format(" at={}", quoted(op.source.location));
    if (!op.formula.empty()) out += fmt::format(" formula={}", quoted(op.formula));
    for (const auto& [index, radices] : op.factors)
      out += fmt::format(" {}={}", word("factor:" + index), fmt::join(radices, "x"));
    out += '\n';
  }
  if (!graph.inputs.empty()) out += fmt::format("inputs {}\n", names(graph.inputs, " "));
  if (!graph.outputs.empty()) out += fmt::format("outputs {}\n", names(graph.outputs, " "));
  if (graph.loss.valid()) out += fmt::format("loss {}\n", word(graph.tensor(graph.loss).name));
  return out;
}

}  // namespace partita
