// Follows what each device touches, kernel by kernel.
#include "partita/sim/warmth.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "partita/physical/workspace.h"

namespace partita {

namespace {

// Where what is accessed lies in the device's memory: [begin, end), of which so many bytes are touched (a strided part
// has others between its own).
struct Place {
  int64_t begin = 0, end = 0;
  double bytes = 0;
};

class DeviceCache {
 public:
  explicit DeviceCache(double cache_bytes) : cache_bytes_(cache_bytes) {}
  // How many of these bytes are in the cache; they are then the ones touched last.
  double touch(const std::vector<Place>& places) {
    double warm = 0;
    for (const Place& p : places) warm += warm_bytes(p);
    for (const Place& p : places) clock_ += p.bytes;
    for (const Place& p : places) mark(p);
    return warm;
  }

 private:
  struct Piece {
    int64_t end = 0;
    double touched = 0;  // the clock after it was last touched
  };
  using Pieces = std::map<int64_t, Piece>;  // by begin; they do not overlap

  Pieces::iterator first_over(int64_t begin) {
    auto at = pieces_.upper_bound(begin);
    return at != pieces_.begin() && std::prev(at)->second.end > begin ? std::prev(at) : at;
  }
  double warm_bytes(const Place& p) {
    int64_t warm = 0;
    for (auto at = first_over(p.begin); at != pieces_.end() && at->first < p.end; ++at)
      if (clock_ - at->second.touched + p.bytes <= cache_bytes_)
        warm += std::min(at->second.end, p.end) - std::max(at->first, p.begin);
    return p.end > p.begin ? p.bytes * static_cast<double>(warm) / static_cast<double>(p.end - p.begin) : 0;
  }
  void mark(const Place& p) {
    if (p.end <= p.begin) return;
    auto at = first_over(p.begin);
    while (at != pieces_.end() && at->first < p.end) {
      const auto [begin, old] = *at;
      at = pieces_.erase(at);
      if (begin < p.begin) pieces_[begin] = {p.begin, old.touched};
      if (old.end > p.end) at = pieces_.insert_or_assign(p.end, old).first;
    }
    pieces_[p.begin] = {p.end, clock_};
  }

  double cache_bytes_;
  double clock_ = 0;  // bytes touched so far
  Pieces pieces_;
};

// A register that has no place in memory yet is far from all others.
constexpr int64_t kApart = int64_t{1} << 42;

Place place_of(const PhysicalGraph& graph, const Access& access, int act) {
  const Register& reg = graph.reg(access.reg);
  const int use = std::min(act, reg.uses - 1);
  const auto [whole, part] = boxes_of(access, reg, act);
  const Box box = intersect(whole, part);
  const Interval span = spanned(relative_to(box, whole), extents(whole));
  const int64_t size = bytes_of(reg.dtype);
  const int64_t at = reg.offset < 0 ? -kApart * (1 + access.reg.value) : reg.slot_offset(reg.slot(use));
  return {at + span.lo * size, at + span.hi * size, static_cast<double>(volume(box) * size)};
}

}  // namespace

std::vector<double> warm_parts(const PhysicalGraph& graph, double cache_bytes) {
  std::vector<double> parts(graph.order.size(), 1);
  std::vector<DeviceCache> caches(static_cast<size_t>(graph.device_count), DeviceCache(cache_bytes));
  for (const bool first_step : {true, false})
    for (size_t i = 0; i < graph.order.size(); ++i) {
      const Node& node = graph.order[i];
      const Task& task = graph.task(node.task);
      std::vector<Place> places;
      double bytes = 0;
      for (const auto* accesses : {&task.reads, &task.writes})
        for (const Access& access : *accesses) {
          places.push_back(place_of(graph, access, node.act));
          bytes += places.back().bytes;
        }
      const double warm = caches[task.device.index()].touch(places);
      if (!first_step && bytes > 0 && std::holds_alternative<KernelWork>(task.work)) parts[i] = warm / bytes;
    }
  return parts;
}

}  // namespace partita
