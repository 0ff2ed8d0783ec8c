// Computes when and on which devices operations can run in schedules that end by a limit, for bounds and branching. It
// follows from heads, tails, loads and crossings without a search.
//
// A head is the earliest start on a device. Each producer of an input is on the device too, and takes its time there
// after its own head, one after another; or it is on another one, and a value crosses. The best division of the
// producers counts. A tail is the same from an end to the end of the step. Values between two operations cross one
// after another on one queue, so their times add up. A head may also follow all work that has to come before, shared
// out over devices after thresholds of heads. It takes the square of the operations' number, so it is done on request,
// for at most kMostClosed.
//
// Example: a and b (3 ns each) are read by c, 2 ns away from any other device. With both on c's device c begins at 6,
// with one of them at 5: c's head is 5.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// An item of work with its head and tail. Items take as long as on so many equal machines, any part of any on each: the
// most over thresholds of head + work of items with at least this head and tail, shared out evenly, + tail.
struct WindowItem {
  int64_t head = 0, ns = 0, tail = 0;
};
int64_t shared_out_ns(std::vector<WindowItem> items, int machines);

// The known facts of a schedule.
struct PlacementState {
  std::vector<uint64_t> runs;  // by operation: bit d if it may run on device d
  std::vector<int> parent;     // by operation: another one on its device; itself: the first of those
  int first_of(int op) const {
    while (parent[static_cast<size_t>(op)] != op) op = parent[static_cast<size_t>(op)];
    return op;
  }
};

class PlacementWindows {
 public:
  static constexpr size_t kMostDevices = 64;
  static constexpr size_t kMostClosed = 2500;
  static constexpr int64_t kNever = INT64_MAX / 4;

  // Has at most kMostDevices devices.
  explicit PlacementWindows(const PlacementProblem& problem);

  // Returns the state with groups together, each on devices that all of it can use.
  PlacementState start() const;
  // Computes heads and tails; `closed`: with the work of all before and after. False: a reader and its producer have no
  // route to each other.
  bool find(const PlacementState& state, bool closed);
  // Takes away devices and puts operations together if a schedule within the limit leaves no choice, in at most
  // `rounds` rounds. False: there is no such schedule. `thorough`: also by single pairs on a device, and devices'
  // operations with each that may join them.
  bool narrow(PlacementState& state, int64_t limit_ns, int rounds, bool thorough);

  // The head of the last find() or narrow(); kNever: it cannot run there.
  int64_t head(size_t op, size_t d) const { return head_[op * devices_ + d]; }
  int64_t tail(size_t op, size_t d) const { return tail_[op * devices_ + d]; }
  // Returns the longest way from the begin of the step to its end through any operation.
  int64_t path_ns(const PlacementState& state) const;
  // Returns the most work of operations on any set of devices, and of sure crossings on any set of queues.
  int64_t work_ns(const PlacementState& state) const;
  // Returns the work and, for each used device, the wait before its first operation and the time after its last.
  int64_t begun_and_ended_ns(const PlacementState& state) const;
  int64_t crossings_ns(const PlacementState& state) const;

 private:
  struct Edge {
    int from = 0, to = 0;
    bool moves = false;
    size_t cost = 0;  // in costs_: [from][to], kNever if there is no route
  };
  int64_t ns(size_t op, size_t d) const { return p_.ops[op].ns[d]; }
  int64_t cost(const Edge& e, size_t from, size_t to) const { return costs_[e.cost + from * devices_ + to]; }
  void close();
  void raise(const PlacementState& state, size_t op, bool heads);
  WindowItem least_item(const PlacementState& state, size_t op) const;
  bool find_one(const PlacementState& state, size_t op, bool heads);
  int64_t least_crossing(const PlacementState& state, const Edge& e) const;
  bool agree(PlacementState& state, bool& changed) const;
  bool fits(PlacementState& state, bool& changed) const;
  bool drop(PlacementState& state, int64_t limit_ns, bool& changed) const;
  void join(PlacementState& state, int64_t limit_ns, bool& changed) const;
  bool classes_fit(PlacementState& state, int64_t limit_ns, bool thorough, bool& changed) const;
  void part(PlacementState& state, int64_t limit_ns, bool& changed) const;

  const PlacementProblem& p_;
  size_t devices_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> in_, out_;  // by operation: edges_
  std::vector<int64_t> costs_, head_, tail_;
  std::vector<uint64_t> can_run_;  // by operation: devices, of the problem
  // By operation: bits of all before and after on any path; none for large problems.
  size_t words_ = 0;
  std::vector<uint64_t> before_, after_;
  std::vector<std::pair<int64_t, size_t>> found_;  // least heads or tails so far, ascending
  std::vector<int64_t> on_;                        // by device
  std::vector<int> class_;                         // of the state of find()
  struct Choice {
    int64_t away, start, ns;
  };
  std::vector<Choice> choices_;
  std::vector<std::pair<int64_t, int64_t>> here_;
};

}  // namespace partita
