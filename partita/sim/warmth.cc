// Follows what each device touches, kernel by kernel.
#include "partita/sim/warmth.h"

#include <algorithm>
#include <map>

namespace partita {

namespace {

// Registers that share bytes are one piece of memory to a cache.
struct Place {
  int64_t offset = 0, bytes = 0;
};

struct DeviceCache {
  double clock = 0;                   // bytes touched so far
  std::map<int64_t, double> touched;  // by offset: the clock after it was last touched
};

Place place_of(const PhysicalGraph& graph, const Access& access, int act) {
  const Register& reg = graph.reg(access.reg);
  const int use = std::min(act, reg.uses - 1);
  return {reg.offset < 0 ? -1 - static_cast<int64_t>(access.reg.value) : reg.slot_offset(reg.slot(use)), reg.bytes};
}

// The bytes of these accesses that are in the cache; they are then the ones touched last.
double warm_bytes(DeviceCache& cache, const std::vector<Place>& places, double cache_bytes) {
  double warm = 0;
  for (const Place& p : places) {
    const auto found = cache.touched.find(p.offset);
    const auto bytes = static_cast<double>(p.bytes);
    if (found != cache.touched.end() && cache.clock - found->second + bytes <= cache_bytes) warm += bytes;
  }
  for (const Place& p : places) cache.clock += static_cast<double>(p.bytes);
  for (const Place& p : places) cache.touched[p.offset] = cache.clock;
  return warm;
}

}  // namespace

std::vector<double> warm_parts(const PhysicalGraph& graph, double cache_bytes) {
  std::vector<double> parts(graph.order.size(), 1);
  std::vector<DeviceCache> caches(static_cast<size_t>(graph.device_count));
  for (const bool first_step : {true, false})
    for (size_t i = 0; i < graph.order.size(); ++i) {
      const Node& node = graph.order[i];
      const Task& task = graph.task(node.task);
      std::vector<Place> places;
      double bytes = 0;
      for (const auto* accesses : {&task.reads, &task.writes})
        for (const Access& access : *accesses) {
          places.push_back(place_of(graph, access, node.act));
          bytes += static_cast<double>(places.back().bytes);
        }
      const double warm = warm_bytes(caches[task.device.index()], places, cache_bytes);
      if (!first_step && bytes > 0 && std::holds_alternative<KernelWork>(task.work)) parts[i] = warm / bytes;
    }
  return parts;
}

}  // namespace partita
