// Simulates proposals to a local task graph exactly, for local searches. It returns the makespan that first_come.h
// gives for the graph with some fragments exchanged, starting from the timeline without the exchange.
//
// Tasks are taken in the order of (ready time, key). All below K stays as it is. K is the lowest (ready time, key)
// among removed tasks and new tasks that wait for old ones only. A task that keeps its key but changes its duration,
// its queues or the tasks it waits for counts as removed and new. So each queue is cut at K, and everything after is
// simulated again beside the committed timeline: a rejected proposal undoes nothing. If that becomes the committed
// timeline again, only later, it is not simulated up to the next change (replay_rejoin.cc).
//
// A threshold stops as soon as a lower bound of the makespan is above it. The bounds are, cheapest first: the work of a
// queue; the same with the time that the queue had lost before K. Then, for each task taken, its end and the longest
// chain of tasks that wait for it. The last is the end of a queue and its work left.
//
// Example: of a chain of tasks on one queue, 10 ns each, the third is exchanged for a task of 15 ns. K is the ready
// time of the third, 20 ns; the first two stay. With a threshold of 30 ns and four tasks the first bound, 45 ns, says
// no.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "partita/task_graph/first_come.h"
#include "partita/task_graph/task_graph.h"

namespace partita {

struct ReplayState;  // replay_state.h

// How proposals ended, and the tasks that were taken for them.
struct ReplayCounts {
  int64_t by_loads = 0;   // above the threshold by the queues' loads
  int64_t by_cut = 0;     // with the time lost before K
  int64_t by_tails = 0;   // while tasks were taken, by the chain behind one
  int64_t by_queues = 0;  // by the work that a queue had left
  int64_t exact = 0;
  int64_t swept = 0;  // events of affected tasks
  int64_t taken = 0;  // tasks simulated again from the cut on
  int64_t skips = 0;  // parts of the timeline that were only shifted
};

// A proposal is first looked at through its affected tasks alone, in the order of time (replay_sweep.cc). They are few
// if much of the graph stays as it is, or a bound is soon above the threshold. If they become many, all later tasks are
// replayed; if that was mostly so, at once. These numbers change the time taken, and nothing else.
struct ReplayOptions {
  int64_t least_events = 64;  // are looked at at least,
  int tasks_an_event = 10;    // and further ones while they take no longer than the replay of the tasks they pass
  int least_skip = 32;        // tasks only shifted, from which the replay looks for them
  int sweep_every = 16;       // proposals, if looking at affected tasks alone has not paid
};

class Replay {
 public:
  explicit Replay(TaskGraph graph, const ReplayOptions& options = {});
  ~Replay();
  Replay(Replay&&) noexcept;
  Replay& operator=(Replay&&) noexcept;

  static constexpr int64_t kNoThreshold = std::numeric_limits<int64_t>::max();
  using Exchanges = std::vector<std::pair<int, FragmentPtr>>;  // slots, each once, and the fragments that they get

  // Returns the makespan (ns) with these fragments; nothing if it is above the threshold.
  std::optional<int64_t> evaluate(const Exchanges& exchanges, int64_t threshold_ns = kNoThreshold);
  // Commits the proposal that was evaluated last; it was not above its threshold.
  void commit();

  // The committed graph.
  const TaskGraph& graph() const;
  int64_t makespan_ns() const;
  struct Times {
    int64_t ready_ns = 0, start_ns = 0, end_ns = 0;
    int64_t tail_ns = 0;  // the longest chain of tasks that wait for it: the sum of their durations
    int place = 0;        // in the order in which tasks are taken
  };
  Times times(int slot, int task) const;
  const std::vector<int64_t>& load_ns() const;  // by queue

  const ReplayCounts& counts() const;

 private:
  std::unique_ptr<ReplayState> state_;
};

}  // namespace partita
