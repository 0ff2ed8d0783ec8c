// Draws moves of a placement and its order at random (improve.h): small ones, and of many operations that belong
// together.
//
// A move puts on another device one unit (an operation, or a group); a unit and its heaviest neighbour; alike units,
// such as those of neighbouring time steps or layers; a cluster, grown from a unit along the heaviest exchanges; or
// neighbours in the order. Or it exchanges two units, or shifts an operation in the order as far as its producers and
// readers allow. Or it orders all by the longest way to the end or by latest start (justify.h). Half of the time units
// are drawn by their time. Kinds of moves that have shortened the step are drawn more often.
//
// Example: 40 time steps of a layer are on gpu1, which has more work than gpu0. A move of alike units puts the weight
// gradients of eight of them on gpu0 at once.
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
  // Starts from the schedule's placement, and the order of its starts.
  Moves(const PlacementProblem& problem, const PlacedSchedule& start);

  const std::vector<int>& device() const { return device_; }  // by operation
  const std::vector<int>& order() const { return order_; }
  int64_t most_work_ns() const;  // of one device: no schedule of this placement is shorter

  // Draws a move. False: the drawn move is impossible, and nothing has changed. Bytes that stay fit, or have no larger
  // deficit than before.
  bool change(Rng& rng);
  // Keeps the last move, or takes it back; `shorter`: it shortened the step.
  void keep(bool shorter);
  // Tells whether the last move is useful only if the step is shorter: an order by latest start undoes other moves'
  // draws.
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
  bool put(int unit, int device);  // returns whether it now is there
  int64_t lacking() const;         // bytes of the memory deficit, without results; 0: it fits
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
      neighbours_;                                // by unit: bytes exchanged, and with which unit, most first
  std::vector<std::vector<int>> alike_;           // units of the same times, by first operation
  std::vector<std::pair<int, int>> place_alike_;  // by unit: its list, and its place there; -1: in none
  const std::vector<std::vector<int>> made_;

  std::vector<int> device_, order_;
  std::vector<int64_t> left_, load_;  // by device: bytes, ns
  // The move that is neither kept nor taken back.
  Kind kind_ = kOne;
  std::vector<std::pair<int, int>> moved_;  // units, with their devices before
  std::vector<int> order_before_;           // empty: as it was
  std::array<double, kKinds> weight_ = {};
  std::vector<int> mark_;  // by unit: the last cluster that met it
  int clusters_ = 0;
};

}  // namespace partita
