// Predicts measured kernels: products of matrices, attention, and kernels that only move memory.
#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/cost/kernel.h"
#include "partita/predict/kinds.h"

namespace partita {

namespace {

constexpr double kNsPerUs = 1e3, kFlopsPerTflopUs = 1e6, kBytesPerGbUs = 1e3;
constexpr double kLargeBytes = 1e9;  // of a row that gives its rate alone

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool has(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

// Reads a dtype as people write them: bf16, fp16, "fp16 in, fp32 acc tensor core". The first named, the operands', if
// there are several; none if plans do not have it, or it is not known.
std::optional<DType> dtype_in(const std::string& text) {
  const std::string words = lower(text);
  const size_t six = words.find("fp6");
  if (six != std::string::npos && words.substr(six, 4) != "fp64") return std::nullopt;
  for (const char* other : {"fp8", "float8", "f8", "e4m3", "e5m2", "e3m2", "e2m3", "fp4", "float4", "int8", "int4",
                            "tf32", "tensorfloat", "tensor float"})
    if (has(words, other)) return std::nullopt;
  struct {
    const char* word;
    DType dtype;
  } constexpr kWords[] = {{"bf16", DType::kBFloat16},   {"bfloat16", DType::kBFloat16}, {"fp16", DType::kFloat16},
                          {"float16", DType::kFloat16}, {"half", DType::kFloat16},      {"f16", DType::kFloat16},
                          {"fp32", DType::kFloat32},    {"float32", DType::kFloat32},   {"f32", DType::kFloat32},
                          {"fp64", DType::kFloat64},    {"float64", DType::kFloat64},   {"double", DType::kFloat64},
                          {"f64", DType::kFloat64},     {"float", DType::kFloat32}};
  std::optional<DType> found;
  size_t first = std::string::npos;
  for (const auto& [word, dtype] : kWords)
    if (const size_t at = words.find(word); at < first) first = at, found = dtype;
  return found;
}

std::optional<double> measured_us(const Table& table, size_t row, double flops) {
  if (const auto us = measurement(table, row, "time_us")) return us;
  if (const auto rate = measurement(table, row, "tflops")) return flops / (*rate * kFlopsPerTflopUs);
  return std::nullopt;
}

KernelSize kernel_of(DType dtype, double bytes, std::vector<Product> products = {}) {
  KernelSize kernel;
  kernel.rate = products.empty() ? DType::kFloat32 : dtype;
  kernel.bytes = bytes;
  for (const Product& p : products) kernel.flops += p.flops();
  kernel.products = std::move(products);
  return kernel;
}

double us(const Device& device, const KernelSize& kernel) { return kernel_ns(device, kernel) / kNsPerUs; }

KernelSize product_kernel(DType dtype, const Product& p) {
  return kernel_of(dtype, p.batch * (p.m * p.k + p.k * p.n + p.m * p.n) * static_cast<double>(bytes_of(dtype)), {p});
}

std::string flops_class(double flops) {
  if (flops < 1e9) return "below 1 GFLOP";
  return flops < 1e11 ? "1 to 100 GFLOP" : "100 GFLOP and more";
}

struct Attention {
  DType dtype = DType::kBFloat16;
  double batch = 1, heads = 1, kv_heads = 1, size = 1, queries = 1, keys = 1;
  bool causal = false, backward = false;
  double elements_of_q() const { return batch * heads * queries * size; }
  double elements_of_kv() const { return batch * kv_heads * keys * size; }  // of either
  // As papers count: a causal mask leaves half, and the gradient has five products for two.
  double flops() const { return 4 * batch * heads * queries * keys * size * (causal ? 0.5 : 1) * (backward ? 2.5 : 1); }
};

// The kernels that take part, in one: fused. Heads that share keys are rows of one product.
KernelSize fused_kernel(const Attention& a) {
  const double batch = a.batch * a.kv_heads, rows = a.heads / a.kv_heads * a.queries;
  const Product scores{batch, rows, a.keys, a.size}, values{batch, rows, a.size, a.keys};
  std::vector<Product> products = {scores, values};
  if (a.backward) products.insert(products.end(), {scores, values, {batch, a.keys, a.size, rows}});
  const double moved = 2 * (a.elements_of_q() + a.elements_of_kv()) * (a.backward ? 2 : 1);
  KernelSize kernel = kernel_of(a.dtype, moved * static_cast<double>(bytes_of(a.dtype)), std::move(products));
  kernel.fused_attention = true;
  if (a.causal)  // the last query sees all keys, one before it one less; those before the first key see none
    kernel.computed = a.queries <= a.keys ? (a.keys - (a.queries - 1) / 2) / a.keys : (a.keys + 1) / 2 / a.queries;
  kernel.flops *= kernel.computed;
  return kernel;
}

// Two products, and scores that are read and written twice between them.
double unfused_us(const Device& device, const Attention& a) {
  const double batch = a.batch * a.heads, scores = batch * a.queries * a.keys * static_cast<double>(bytes_of(a.dtype));
  return us(device, product_kernel(a.dtype, {batch, a.queries, a.keys, a.size})) +
         us(device, kernel_of(a.dtype, 2 * scores)) +
         us(device, product_kernel(a.dtype, {batch, a.queries, a.size, a.keys}));
}

bool is_backward(const std::string& pass, double queries) {
  if (pass == "bwd" || pass == "backward") return true;
  const bool forward = pass == "fwd" || pass == "forward";
  if (!forward && pass != "decode") leave_out(fmt::format("pass is '{}', not fwd, bwd or decode", pass));
  if (!forward && queries > 1) leave_out("decode is of one query");
  return false;
}

bool is_causal(const Table& table, size_t row) {
  const std::string text = lower(table.cell(row, "causal"));
  if (text == "1" || text == "true" || text == "yes") return true;
  if (!text.empty() && text != "0" && text != "false" && text != "no")
    fail("{}:{}: causal is '{}'; it is 1 or 0", table.origin, table.lines[row], table.cell(row, "causal"));
  return false;
}

// Rows that lack heads and batch are of FlashAttention's benchmark: 2,048 features and 16,384 tokens in all.
Attention attention_of(const Table& table, size_t row, DType dtype) {
  Attention a;
  a.dtype = dtype;
  a.size = needed_count(table, row, "head_dim");
  a.queries = needed_count(table, row, "seq_q");
  a.keys = count_in(table, row, "seq_kv").value_or(a.queries);
  a.heads = count_in(table, row, "heads_q").value_or(2048 / a.size);
  a.kv_heads = count_in(table, row, "heads_kv").value_or(a.heads);
  a.batch = count_in(table, row, "batch").value_or(std::max(1.0, 16384 / a.queries));
  a.causal = is_causal(table, row);
  a.backward = is_backward(lower(table.cell(row, "pass")), a.queries);
  if (std::fmod(a.heads, a.kv_heads) != 0)
    leave_out(fmt::format("heads_q is {}, which is no multiple of heads_kv {}", a.heads, a.kv_heads));
  return a;
}

// "blockSize 256, occupancy 25.0%": fewer than all of the threads that a multiprocessor can hold.
bool has_few_threads(const std::string& launch_mode) {
  const size_t at = launch_mode.find("occupancy ");
  return at != std::string::npos && std::strtod(launch_mode.c_str() + at + 10, nullptr) < 60;
}

std::string bytes_class(double bytes) {
  if (bytes < 1 << 20) return "below 1 MiB";
  return bytes < 64 << 20 ? "1 to 64 MiB" : "64 MiB and more";
}

// Not a kernel of a plan by its name.
void check_kernel(const std::string& name) {
  const std::vector<std::string> words = words_of(name);
  auto in = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (in("WORKING") || (in("L2") && (in("READ") || in("CACHE"))))
    leave_out("reads of the cache again and again, which no plan has");
  const std::string text = lower(name);
  if (in("HOST") || in("H2D") || in("D2H") || has(text, "hosttodevice") || has(text, "devicetohost"))
    leave_out("copies from or to the host are the link's, and no kernel");
}

Prediction product_of(const Table& table, size_t row, const Device& device) {
  const std::optional<DType> dtype = dtype_in(table.cell(row, "dtype"));
  if (!dtype) leave_out(fmt::format("Partita has no products in {}", table.cell(row, "dtype")));
  Product p{count_in(table, row, "batch").value_or(1), needed_count(table, row, "m"), needed_count(table, row, "n"),
            needed_count(table, row, "k")};
  while (std::fmod(p.n, p.aligned) != 0 || std::fmod(p.k, p.aligned) != 0) p.aligned /= 2;  // as a layer's lie
  Prediction of;
  of.kind = fmt::format("product, {}", name_of(*dtype));
  of.size = flops_class(p.flops());
  of.predicted_us = us(device, product_kernel(*dtype, p));
  of.measured_us = measured_us(table, row, p.flops());
  return of;
}

Prediction attention_row(const Table& table, size_t row, const Device& device) {
  const std::string made_by = lower(table.cell(row, "impl"));
  const std::string& given = table.cell(row, "dtype");
  const std::optional<DType> dtype = given.empty() ? DType::kBFloat16 : dtype_in(given);
  if (!dtype) leave_out(fmt::format("Partita has no attention in {}", given));
  const Attention a = attention_of(table, row, *dtype);
  const bool decodes = a.queries == 1, unfused = has(made_by, "standard");
  if (unfused && a.backward) leave_out("the gradient of attention in pieces has as many forms as programs");
  Prediction of;
  of.kind = unfused ? "attention, unfused"
                    : fmt::format("attention, {}", decodes      ? "one query"
                                                   : a.backward ? "backward"
                                                                : "forward");
  of.size = flops_class(a.flops());
  of.predicted_us = unfused ? unfused_us(device, a) : us(device, fused_kernel(a));
  if (has(made_by, "includes rope and kv write")) {  // q and k are turned, k and v copied: a kernel each
    const auto bytes = static_cast<double>(bytes_of(*dtype));
    *of.predicted_us += us(device, kernel_of(*dtype, 2 * bytes * (a.elements_of_q() + a.elements_of_kv())));
    *of.predicted_us += us(device, kernel_of(*dtype, 2 * bytes * 2 * a.elements_of_kv()));
  }
  of.measured_us = measured_us(table, row, a.flops());
  return of;
}

Prediction memory_of(const Table& table, size_t row, const Device& device) {
  if (has_few_threads(table.cell(row, "launch_mode")))
    leave_out("few threads on each multiprocessor, where a plan's kernels fill it");
  check_kernel(table.cell(row, "kernel"));
  const double bytes = bytes_in(table, row).value_or(kLargeBytes);
  Prediction of;
  of.kind = "memory-bound";
  of.size = bytes_class(bytes);
  of.predicted_us = us(device, kernel_of(DType::kFloat32, bytes));
  of.measured_us = measurement(table, row, "time_us");
  if (const auto rate = measurement(table, row, "GBps"); rate && !of.measured_us)
    of.measured_us = bytes / (*rate * kBytesPerGbUs);
  return of;
}

}  // namespace

std::vector<Prediction> predict_products(const Table& table, const Cluster& cluster) {
  return by_row(table, [&](size_t row) { return product_of(table, row, cluster.devices[0]); });
}

std::vector<Prediction> predict_attention(const Table& table, const Cluster& cluster) {
  return by_row(table, [&](size_t row) { return attention_row(table, row, cluster.devices[0]); });
}

std::vector<Prediction> predict_memory_bound(const Table& table, const Cluster& cluster) {
  return by_row(table, [&](size_t row) { return memory_of(table, row, cluster.devices[0]); });
}

}  // namespace partita
