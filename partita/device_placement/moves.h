// Changes of a placement and its order, drawn at random (improve.h): small ones, and of many operations that belong
// together.
//
// A change moves to another device one unit (an operation, or a group); a unit and what it exchanges most with; units
// that are alike, such as those of neighbouring time steps or layers; a cluster, grown from a unit along what is
// exchanged most; or what stands together in the order. Or it exchanges two units, moves an operation in the order as
// far as what it reads and what reads it allow, or orders all by the longest way to the end or by latest start
// (justify.h). Units are drawn by their time half of the time, and kinds of changes that have made the step shorter
// more often.
//
// Example: 40 time steps of a layer are on gpu1, which has more work than gpu0. A change of units that are alike moves
// the weight gradients of eight of them to gpu0 at once.
#pragma once
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "partita/base/rng.h"
#include "partita/device_placement/problem.h"
#include "partita/device_placement/units.h"

namespace partita {

class Moves {
 public:
  // Begins with the schedule's placement, and the order of its starts.
  Moves(const PlacementProblem& problem, const PlacedSchedule& start);

  const std::vector<int>& device() const { return device_; }  // by operation
  const std::vector<int>& order() const { return order_; }
  int64_t most_work_ns() const;  // of a device: no schedule of this placement is shorter

  // False: what was drawn cannot be, and nothing has changed. What stays fits, or lacks no more than before.
  bool change(Rng& rng);
  // What change() did stays, or is taken back; `shorter`: it made the step shorter.
  void keep(bool shorter);
  // What change() did is of no use unless the step is shorter: an order by latest start, which undoes what others drew.
  bool has_to_shorten() const { return kind_ == kByLatest; }
  void take_back();

 private:
  enum Kind { kOne, kNearest, kExchange, kAlike, kCluster, kWindow, kInOrder, kByTail, kByLatest, kKinds };

  void find_neighbours();
  void find_alike();
  Kind draw_kind(Rng& rng) const;
  bool apply(Kind kind, Rng& rng);
  int any_unit(Rng& rng) const;
  int other_device(int unit, Rng& rng) const;
  int at(int unit) const { return device_[static_cast<size_t>(units_[static_cast<size_t>(unit)].ops[0])]; }
  bool put(int unit, int device);  // whether it now is there
  int64_t lacking() const;         // bytes, of what stays; 0: it fits
  int64_t work_ns(int unit, int device) const;
  bool move_alike(int unit, int to, Rng& rng);
  bool move_cluster(int unit, int to, Rng& rng);
  bool move_window(int unit, int to, Rng& rng);
  bool move_in_order(Rng& rng);
  bool follows(int a, int b) const;  // b reads a

  const PlacementProblem& p_;
  std::vector<PlacementUnit> units_;
  std::vector<int> unit_;          // by operation
  std::vector<int> movable_;       // units with a choice
  std::vector<int64_t> until_ns_;  // by movable one: the time of it and of those before
  std::vector<std::vector<std::pair<int64_t, int>>>
      neighbours_;                                // by unit: bytes exchanged, and with which, most first
  std::vector<std::vector<int>> alike_;           // units of the same times, by first operation
  std::vector<std::pair<int, int>> place_alike_;  // by unit: in which list, and where; -1: in none
  const std::vector<std::vector<int>> made_;

  std::vector<int> device_, order_;
  std::vector<int64_t> left_, load_;  // by device: bytes, ns
  // The change that is neither kept nor taken back.
  Kind kind_ = kOne;
  std::vector<std::pair<int, int>> moved_;  // units, with their devices before
  std::vector<int> order_before_;           // empty: as it was
  std::array<double, kKinds> weight_ = {};
  std::vector<int> mark_;  // by unit: the last cluster that it was seen for
  int clusters_ = 0;
};

}  // namespace partita
