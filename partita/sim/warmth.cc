// Follows the bytes that each device touches, kernel by kernel.
#include "partita/sim/warmth.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "partita/physical/workspace.h"

namespace partita {

namespace {

// Where an access lies in the device's memory: [begin, end), and how many bytes of it are touched (a strided box has
// others between its own).
struct Place {
  int64_t begin = 0, end = 0;
  double bytes = 0;
};

struct Found {
  double warm = 0, near = 0;  // bytes in the core's cache, in any cache
};

class DeviceCache {
 public:
  DeviceCache(double core_bytes, double shared_bytes) : core_bytes_(core_bytes), shared_bytes_(shared_bytes) {}
  // Counts those of these bytes that are in the caches, and touches them: they are then the last touched.
  Found touch(const std::vector<Place>& places) {
    Found found;
    for (const Place& p : places) {
      found.warm += bytes_within(p, core_bytes_);
      found.near += shared_bytes_ > 0 ? near_bytes(p) : p.bytes;
    }
    for (const Place& p : places) clock_ += p.bytes;
    for (const Place& p : places) mark(p);
    return found;
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
  // Bytes that were touched no longer ago than a cache of this size holds.
  double bytes_within(const Place& p, double cache_bytes) {
    int64_t warm = 0;
    for (auto at = first_over(p.begin); at != pieces_.end() && at->first < p.end; ++at)
      if (clock_ - at->second.touched + p.bytes <= cache_bytes)
        warm += std::min(at->second.end, p.end) - std::max(at->first, p.begin);
    return p.end > p.begin ? p.bytes * static_cast<double>(warm) / static_cast<double>(p.end - p.begin) : 0;
  }
  // A cache that others use too does not end sharply, but from half of it to twice as much, evenly in the logarithm.
  double near_bytes(const Place& p) {
    constexpr int kSizes = 4;
    double near = 0;
    for (int i = 0; i < kSizes; ++i)
      near += bytes_within(p, shared_bytes_ * std::exp2((2 * i + 1.0) / kSizes - 1)) / kSizes;
    return near;
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

  double core_bytes_, shared_bytes_;
  double clock_ = 0;  // bytes touched so far
  Pieces pieces_;
};

// A register that has no place in memory yet is far from all others.
constexpr int64_t kApart = int64_t{1} << 42;

Place place_of(const PhysicalGraph& graph, const Access& access, int firing) {
  const Register& reg = graph.reg(access.reg);
  const int use = std::min(firing, reg.uses - 1);
  const auto [whole, box_accessed] = boxes_of(access, reg, firing);
  const Box box = intersect(whole, box_accessed);
  const Interval span = linear_range(relative_to(box, whole), extents(whole));
  const int64_t size = bytes_of(reg.dtype);
  const int64_t at = reg.offset < 0 ? -kApart * (1 + access.reg.value) : reg.slot_offset(reg.slot(use));
  return {at + span.lo * size, at + span.hi * size, static_cast<double>(volume(box) * size)};
}

}  // namespace

std::vector<CacheFractions> cache_fractions(const PhysicalGraph& graph, double core_bytes, double shared_bytes) {
  std::vector<CacheFractions> out(graph.order.size());
  std::vector<DeviceCache> caches(static_cast<size_t>(graph.device_count),
                                  DeviceCache(core_bytes, shared_bytes / std::max(1, graph.compute_count)));
  for (const bool first_step : {true, false})
    for (size_t i = 0; i < graph.order.size(); ++i) {
      const Node& node = graph.order[i];
      const Task& task = graph.task(node.task);
      std::vector<Place> places;
      double bytes = 0;
      for (const auto* accesses : {&task.reads, &task.writes})
        for (const Access& access : *accesses) {
          places.push_back(place_of(graph, access, node.firing));
          bytes += places.back().bytes;
        }
      const Found found = caches[task.device.index()].touch(places);
      if (!first_step && bytes > 0 && std::holds_alternative<KernelWork>(task.work))
        out[i] = {found.warm / bytes, 1 - found.near / bytes};
    }
  return out;
}

}  // namespace partita
