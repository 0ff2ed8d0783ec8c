// Finds the rows of a table that are of the cluster's devices, by the names in them.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "partita/base/error.h"
#include "partita/predict/kinds.h"

namespace partita {

namespace {

// Cards that share their number with another one, and neither its memory nor its links and clocks: an H100 PCIe has 2.0
// of an H100 SXM's 3.35 TB/s, and no NVLink.
constexpr std::array<std::string_view, 8> kVariants = {"PCIE", "NVL", "MIG", "TI", "SUPER", "MAX", "MOBILE", "LAPTOP"};
constexpr double kSameMemory = 0.15;  // "80GB" may be 80 GiB, and "192GB" the 180 that can be used

enum class Named { kNothing, kOther, kOwn };

bool of_other_memory(const std::vector<std::string>& words, double own_bytes) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    char* end = nullptr;
    const double gigabytes = std::strtod(word.c_str(), &end);
    return end != word.c_str() && std::string_view(end) == "GB" &&
           std::abs(gigabytes * 1e9 / own_bytes - 1) > kSameMemory;
  });
}

// Tells whether the text names this device: kNothing if its type does not occur, kOther if it is a variant of it.
Named named(const std::string& text, const Device& device, bool kernels) {
  const std::vector<std::string> words = words_of(text), wanted = words_of(device.model);
  auto in = [](const std::vector<std::string>& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  if (!std::all_of(wanted.begin(), wanted.end(), [&](const std::string& w) { return in(words, w); }))
    return Named::kNothing;
  const bool socket =
      std::any_of(words.begin(), words.end(), [](const std::string& w) { return w.starts_with("SXM"); });
  for (std::string_view variant : kVariants)
    if (in(words, variant) && !in(wanted, variant) && !(socket && variant == "PCIE")) return Named::kOther;
  return kernels && of_other_memory(words, static_cast<double>(device.memory_bytes)) ? Named::kOther : Named::kOwn;
}

std::string why_not(const std::string& text, Named as, const std::string& model) {
  if (as == Named::kOther) return fmt::format("of another device than the cluster's {}: {}", model, text);
  return fmt::format("of another device than the cluster's {}", model);
}

std::vector<std::string> each_of(std::string_view gpus) {
  std::vector<std::string> names;
  while (!gpus.empty()) {
    const size_t end = std::min(gpus.find(kAndGpu), gpus.size());
    names.emplace_back(gpus.substr(0, end));
    gpus.remove_prefix(std::min(end + kAndGpu.size(), gpus.size()));
  }
  return names;
}

std::set<std::string> values_of(const Table& table, std::string_view column) {
  std::set<std::string> values;
  for (size_t r = 0; r < table.rows.size(); ++r) values.insert(table.cell(r, column));
  return values;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c))) words.back() += static_cast<char>(std::toupper(c));
    else if (!words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::vector<std::string> of_other_devices(const Table& table, const Cluster& cluster, bool kernels) {
  std::vector<std::string> why(table.rows.size());
  const Device& device = cluster.devices[0];
  for (const char* column : {"system", "gpu"}) {
    if (!table.column(column)) continue;
    const bool several = values_of(table, column).size() > 1;
    for (size_t r = 0; r < table.rows.size(); ++r) {
      const std::string& text = table.cell(r, column);
      if (table.gpus_by_name) {
        for (const std::string& gpu : each_of(text))
          if (named(gpu, device, kernels) != Named::kOwn) why[r] = why_not(gpu, Named::kOther, device.model);
        continue;
      }
      const Named as = named(text, device, kernels);
      if (as == Named::kOther || (as == Named::kNothing && several)) why[r] = why_not(text, as, device.model);
    }
  }
  return why;
}

std::vector<std::string> notes_of(const Table& table, const Cluster& cluster) {
  std::vector<std::string> notes;
  for (const char* column : {"system", "gpu"}) {
    if (!table.column(column) || table.gpus_by_name) continue;
    const std::set<std::string> values = values_of(table, column);
    if (values.size() != 1 || values.begin()->empty()) continue;
    if (named(*values.begin(), cluster.devices[0], false) == Named::kNothing)
      notes.push_back(
          fmt::format("{}: all rows are of '{}', which does not name the cluster's {}; they are predicted "
                      "as if they were of it",
                      table.origin, *values.begin(), cluster.devices[0].model));
  }
  return notes;
}

}  // namespace partita
