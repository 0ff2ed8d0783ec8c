// Exact simulation of proposals to a local task graph: what first_come.h says of the graph with some fragments
// exchanged, from the timeline of the graph without.
//
// Tasks are taken in the order of (ready time, key). All below K stays as it is, K being the lowest (ready time, key)
// among tasks that go and among new tasks that wait for old ones only. A task that keeps its key but changes its
// duration, its queues or what it waits for goes and is new. So each queue is cut at K, and what comes after is
// simulated again, beside the committed timeline: who rejects a proposal undoes nothing. Where that has become the
// committed timeline again, so much later, it is not simulated up to the next change (replay_rejoin.cc).
//
// A threshold ends that as soon as a lower bound of the makespan is above it, the cheapest first: what is to be done on
// a queue; the time that the queue had lost before K added; for each task taken, its end and the longest chain of tasks
// that wait for it; the end of a queue and what it has still to do.
//
// Example: of a chain of tasks on one queue, 10 ns each, the third is exchanged for one of 15 ns. K is when the third
// was ready, at 20 ns; the first two stay. With a threshold of 30 ns and four tasks the first bound, 45 ns, says no.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "partita/task_graph/first_come.h"
#include "partita/task_graph/task_graph.h"

namespace partita {

struct ReplayState;  // replay_state.h

// How proposals ended, and the tasks that were taken for them.
struct ReplayCounts {
  int64_t by_loads = 0;   // above the threshold by the queues' loads
  int64_t by_cut = 0;     // and by what was lost before K
  int64_t by_tails = 0;   // while tasks were taken, by the chain behind one
  int64_t by_queues = 0;  // and by what a queue had still to do
  int64_t exact = 0;
  int64_t swept = 0;  // events of affected tasks
  int64_t taken = 0;  // tasks simulated again from the cut on
  int64_t skips = 0;  // parts of the timeline that were only shifted
};

// A proposal is first looked at through the tasks alone that it affects, in the order of time (replay_sweep.cc): few,
// if much of the graph stays as it is, or a bound is soon above the threshold. Where these become many, all that comes
// after is replayed; and where that has mostly been so, at once. The numbers change how long that takes, and nothing
// else.
struct ReplayOptions {
  int64_t least_events = 64;  // are looked at,
  int tasks_an_event = 10;    // and as many as are passed while they take as long as the replay of what they pass
  int least_skip = 32;        // tasks that are only shifted, where the replay looks whether there are any
  int sweep_every = 16;       // proposals, where looking at affected tasks alone has not been worth it
};

class Replay {
 public:
  explicit Replay(TaskGraph graph, const ReplayOptions& options = {});
  ~Replay();
  Replay(Replay&&) noexcept;
  Replay& operator=(Replay&&) noexcept;

  static constexpr int64_t kNoThreshold = std::numeric_limits<int64_t>::max();
  using Exchanges = std::vector<std::pair<int, FragmentPtr>>;  // slots, each once, and the fragments that they get

  // The makespan with these fragments; nothing if it is above the threshold.
  std::optional<int64_t> evaluate(const Exchanges& exchanges, int64_t threshold_ns = kNoThreshold);
  // Takes the proposal that was evaluated last, and was not above its threshold.
  void commit();

  // A lower bound of the makespan if these slots get fragments with these loads (Fragment::load_ns).
  struct Load {
    int slot = 0;
    std::span<const std::pair<int, int64_t>> load_ns;
  };
  int64_t lower_bound_of_loads(std::span<const Load> loads);

  // Of what is committed.
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
