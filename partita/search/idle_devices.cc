// Names the devices that a placement leaves idle.
#include "partita/search/idle_devices.h"

#include <fmt/ranges.h>

namespace partita {

void note_idle(const Cluster& cluster, const std::set<int>& used, std::string_view search, const std::string& why,
               SearchResult& result) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> idle;
  for (int d = 0; d < cluster.compute_count; ++d)
    if (!used.contains(d)) idle.push_back(cluster.devices[static_cast<size_t>(d)].name);
  if (idle.empty()) return;
  const size_t count = idle.size();
  if (count > kNamed) idle.resize(kNamed), idle.emplace_back("..");
  result.notes.push_back(
      fmt::format("{}: {}, so {} of {} devices {} nothing ({}); placement and baechi-metf place operations one by one, "
                  "auto divides them",
                  search, why, count, cluster.compute_count, count == 1 ? "runs" : "run", fmt::join(idle, ", ")));
}

std::string only(size_t count, const char* one, const char* many) {
  return count == 1 ? fmt::format("one {} only", one) : fmt::format("{} {} only", count, many);
}

}  // namespace partita
