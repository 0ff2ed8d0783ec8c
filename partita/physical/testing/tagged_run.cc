#include "partita/physical/testing/tagged_run.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/testing/tagged_memory.h"
#include "partita/physical/uses.h"

namespace partita::testing {
namespace {

class Run {
 public:
  Run(const PhysicalGraph& graph, Rng& rng, const TaggedOptions& options)
      : graph_(graph),
        rng_(rng),
        options_(options),
        table_(number_nodes(graph)),
        place_(places(graph, table_)),
        memory_(graph) {
    const std::size_t tasks = graph.tasks.size();
    waits_.resize(table_.size());
    for (const Edge& edge : graph.edges) {
      const std::size_t to = static_cast<std::size_t>(table_.number(edge.to));
      auto& heard = heard_[{edge.from.task, edge.to.task}];
      waits_[to].push_back({edge.from, edge.next, &heard});
    }
    done_.assign(tasks, 0);
    running_.assign(tasks, false);
    busy_.assign(graph.queues.size(), false);
    queue_tasks_.resize(graph.queues.size());
    queue_head_.assign(graph.queues.size(), 0);
    static_order_.resize(graph.queues.size());
    for (std::size_t t = 0; t < tasks; ++t) {
      queue_tasks_[graph.tasks[t].queue.index()].push_back(TaskId(t));
      slowness_.push_back(std::vector<double>{1, 1, 1, 10, 100}[rng_.below(5)]);
    }
    for (const Node& node : graph.order)
      for (TaskId member : table_.members[table_.number(node)]) {
        const QueueId queue = graph.task(member).queue;
        if (graph.queues[queue.index()].is_static()) static_order_[queue.index()].push_back({member, node.firing});
      }
  }

  TaggedRun go() {
    for (std::size_t q = 0; q < graph_.queues.size(); ++q) kick(q);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == Event::kMessage) {
        ++heard_[{event.task, event.listener}];
        kick(graph_.task(event.listener).queue.index());
      } else {
        finish(event.task);
      }
    }
    if (!memory_.corrupt().empty()) return {Outcome::kCorrupt, memory_.corrupt()};
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t)
      if (done_[t] < total(TaskId(t)))
        return {Outcome::kHang,
                fmt::format("{} stands at {} of {} acts", graph_.tasks[t].name, done_[t], total(TaskId(t)))};
    return {};
  }

 private:
  struct Wait {
    Node from;
    bool next;
    const int64_t* heard;
  };
  struct Event {
    enum Kind { kEnd, kMessage } kind;
    double time;
    int64_t number;  // in order of creation, for ties
    TaskId task, listener;
    bool operator<(const Event& other) const { return std::tie(other.time, other.number) < std::tie(time, number); }
  };

  int64_t total(TaskId task) const { return static_cast<int64_t>(graph_.task(task).rate) * options_.steps; }
  TaskId leader(TaskId task) const { return table_.nodes[table_.number(task, 0)].task; }
  const std::vector<TaskId>& members(TaskId task) const { return table_.members[table_.number(task, 0)]; }

  // One comparison an edge (section 7). A collective's node waits at its first participant.
  bool ready(TaskId task) const {
    if (running_[task.index()] || done_[task.index()] >= total(task)) return false;
    if (leader(task) != task) return true;
    const int rate = graph_.task(task).rate;
    const int64_t step = done_[task.index()] / rate;
    for (const Wait& wait : waits_[table_.number(task, static_cast<int>(done_[task.index()] % rate))])
      if (*wait.heard < (step - wait.next) * graph_.task(wait.from.task).rate + wait.from.firing + 1) return false;
    return true;
  }

  void kick(std::size_t q) {
    if (busy_[q]) return;
    if (graph_.queues[q].is_static()) {
      const auto& order = static_order_[q];
      if (order.empty() || queue_head_[q] >= order.size() * static_cast<std::size_t>(options_.steps)) return;
      const Node next = order[queue_head_[q] % order.size()];
      const int64_t at =
          static_cast<int64_t>(queue_head_[q] / order.size()) * graph_.task(next.task).rate + next.firing;
      if (done_[next.task.index()] == at && ready(next.task)) take(q, next.task);
      return;
    }
    std::vector<TaskId> choices;
    for (TaskId task : queue_tasks_[q])
      if (ready(task)) choices.push_back(task);
    if (choices.empty()) return;
    TaskId chosen = choices[rng_.below(choices.size())];
    if (options_.in_order) {
      const auto rank = [&](TaskId t) {
        const int rate = graph_.task(t).rate;
        return std::pair(done_[t.index()] / rate, place_[table_.number(t, static_cast<int>(done_[t.index()] % rate))]);
      };
      chosen = *std::min_element(choices.begin(), choices.end(), [&](TaskId a, TaskId b) { return rank(a) < rank(b); });
    }
    take(q, chosen);
  }

  // The task occupies its queue. It begins when all participants do.
  void take(std::size_t q, TaskId task) {
    busy_[q] = running_[task.index()] = true;
    for (TaskId member : members(task))
      if (!running_[member.index()] || done_[member.index()] != done_[task.index()]) return;
    for (TaskId member : members(task)) memory_.begin(member, done_[member.index()]);
    push(Event::kEnd, rng_.uniform() * slowness_[task.index()] + 1e-3, leader(task));
    if (options_.release_at_start) announce(leader(task));
  }

  void finish(TaskId first) {
    for (TaskId member : members(first)) memory_.end(member, done_[member.index()]);
    for (TaskId member : members(first)) {
      ++done_[member.index()];
      running_[member.index()] = false;
      const std::size_t q = graph_.task(member).queue.index();
      busy_[q] = false;
      ++queue_head_[q];
    }
    if (!options_.release_at_start) announce(first);
    for (TaskId member : members(first)) kick(graph_.task(member).queue.index());
  }

  // Every task that waits for this one hears of it, each in its own time.
  void announce(TaskId task) {
    for (auto it = heard_.lower_bound({task, TaskId()}); it != heard_.end() && it->first.first == task; ++it) {
      const double delays[] = {.1, 1, 5};
      push(Event::kMessage, rng_.uniform() * delays[rng_.below(3)], task, it->first.second);
    }
  }

  void push(Event::Kind kind, double delay, TaskId task, TaskId listener = {}) {
    events_.push({kind, now_ + delay, number_++, task, listener});
  }

  const PhysicalGraph& graph_;
  Rng& rng_;
  TaggedOptions options_;
  NodeTable table_;
  std::vector<int> place_;
  TaggedMemory memory_;
  std::vector<std::vector<Wait>> waits_;                // by node
  std::map<std::pair<TaskId, TaskId>, int64_t> heard_;  // (of, by): how many firings of the one the other has heard of
  std::vector<int64_t> done_;                           // firings, by task
  std::vector<bool> running_, busy_;                    // by task, by queue
  std::vector<std::vector<TaskId>> queue_tasks_;
  std::vector<std::size_t> queue_head_;
  std::vector<std::vector<Node>> static_order_;
  std::vector<double> slowness_;
  std::priority_queue<Event> events_;
  double now_ = 0;
  int64_t number_ = 0;
};

}  // namespace

TaggedRun run_tagged(const PhysicalGraph& graph, Rng& rng, const TaggedOptions& options) {
  return Run(graph, rng, options).go();
}

}  // namespace partita::testing
