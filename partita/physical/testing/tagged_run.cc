#include "partita/physical/testing/tagged_run.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/lower.h"

namespace partita::testing {
namespace {

constexpr int64_t kPoison = -1;
constexpr int64_t kElementBytes = 4;  // one tag for so many bytes

class Run {
 public:
  Run(const PhysicalGraph& graph, Rng& rng, const TaggedOptions& options)
      : graph_(graph), rng_(rng), options_(options), table_(number_nodes(graph)), place_(places(graph, table_)) {
    memory_.resize(graph.device_count);
    for (const Register& reg : graph.registers) {
      auto& tags = memory_[reg.device.index()];
      const int64_t end = reg.slot_offset(reg.count - 1) + reg.bytes;
      tags.resize(std::max<std::size_t>(tags.size(), static_cast<std::size_t>((end + kElementBytes - 1) / kElementBytes)), kPoison);
    }
    for (std::size_t r = 0; r < graph.registers.size(); ++r)
      if (graph.registers[r].carried || graph.registers[r].constant) fill(RegisterId(r), 0, nullptr, tag(RegisterId(r), 0, 0));

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
        if (graph.queues[queue.index()].is_static()) static_order_[queue.index()].push_back({member, node.act});
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
    if (!corrupt_.empty()) return {Outcome::kCorrupt, corrupt_};
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t)
      if (done_[t] < total(TaskId(t)))
        return {Outcome::kHang, fmt::format("{} stands at {} of {} acts", graph_.tasks[t].name, done_[t], total(TaskId(t)))};
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
      if (*wait.heard < (step - wait.next) * graph_.task(wait.from.task).rate + wait.from.act + 1) return false;
    return true;
  }

