// Searches for the cheapest path over the named layouts of a mesh of few axes. It is Dijkstra's algorithm, and gives
// one stop after another, so that a search goes no further than it has to. The cost of steps between named layouts is
// remembered, for all starts and ends over one mesh and one factoring. Internal to sharding/.
//
// Example: [P(sum)] -> [B] of 6 rows of one element on 3 devices. The waypoints are S(0), B and P(sum). The stops are
// the start (0 elements), P(sum) (0, one step), S(0) (12: reduce-scatter) and B (24: all-reduce). From S(0) the
// straight way to the end moves 12 as well, 24 in all. From the start it moves 24 in one step, and that is the path.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "partita/sharding/path.h"

namespace partita::boxing {

// The named layouts that a path may pass through: on each mesh axis S, B, or, on `partial_axes` (bits), P.
class Waypoints {
 public:
  // `partial` gives the mesh, the factoring and the reducer.
  Waypoints(const Layout& partial, uint64_t partial_axes, const ElementCounter& counter);

  size_t size() const { return at_.size(); }
  const NamedLayout& at(size_t place) const { return at_[place]; }
  uint64_t partial_axes(size_t place) const { return axes_[place]; }
  const ElementCounter& counter() const { return *counter_; }
  Cost step(size_t from, size_t to);  // step_cost() from one to another
  // Elements of the straight way from a place to an end. `known`: the known ones of this end, by place.
  int64_t last_elements(size_t from, const NamedLayout& end, std::vector<int64_t>& known);
  std::vector<int64_t>& known_last_elements(const std::string& key) {  // for the end with that key
    return last_elements_.try_emplace(key, at_.size(), kUnknown).first->second;
  }

 private:
  static constexpr int64_t kUnknown = -1;

  const ElementCounter* counter_;
  std::vector<NamedLayout> at_;
  std::vector<uint64_t> axes_;               // bits: the axes on which each is partial
  std::vector<std::vector<int64_t>> steps_;  // [from][to]: twice the elements, and one for a fetch; filled on demand
  std::unordered_map<std::string, std::vector<int64_t>> last_elements_;  // by key, by place
};

struct Stop {
  Cost cost;
  int at;      // Reach::kStart, kWhole, or a place in the waypoints
  int before;  // the stop before it; -1 at the start
};

// The stops that a partial layout reaches over waypoints that are partial on some of `axes` only, nearest first. A
// layout that is no longer partial goes straight to the end from there: no other way is cheaper.
class Reach {
 public:
  static constexpr int kStart = -1, kWhole = -2;  // kWhole: a start without a name, made whole in place

  Reach(const NamedLayout& from, uint64_t axes, Waypoints& waypoints);
  const Stop* stop(size_t i);  // null: there are no more
  const NamedLayout& layout_at(const Stop& stop) const;
  Waypoints& waypoints() const { return *waypoints_; }

 private:
  void relax();
  bool next();

  Waypoints* waypoints_;
  uint64_t axes_;
  NamedLayout start_, whole_;
  std::vector<Stop> stops_;
  std::vector<Cost> cost_;  // by place in the waypoints; the last: whole_
  std::vector<int> before_;
  std::vector<char> done_;
  bool ended_ = false;
};

// Finds the cheapest path from the start to an end; among ties, that of the nearer last stop.
Path path_to(Reach& reach, const NamedLayout& end);
// The fewest elements to an end with this key.
int64_t fewest_elements(Reach& reach, const NamedLayout& end, const std::string& key);

}  // namespace partita::boxing
