// Runs the actors of a graph on one thread, in a drawn order of messages and firings.
#include "partita/runtime/testing/scheduled_run.h"

#include <deque>
#include <queue>
#include <tuple>

#include "partita/physical/testing/tagged_memory.h"
#include "partita/runtime/actor.h"

namespace partita::testing {
namespace {

class Scheduler final : public Engine {
 public:
  Scheduler(const PhysicalGraph& graph, Rng& rng, int steps)
      : graph_(graph), rng_(rng), table_(graph, steps), rendezvous_(table_.collectives.size()), memory_(graph) {
    for (std::size_t q = 0; q < table_.queues.size(); ++q)
      workers_.emplace_back(table_, static_cast<int>(q), rendezvous_, *this);
    for (std::size_t t = 0; t < graph.tasks.size(); ++t) slowness_.push_back(pick({1, 1, 1, 10, 100}));
  }

  TaggedRun go() {
    for (std::size_t w = 0; w < workers_.size(); ++w) push(pick({0, .1, 1}), {Event::kTurn, static_cast<int>(w), {}});
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      Worker& worker = workers_[event.worker];
      if (event.kind == Event::kMessage) worker.receive(event.message);
      if (event.kind == Event::kTurn && !worker.advance()) continue;
      push(rng_.below(2) ? 0 : pick({.1, 1, 5}) * rng_.uniform(), {Event::kTurn, event.worker, {}});
    }
    if (!memory_.corrupt().empty()) return {Outcome::kCorrupt, memory_.corrupt()};
    for (const Worker& worker : workers_)
      if (!worker.finished()) return {Outcome::kHang, worker.waiting()};
    return {};
  }

  void send(int worker, Message message) override {
    push(pick({.1, 1, 5}) * rng_.uniform(), {Event::kMessage, worker, message});
  }

  bool execute(TaskId task, int64_t, int) override {
    if (rng_.below(4) == 0) return true;
    const Message message{Message::Kind::kCompleted, task, task};
    push(rng_.uniform() * slowness_[task.index()], {Event::kMessage, table_.actors[task.index()].worker, message});
    return false;
  }
  void began(TaskId task, int64_t step, int firing) override {
    memory_.begin(task, step * graph_.task(task).rate + firing);
  }
  void finished(TaskId task, int64_t step, int firing) override {
    memory_.end(task, step * graph_.task(task).rate + firing);
  }

 private:
  struct Event {
    enum Kind { kTurn, kMessage } kind = kTurn;
    int worker = 0;
    Message message;
    double time = 0;
    int64_t number = 0;  // in order of creation, for ties
    bool operator<(const Event& other) const { return std::tie(other.time, other.number) < std::tie(time, number); }
  };

  double pick(std::initializer_list<double> choices) { return choices.begin()[rng_.below(choices.size())]; }
  void push(double delay, Event event) {
    event.time = now_ + delay;
    event.number = number_++;
    events_.push(event);
  }

  const PhysicalGraph& graph_;
  Rng& rng_;
  ActorTable table_;
  Rendezvous rendezvous_;
  TaggedMemory memory_;
  std::deque<Worker> workers_;
  std::vector<double> slowness_;  // by task
  std::priority_queue<Event> events_;
  double now_ = 0;
  int64_t number_ = 0;
};

}  // namespace

TaggedRun run_scheduled(const PhysicalGraph& graph, Rng& rng, int steps) { return Scheduler(graph, rng, steps).go(); }

}  // namespace partita::testing
