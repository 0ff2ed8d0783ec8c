// Reads and writes amounts of memory and time.
#include "partita/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace partita {

namespace {

constexpr struct {
  double from, unit;
  int digits;  // behind the point
  const char* name;
} kAmounts[] = {{1e13, 1e12, 2, "TB"}, {1e9, 1e9, 2, "GB"}, {1e6, 1e6, 2, "MB"}, {1e3, 1e3, 1, "kB"}, {0, 1, 0, "B"}};

}  // namespace

std::string megabytes(double bytes) {
  for (const auto& [from, unit, digits, name] : kAmounts)
    if (bytes >= from) return fmt::format("{:.{}f} {}", bytes / unit, digits, name);
  return fmt::format("{:.0f} B", bytes);
}

std::string enough_megabytes(double bytes) {
  for (const auto& [from, unit, digits, name] : kAmounts)
    if (const double steps = std::pow(10, digits); bytes >= from)
      return fmt::format("{:.{}f} {}", std::ceil(bytes / (unit / steps)) / steps, digits, name);
  return megabytes(bytes);
}

std::string time_text(double ns) {
  constexpr std::array<std::pair<const char*, double>, 3> kUnits{{{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  if (std::abs(ns) < 999.5) return fmt::format("{:.0f} ns", ns);
  for (const auto& [name, unit] : kUnits) {
    const double value = std::abs(ns) / unit;
    if (value >= 999.5 && unit < 1e9) continue;
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", ns / unit, decimals, name);
  }
  return {};
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::general);
  if (error != std::errc()) return std::nullopt;
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(end - text.data())))
    if (c != ' ' || !unit.empty()) unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  Bytes result{0, unit.empty()};
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    const std::size_t power = std::string_view("kmgt").find(unit[0]);
    const std::string rest = unit.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "i" && rest != "ib"))
      return std::nullopt;
    scale = std::pow(rest.starts_with('i') ? 1024.0 : 1000.0, static_cast<double>(power + 1));
  }
  const double bytes = number * scale;
  if (!(bytes >= 1 && bytes < 0x1p63)) return std::nullopt;
  result.bytes = static_cast<int64_t>(std::llround(bytes));
  return result;
}

}  // namespace partita
