// Actors (OneFlow section 4): one a task, a small state machine that acts when its registers are ready and free. A
// worker owns the actors of one hardware queue, and talks to other workers in messages alone. The engine carries the
// messages and does the acts, so the same code runs on threads and under a deterministic scheduler.
//
// OneFlow counts a register's readers and writers. Here each actor counts how often each of its predecessors has acted.
// Along a data edge that count is a request (`req`), along a reuse edge an acknowledgement (`ack`). The comparison is
// that of PHYSICAL.md section 7:
//     done[X] >= (step - d) * rate(X) + act + 1        (d = 0 for `now`, 1 for `next`).
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
    kDone,       // `from` has acted once more; for the actor `to`
    kGo,         // every participant of `to`'s collective has come: do your part
    kFinished,   // every participant of `to`'s collective has done its part
    kCompleted,  // `to`'s act, begun by execute(), is done
  } kind = Kind::kDone;
  TaskId from, to;
};

// What every worker knows, made once from the graph.
struct ActorTable {
  explicit ActorTable(const PhysicalGraph& graph, int64_t steps);

  struct Wait {
    int predecessor = 0;  // position in Actor::predecessors
    int act = 0;
    bool next = false;
  };
  struct Actor {
    int worker = 0;
    int rate = 1;
    std::vector<TaskId> predecessors;
    std::vector<std::vector<Wait>> waits;  // per act
    std::vector<TaskId> listeners;         // actors with an edge from this one
    std::vector<int64_t> place;            // per act: in `order`
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

// Where the participants of each collective meet.
class Rendezvous {
 public:
  explicit Rendezvous(std::size_t collectives) : come_(collectives), done_(collectives) {}
  // True for the last of `size`, which resets the counter for the next act.
  bool come(int collective, int size) { return count(come_[collective], size); }
  bool done(int collective, int size) { return count(done_[collective], size); }

 private:
  static bool count(std::atomic<int>& counter, int size) {
    if (counter.fetch_add(1, std::memory_order_acq_rel) + 1 < size) return false;
    counter.store(0, std::memory_order_release);
    return true;
  }
  std::vector<std::atomic<int>> come_, done_;
};

// What an engine gives a worker.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void send(int worker, Message message) = 0;
  // Does one act of a task (of a collective: this participant's part). True: it is done on return. False: the engine
  // sends kCompleted when it is.
  virtual bool execute(TaskId task, int64_t step, int act) = 0;
  // Called before execute, and when the act is over, before anyone hears of it. For a collective, the worker of the
  // participant that came last calls began for all of them before any begins; the worker of the one that was done last
  // calls finished for all of them before any goes on.
  virtual void began(TaskId, int64_t /*step*/, int /*act*/) {}
  virtual void finished(TaskId, int64_t /*step*/, int /*act*/) {}
};

class Worker {
 public:
  Worker(const ActorTable& table, int queue, Rendezvous& rendezvous, Engine& engine);
  void receive(Message message);
  // If the queue is free, begins the next act. A dynamic queue takes the ready act that is lowest in `order`; a static
  // queue takes the next in order, once it is ready. False: there is none before another message comes. Whoever drives
  // a worker hands it all its messages first, so that it chooses among all that are ready.
  bool advance();
  // All acts of all its actors are over.
  bool finished() const { return left_ == 0; }
  // What it waits for, for a report of a hang.
  std::string waiting() const;

 private:
  struct State {
    int64_t acts = 0;           // begun and over
    std::vector<int64_t> seen;  // per predecessor: acts that we heard of
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
  int64_t cursor_ = 0;                           // static: acts begun
  bool busy_ = false;
  int64_t left_ = 0;
};

}  // namespace partita
