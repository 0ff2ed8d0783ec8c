// Reads the device types of a cluster file.
#include "partita/cluster/device_types.h"

#include <optional>

#include "partita/base/units.h"

namespace partita::cluster_file {

namespace {

// Reads `memory`, a figure with its unit, or `memory_gibytes`.
int64_t read_memory(const Reader& r, const YAML::Node& node, const std::string& what) {
  const YAML::Node memory = node["memory"], gibytes = node["memory_gibytes"];
  if (memory && gibytes) r.fail_at(memory, "{}: 'memory' and 'memory_gibytes' are both given; remove one", what);
  if (!memory && !gibytes)
    r.fail_at(node, "{} lacks 'memory_gibytes'; add it (docs/reference/cluster.md has an example)", what);
  if (memory) {
    const std::string text = memory.IsScalar() ? memory.Scalar() : "";
    const std::optional<Bytes> bytes = parse_bytes(text);
    if (!bytes || bytes->bare)
      r.fail_at(memory, "{}: memory is '{}'; it takes a figure with its unit, as 80GB or 80GiB", what, text);
    return bytes->bytes;
  }
  if (gibytes.IsScalar())
    if (const std::optional<Bytes> bytes = parse_bytes(gibytes.Scalar()); bytes && !bytes->bare)
      r.fail_at(gibytes,
                "{}: memory_gibytes is '{}'; the unit stands in the key, give only the figure, or write memory: {}",
                what, gibytes.Scalar(), gibytes.Scalar());
  const double figure = read_figure(r, gibytes, what + ": memory_gibytes", Sign::kPositive);
  if (figure > 1e9) r.fail_at(gibytes, "{}: memory_gibytes is {}; the figure is in GiB, not bytes", what, figure);
  return static_cast<int64_t>(figure * 0x1p30);
}

double read_part(const Reader& r, const YAML::Node& node, const std::string& what) {
  const double part = read_figure(r, node, what, Sign::kPositive);
  if (part > 1) r.fail_at(node, "{} is {}; it is a fraction, at most 1", what, part);
  return part;
}

// Reads `multiprocessors`, and the keys that need it.
KernelFigures read_kernels(const Reader& r, const YAML::Node& node, const std::string& what, double efficiency) {
  KernelFigures k;
  k.memory_part = efficiency;
  if (!node["multiprocessors"]) {
    for (const char* key : {"clock_ghz", "reached", "fused_attention", "sustained", "beside_collectives", "unaligned"})
      if (node[key])
        r.fail_at(node[key], "{}: '{}' says nothing without 'multiprocessors'; add that, or remove it", what, key);
    return k;
  }
  k.multiprocessors = read_count(r, node["multiprocessors"], what + ": multiprocessors");
  if (!node["clock_ghz"]) r.fail_at(node["multiprocessors"], "{}: 'multiprocessors' needs 'clock_ghz'; add it", what);
  k.clock_hz = 1e9 * read_figure(r, node["clock_ghz"], what + ": clock_ghz", Sign::kPositive);
  if (const YAML::Node reached = node["reached"]) {
    validate_map(r, reached, what + ": reached", {}, {"float32", "float64", "float16", "bfloat16", "memory"});
    for (const auto& entry : reached) {
      const std::string key = entry.first.Scalar();
      (key == "memory" ? k.memory_part : k.parts[parse_dtype(key)]) =
          read_part(r, entry.second, fmt::format("{}: reached: {}", what, key));
    }
  }
  if (const YAML::Node attention = node["fused_attention"])
    k.fused_attention = read_figure(r, attention, what + ": fused_attention", Sign::kPositive);
  if (node["sustained"]) k.sustained = read_part(r, node["sustained"], what + ": sustained");
  if (node["beside_collectives"])
    k.beside_collectives = read_part(r, node["beside_collectives"], what + ": beside_collectives");
  if (const YAML::Node unaligned = node["unaligned"]) {
    validate_map(r, unaligned, what + ": unaligned", {}, {"2", "4", "8"});
    for (const auto& entry : unaligned) {
      const std::string bytes = entry.first.Scalar();
      double& part = k.unaligned[bytes[0] - '0'];
      part = read_part(r, entry.second, fmt::format("{}: unaligned: {}", what, bytes));
    }
    double fewer = 0;
    for (const auto& [bytes, part] : k.unaligned) {
      if (part < fewer)
        r.fail_at(unaligned, "{}: unaligned: of {} bytes it is {}, less than of fewer, {}", what, bytes, part, fewer);
      fewer = part;
    }
  }
  return k;
}

Device read_type(const Reader& r, const YAML::Node& node, const std::string& model) {
  std::string what = fmt::format("device type '{}'", model);
  validate_map(r, node, what,
               {"kind", "peak_tflop_per_s", "memory_bandwidth_gbytes_per_s", "efficiency", "launch_overhead_us"},
               {"memory", "memory_gibytes", "collectives", "multiprocessors", "clock_ghz", "reached", "fused_attention",
                "sustained", "beside_collectives", "unaligned", "validation"});
  if (node["validation"]) read_validation(r, node["validation"], model);  // validations() has it
  Device d;
  d.model = model;
  std::string kind = read_word(r, node["kind"], what + ": kind");
  if (kind != "gpu" && kind != "cpu") r.fail_at(node["kind"], "{}: kind is '{}'; it must be gpu or cpu", what, kind);
  d.kind = kind == "gpu" ? DeviceKind::kGpu : DeviceKind::kCpu;
  const YAML::Node peaks = node["peak_tflop_per_s"];
  validate_map(r, peaks, what + ": peak_tflop_per_s", {"float32", "float64"}, {"float16", "bfloat16", "int64", "bool"});
  for (const auto& entry : peaks)
    d.peak_flops_per_s[parse_dtype(entry.first.Scalar())] =
        1e12 * read_figure(r, entry.second, what + ": peak_tflop_per_s: " + entry.first.Scalar(), Sign::kPositive);
  for (DType t : {DType::kInt64, DType::kBool, DType::kFloat16, DType::kBFloat16})
    d.peak_flops_per_s.emplace(t, d.peak_flops_per_s[DType::kFloat32]);
  d.memory_bytes = read_memory(r, node, what);
  d.memory_bandwidth_bytes_per_s = 1e9 * read_figure(r, node["memory_bandwidth_gbytes_per_s"],
                                                     what + ": memory_bandwidth_gbytes_per_s", Sign::kPositive);
  d.efficiency = read_part(r, node["efficiency"], what + ": efficiency");
  d.kernels = read_kernels(r, node, what, d.efficiency);
  d.launch_overhead_us = read_figure(r, node["launch_overhead_us"], what + ": launch_overhead_us", Sign::kNotNegative);
  if (const YAML::Node rows = node["collectives"]) d.library = read_library(r, rows, what);
  return d;
}

}  // namespace

std::map<std::string, Device> read_types(const Reader& r, const YAML::Node& types) {
  if (!types.IsMap() || types.size() == 0) r.fail_at(types, "device_types must be a map from a name to its figures");
  std::map<std::string, Device> read;
  for (const auto& entry : types) {
    std::string model = read_word(r, entry.first, "a device type's name");
    if (read.count(model)) r.fail_at(entry.first, "device type '{}' is given twice; rename one", model);
    read[model] = read_type(r, entry.second, model);
  }
  return read;
}

}  // namespace partita::cluster_file
