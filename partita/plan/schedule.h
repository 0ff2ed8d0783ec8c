// Schedules of micro-batches: which one a stage of a pipeline works on next (docs/inside/PHYSICAL.md section 2).
//
// A model is cut into S x V chunks, one after the other; rank s of S runs the chunks s, s + S, .. (V > 1 for
// kInterleaved alone). Each rank has a list of what it does: forwards until so many are in flight, then a backward and
// a forward in turn, then the backwards that are left. A schedule is how many are in flight, and the order of chunks.
// The lists are run in unit time: a forward or backward of a chunk takes one tick, a rank does one thing a tick.
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
  kInterleaved,  // 1F1B over V chunks a rank, S micro-batches of a chunk at a time (the same, section 2.2.2)
};
std::string_view name_of(Schedule schedule);                   // "default", "gpipe", "1f1b", "interleaved"
std::optional<Schedule> find_schedule(std::string_view name);  // by its name; none: no such schedule
std::string schedule_words();                                  // "default, gpipe, 1f1b, interleaved", for messages

struct Pipelining {
  Schedule schedule = Schedule::kDefault;
  int ranks = 1;           // S
  int virtual_stages = 1;  // V: chunks a rank
  int micro_batches = 1;   // m
  int more_in_flight = 0;  // of k1F1B: on each rank but the last, so that no rank waits for a transfer there and back
  int chunks() const { return ranks * virtual_stages; }
};

// What is wrong with it, and what to do: V other than 1 without kInterleaved, and there an m that S does not divide.
std::optional<std::string> pipelining_error(const Pipelining& pipelining);

// The rest is for what pipelining_error() has nothing against.

// The tick of each forward and backward: [chunk][micro-batch].
struct TickTable {
  std::vector<std::vector<int>> forward, backward;
  int length = 0;  // ticks: 2 (mV + S - 1), for kDefault 2 m S
};
TickTable tick_table(const Pipelining& pipelining);

// Micro-batches whose forward of a chunk on this rank has begun and whose backward is not over, at most: kDefault 1,
// kGpipe m, k1F1B min(m, S - s) and more_in_flight, kInterleaved min(mV, 2 (S - s - 1) + (V - 1) S + 1).
int in_flight(const Pipelining& pipelining, int rank);

// The part of the time in which a rank is idle, with chunks of equal time and free transfers: (S - 1) / (mV + S - 1),
// for kDefault (S - 1) / S. The same for each rank.
double bubble(const Pipelining& pipelining);

}  // namespace partita
