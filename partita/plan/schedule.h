// Orders the micro-batches of each stage of a pipeline: gpipe, 1F1B, interleaved (docs/inside/PHYSICAL.md section 2).
//
// A model is cut into S x V virtual stages, one after the other. Rank s of S runs the virtual stages s, s + S, .. (V >
// 1 only for kInterleaved). Each rank has a list. Forwards come until its limit in flight is reached, then a backward
// and a forward in turn, then the backwards that are left. A schedule is the limit in flight, and the order of virtual
// stages. The lists are run in unit time. A forward or backward of a virtual stage takes one tick, and a rank runs one
// of them a tick.
//
// Example: 1F1B, 2 ranks, 3 micro-batches. A forward of micro-batch n is n, a backward n', an idle tick a dot:
//
//     tick      0   1   2   3   4   5   6   7
//     rank 0    0   1   .   0'  2   1'  .   2'      in flight 2, idle 2 of 8 = (S-1)/(m+S-1)
//     rank 1    .   0   0'  1   1'  2   2'  .       in flight 1
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

enum class Schedule {
  kDefault,      // one micro-batch after the other
  kGpipe,        // all forwards, then all backwards (Huang et al. 2019)
  k1F1B,         // PipeDream-Flush (Narayanan et al. 2021, section 2.2.1)
  kInterleaved,  // 1F1B over V virtual stages a rank, S micro-batches of one at a time (the same, section 2.2.2)
};
std::string_view name_of(Schedule schedule);                   // "default", "gpipe", "1f1b", "interleaved"
std::optional<Schedule> find_schedule(std::string_view name);  // by its name; none: no such schedule
std::string schedule_words();                                  // "default, gpipe, 1f1b, interleaved", for messages

struct Pipelining {
  Schedule schedule = Schedule::kDefault;
  int ranks = 1;           // S
  int virtual_stages = 1;  // V: of each rank
  int micro_batches = 1;   // m
  int more_in_flight = 0;  // of k1F1B: on each rank but the last, so that no rank waits for a transfer there and back
  int stages() const { return ranks * virtual_stages; }
};

// Returns the fault and its remedy: V other than 1 without kInterleaved, or with it an m that S does not divide.
std::optional<std::string> pipelining_error(const Pipelining& pipelining);

// The functions below take only pipelines without a pipelining_error().

// A forward or a backward pass of one micro-batch on a virtual stage.
struct ScheduledPass {
  bool backward = false;
  int stage = 0, micro_batch = 0;
};
// Lists the passes of a rank, in order.
std::vector<ScheduledPass> passes_of(const Pipelining& pipelining, int rank);

// The tick of each forward and backward: [virtual stage][micro-batch].
struct TickTable {
  std::vector<std::vector<int>> forward, backward;
  int length = 0;  // ticks: 2 (mV + S - 1), for kDefault 2 m S
};
TickTable tick_table(const Pipelining& pipelining);

// Returns how many micro-batches are in flight on this rank at most: their forward of a virtual stage has begun, and
// their backward is not over. kDefault has 1, kGpipe m, and k1F1B min(m, S - s) and more_in_flight. kInterleaved has
// min(mV, 2 (S - s - 1) + (V - 1) S + 1).
int in_flight(const Pipelining& pipelining, int rank);

// Returns the fraction of the time in which a rank is idle, with virtual stages of equal time and free transfers. It is
// (S - 1) / (mV + S - 1), for kDefault (S - 1) / S. It is the same for each rank.
double bubble(const Pipelining& pipelining);

}  // namespace partita
