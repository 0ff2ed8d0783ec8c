// Schedules placements of one problem again and again (list_schedule(), decode.h), for searches that try many.
//
// Example: the limit is 10 ns. If a placement's first operation cannot end before 4 ns and a path of 7 ns follows it,
// decode() gives up there and returns nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// The busy intervals of a queue, by start, none touching the next.
class Timeline {
 public:
  void clear() { busy_.clear(); }
  // Returns the first time from `from` on with `ns` free; without gaps, behind all intervals.
  int64_t earliest(int64_t from, int64_t ns, bool gaps) const;
  void take(int64_t start, int64_t ns);

 private:
  std::vector<std::pair<int64_t, int64_t>> busy_;
};

class ListDecoder {
 public:
  ListDecoder(const PlacementProblem& problem, bool gaps);

  // Takes operations in `order`, each after the producers of its inputs. Returns the step's end; nothing if that is
  // known to be later than `limit`. `device` is by operation, `order` by place.
  std::optional<int64_t> decode(const std::vector<int>& device, const std::vector<int>& order,
                                int64_t limit = INT64_MAX);
  // The schedule of the last decode() that had an end; transfers are in the order of their readers.
  const PlacedSchedule& last() const { return s_; }
  PlacedSchedule schedule() const;  // the same, with transfers by start

 private:
  void prepare(const std::vector<int>& device);
  int64_t add(int op);  // its end
  int64_t send(int value, int from, int to, int64_t made);
  int64_t way_ns(int value, int from, int to) const;

  const PlacementProblem& p_;
  bool gaps_;
  int devices_ = 0;
  // The problem, flat.
  std::vector<int64_t> ns_;       // by operation and device
  std::vector<int> first_read_;   // by operation, and one more: into reads_
  std::vector<int> reads_;        // values
  std::vector<int> producer_;     // by value
  std::vector<int64_t> behind_;   // by operation: the longest path behind it, each operation on its fastest device
  std::vector<int> route_class_;  // by device and device: equal routes have one; -1: there is no route
  int classes_ = 0;
  std::vector<int64_t> transfer_ns_;  // by value and class; -1: it moves nothing
  // The schedule.
  PlacedSchedule s_;
  std::vector<int64_t> came_;  // by value and device: since when it is there; -1: it is not
  std::vector<int64_t> ends_;  // by operation
  std::vector<Timeline> on_, queues_;
  std::vector<std::pair<int64_t, int>> missing_;  // of an operation: made, value
};

}  // namespace partita