  void kick(std::size_t q) {
    if (busy_[q]) return;
    if (graph_.queues[q].is_static()) {
      const auto& order = static_order_[q];
      if (order.empty() || queue_head_[q] >= order.size() * static_cast<std::size_t>(options_.steps)) return;
      const Node next = order[queue_head_[q] % order.size()];
      const int64_t at = static_cast<int64_t>(queue_head_[q] / order.size()) * graph_.task(next.task).rate + next.act;
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

  // The task occupies its queue; it begins when all participants do.
  void take(std::size_t q, TaskId task) {
    busy_[q] = running_[task.index()] = true;
    for (TaskId member : members(task))
      if (!running_[member.index()] || done_[member.index()] != done_[task.index()]) return;
    for (TaskId member : members(task)) begin(member);
    push(Event::kEnd, rng_.uniform() * slowness_[task.index()] + 1e-3, leader(task));
    if (options_.release_at_start) announce(leader(task));
  }

  void finish(TaskId first) {
    for (TaskId member : members(first)) end(member);
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

  void push(Event::Kind kind, double delay, TaskId task, TaskId listener = {}) { events_.push({kind, now_ + delay, number_++, task, listener}); }

  // ---------------------------------------------------------------- tagged memory

  int64_t tag(RegisterId id, int use, int64_t step) const {
    const Register& reg = graph_.reg(id);
    const int64_t number = reg.constant ? 0 : reg.carried ? step + use : step * reg.uses + use;
    return static_cast<int64_t>(id.index()) * 1'000'000 + number;
  }

  // The elements of a part (null: all) of a use, in the device's memory: dense over the use's box.
  template <typename F>
  void each(RegisterId id, int use, const Box* part, F&& visit) {
    const Register& reg = graph_.reg(id);
    auto& tags = memory_[reg.device.index()];
    const int64_t base = reg.slot_offset(reg.slot(use)) / kElementBytes;
    if (reg.boxes.empty() || !part) {
      const int64_t elements = reg.boxes.empty() ? reg.bytes / kElementBytes : volume(reg.box(reg.carried ? 0 : use));
      for (int64_t i = 0; i < elements; ++i) visit(tags[base + i]);
      return;
    }
    if (is_empty(*part)) return;
    const Box inside = relative_to(*part, reg.box(reg.carried ? 0 : use));
    const Shape shape = extents(reg.box(reg.carried ? 0 : use));
    Shape at;
    for (const Interval& i : inside) at.push_back(i.lo);
    while (true) {
      int64_t index = 0;
      for (std::size_t a = 0; a < at.size(); ++a) index = index * shape[a] + at[a];
      visit(tags[base + index]);
      std::size_t a = at.size();
      while (a > 0 && ++at[a - 1] == inside[a - 1].hi) --a, at[a] = inside[a].lo;
      if (a == 0) return;
    }
  }
  void fill(RegisterId id, int use, const Box* part, int64_t value) {
    each(id, use, part, [&](int64_t& t) { t = value; });
  }
  void expect(const Task& task, int act, RegisterId id, int use, int64_t step, const Box* part, const char* what) {
    bool right = true;
    const int64_t wanted = tag(id, use, step);
    each(id, use, part, [&](int64_t& t) { right &= t == wanted; });
    if (!right && corrupt_.empty()) corrupt_ = fmt::format("step {}: {}#{} {} '{}' use {}, which is not there", step, task.name, act, what, graph_.reg(id).name, use);
  }

  static const Box* part_of(const Access& access, int act) {
    if (access.boxes.empty()) return nullptr;
    return &access.boxes[access.boxes.size() == 1 ? 0 : static_cast<std::size_t>(act)];
  }
  static bool adds(const Register& reg, int act) { return reg.accumulated && act > 0; }

  void check_reads(const Task& task, int act, int64_t step) {
    for (const Access& read : task.reads) {
      const UseRange range = uses_of(graph_.reg(read.reg), task.rate, act, read.fresh);
      for (int use = range.first; use < range.last; ++use) expect(task, act, read.reg, use, step, part_of(read, act), "reads");
    }
  }

  void begin(TaskId id) {
    const Task& task = graph_.task(id);
    const int act = static_cast<int>(done_[id.index()] % task.rate);
    const int64_t step = done_[id.index()] / task.rate;
    check_reads(task, act, step);
    for (const Access& write : task.writes) {
      const Register& reg = graph_.reg(write.reg);
      const bool reads_it = std::any_of(task.reads.begin(), task.reads.end(), [&](const Access& read) { return read.reg == write.reg; });
      if (adds(reg, act) || reads_it || task.elementwise) continue;  // element by element: an operand may lie there until the end
      fill(write.reg, uses_of(reg, task.rate, act, true).first, part_of(write, act), kPoison);
    }
    for (RegisterId scratch : task.scratch) {
      const int use = uses_of(graph_.reg(scratch), task.rate, act, true).first;
      fill(scratch, use, nullptr, tag(scratch, use, step));
    }
  }

  void end(TaskId id) {
    const Task& task = graph_.task(id);
    const int act = static_cast<int>(done_[id.index()] % task.rate);
    const int64_t step = done_[id.index()] / task.rate;
    check_reads(task, act, step);
    for (RegisterId scratch : task.scratch)
      expect(task, act, scratch, uses_of(graph_.reg(scratch), task.rate, act, true).first, step, nullptr, "uses scratch");
    for (const Access& write : task.writes) {
      const Register& reg = graph_.reg(write.reg);
      const int use = uses_of(reg, task.rate, act, true).first;
      if (adds(reg, act)) expect(task, act, write.reg, use, step, part_of(write, act), "adds to");
      fill(write.reg, use, part_of(write, act), tag(write.reg, use, step));
    }
  }

  const PhysicalGraph& graph_;
  Rng& rng_;
  TaggedOptions options_;
  NodeTable table_;
  std::vector<int> place_;
  std::vector<std::vector<int64_t>> memory_;  // tags, by device
  std::vector<std::vector<Wait>> waits_;      // by node
  std::map<std::pair<TaskId, TaskId>, int64_t> heard_;  // (of, by): how many acts of the one the other has heard of
  std::vector<int64_t> done_;                 // acts, by task
  std::vector<bool> running_, busy_;          // by task, by queue
  std::vector<std::vector<TaskId>> queue_tasks_;
  std::vector<std::size_t> queue_head_;
  std::vector<std::vector<Node>> static_order_;
  std::vector<double> slowness_;
  std::priority_queue<Event> events_;
  double now_ = 0;
  int64_t number_ = 0;
  std::string corrupt_;
};

}  // namespace

TaggedRun run_tagged(const PhysicalGraph& graph, Rng& rng, const TaggedOptions& options) { return Run(graph, rng, options).go(); }

}  // namespace partita::testing
