// Defines actors (OneFlow section 4), one a task, for all engines: a small state machine that fires when its registers
// are ready and free. A worker owns the actors of one hardware queue, and talks to other workers in messages alone. The
// engine carries the messages and runs the firings, so the same code runs on threads and under a deterministic
// scheduler.
//
// OneFlow counts a register's readers and writers. Here each actor counts the firings of each of its predecessors.
// Along a data edge that count is a request (`req`), along a reuse edge an acknowledgement (`ack`). The comparison is
// that of PHYSICAL.md section 7:
//     done[X] >= (step - d) * rate(X) + firing + 1        (d = 0 for `now`, 1 for `next`).
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

struct Message {
  enum class Kind {
    kDone,       // `from` has fired once more; for the actor `to`
    kGo,         // every participant of `to`'s collective has come: do your part
    kFinished,   // every participant of `to`'s collective has done its part
    kCompleted,  // `to`'s firing, begun by execute(), is done
  } kind = Kind::kDone;
  TaskId from, to;
};

// The facts that every worker needs, made once from the graph.
struct ActorTable {
  explicit ActorTable(const PhysicalGraph& graph, int64_t steps);

  struct Wait {
    int predecessor = 0;  // position in Actor::predecessors
    int firing = 0;
    bool next = false;
  };
  struct Actor {
    int worker = 0;
    int rate = 1;
    std::vector<TaskId> predecessors;
    std::vector<std::vector<Wait>> waits;  // per firing
    std::vector<TaskId> listeners;         // actors with an edge from this one
    std::vector<int64_t> place;            // per firing: its place in `order`
    int collective = -1;
  };
  struct Collective {
    std::vector<TaskId> participants;
  };
  struct Queue {
    QueueId queue;
    bool is_static = false;
    std::vector<TaskId> tasks;
    std::vector<Node> order;  // of a static queue
  };
  const PhysicalGraph& graph;
  int64_t steps;
  std::vector<Actor> actors;            // by TaskId
  std::vector<Collective> collectives;  // by CollectiveId
  std::vector<Queue> queues;            // the queues that have tasks: one worker each
  int64_t nodes = 0;                    // length of `order`
};

// The meeting point of the participants of each collective.
class Rendezvous {
 public:
  explicit Rendezvous(std::size_t collectives) : arrived_(collectives), done_(collectives) {}
  // True for the last of `size`, which resets the counter for the next firing.
  bool arrive(int collective, int size) { return count(arrived_[collective], size); }
  bool done(int collective, int size) { return count(done_[collective], size); }

 private:
  static bool count(std::atomic<int>& counter, int size) {
    if (counter.fetch_add(1, std::memory_order_acq_rel) + 1 < size) return false;
    counter.store(0, std::memory_order_release);
    return true;
  }
  std::vector<std::atomic<int>> arrived_, done_;
};

// The services of an engine for a worker.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void send(int worker, Message message) = 0;
  // Runs one firing of a task (for a collective: this participant's part). True: it is done on return. False: the
  // engine sends kCompleted when it is.
  virtual bool execute(TaskId task, int64_t step, int firing) = 0;
  // Called before execute, and when the firing is over, before any other worker hears of it. For a collective, the
  // worker of the participant that came last calls began for all of them before any begins. The worker of the one that
  // was done last calls finished for all of them before any goes on.
  virtual void began(TaskId, int64_t /*step*/, int /*firing*/) {}
  virtual void finished(TaskId, int64_t /*step*/, int /*firing*/) {}
};

class Worker {
 public:
  Worker(const ActorTable& table, int queue, Rendezvous& rendezvous, Engine& engine);
  void receive(Message message);
  // Begins the next firing if the queue is free. A dynamic queue takes the ready firing that is lowest in `order`; a
  // static queue takes the next in order, once it is ready. False: there is none before another message comes. The
  // caller hands a worker all its messages first, so that it chooses among all that are ready.
  bool advance();
  // Tells whether all firings of all its actors are over.
  bool finished() const { return left_ == 0; }
  // Returns what it waits for, for a report of a hang.
  std::string waiting() const;

 private:
  struct State {
    int64_t firings = 0;        // firings begun and over
    std::vector<int64_t> seen;  // per predecessor: its firings so far, by messages
    bool listed = false;        // among the ready
  };
  State& state(TaskId task) { return states_[local_[task.index()]]; }
  const State& state(TaskId task) const { return states_[local_[task.index()]]; }
  bool is_ready(TaskId task) const;
  void look(TaskId task);  // lists it if it is ready
  void begin(TaskId task);
  void work(TaskId task);
  void part_done(TaskId task);
  void over(TaskId task);

  const ActorTable& table_;
  const ActorTable::Queue& queue_;
  Rendezvous& rendezvous_;
  Engine& engine_;
  std::vector<int> local_;  // TaskId -> position in states_, -1 elsewhere
  std::vector<State> states_;
  std::set<std::pair<int64_t, int32_t>> ready_;  // (step * nodes + place, task): the lowest in the order first
  int64_t cursor_ = 0;                           // static: firings begun
  bool busy_ = false;
  int64_t left_ = 0;
};

}  // namespace partita
