// Builds the actors' table, and runs the state machines of one queue.
#include "partita/runtime/actor.h"

#include <algorithm>
#include <map>

#include "partita/base/error.h"

namespace partita {

ActorTable::ActorTable(const PhysicalGraph& g, int64_t step_count)
    : graph(g), steps(step_count), nodes(static_cast<int64_t>(g.order.size())) {
  actors.resize(g.tasks.size());
  std::map<int32_t, int> worker_of;  // queue -> worker
  for (size_t t = 0; t < g.tasks.size(); ++t) {
    const Task& task = g.tasks[t];
    auto [found, fresh] = worker_of.try_emplace(task.queue.value, static_cast<int>(queues.size()));
    if (fresh) queues.push_back({task.queue, g.queues[task.queue.index()].is_static(), {}, {}});
    Actor& actor = actors[t];
    actor.worker = found->second;
    actor.rate = task.rate;
    actor.waits.resize(task.rate);
    actor.place.assign(task.rate, 0);
    queues[actor.worker].tasks.push_back(TaskId(t));
    if (auto* work = std::get_if<CollectiveWork>(&task.work)) {
      actor.collective = work->collective.value;
      if (collectives.size() <= work->collective.index()) collectives.resize(work->collective.index() + 1);
      auto& participants = collectives[work->collective.index()].participants;
      if (participants.size() < static_cast<size_t>(work->size)) participants.resize(work->size);
      participants[work->rank] = TaskId(t);
    }
  }
  for (size_t i = 0; i < g.order.size(); ++i) {
    const Node& node = g.order[i];
    int collective = actors[node.task.index()].collective;
    std::vector<TaskId> members = collective < 0 ? std::vector{node.task} : collectives[collective].participants;
    for (TaskId member : members) {
      Actor& actor = actors[member.index()];
      actor.place[node.firing] = static_cast<int64_t>(i);
      if (queues[actor.worker].is_static) queues[actor.worker].order.push_back({member, node.firing});
    }
  }
  for (const Edge& edge : g.edges) {
    Actor& to = actors[edge.to.task.index()];
    auto found = std::find(to.predecessors.begin(), to.predecessors.end(), edge.from.task);
    if (found == to.predecessors.end()) {
      found = to.predecessors.insert(to.predecessors.end(), edge.from.task);
      actors[edge.from.task.index()].listeners.push_back(edge.to.task);
    }
    to.waits[edge.to.firing].push_back(
        {static_cast<int>(found - to.predecessors.begin()), edge.from.firing, edge.next});
  }
}

Worker::Worker(const ActorTable& table, int queue, Rendezvous& rendezvous, Engine& engine)
    : table_(table),
      queue_(table.queues[queue]),
      rendezvous_(rendezvous),
      engine_(engine),
      local_(table.actors.size(), -1) {
  for (TaskId task : queue_.tasks) {
    local_[task.index()] = static_cast<int>(states_.size());
    states_.push_back({0, std::vector<int64_t>(table.actors[task.index()].predecessors.size(), 0), false});
    left_ += table.actors[task.index()].rate * table.steps;
  }
  for (TaskId task : queue_.tasks) look(task);
}

void Worker::receive(Message message) {
  switch (message.kind) {
    case Message::Kind::kDone: {
      const auto& predecessors = table_.actors[message.to.index()].predecessors;
      auto at = std::find(predecessors.begin(), predecessors.end(), message.from) - predecessors.begin();
      state(message.to).seen[at] += 1;
      look(message.to);
      break;
    }
    case Message::Kind::kGo:
      work(message.to);
      break;
    case Message::Kind::kFinished:
      over(message.to);
      break;
    case Message::Kind::kCompleted:
      part_done(message.to);
      break;
  }
}

bool Worker::is_ready(TaskId task) const {
  const ActorTable::Actor& actor = table_.actors[task.index()];
  const State& s = state(task);
  if (s.firings >= actor.rate * table_.steps) return false;
  int64_t step = s.firings / actor.rate, firing = s.firings % actor.rate;
  for (const ActorTable::Wait& wait : actor.waits[firing]) {
    int64_t rate = table_.actors[actor.predecessors[wait.predecessor].index()].rate;
    if (s.seen[wait.predecessor] < (step - (wait.next ? 1 : 0)) * rate + wait.firing + 1) return false;
  }
  return true;
}

void Worker::look(TaskId task) {
  if (queue_.is_static) return;  // there the cursor alone chooses the next
  State& s = state(task);
  if (s.listed || !is_ready(task)) return;
  const ActorTable::Actor& actor = table_.actors[task.index()];
  s.listed = true;
  ready_.insert({s.firings / actor.rate * table_.nodes + actor.place[s.firings % actor.rate], task.value});
}

bool Worker::advance() {
  if (busy_) return false;
  TaskId next;
  if (queue_.is_static) {
    int64_t n = static_cast<int64_t>(queue_.order.size());
    if (cursor_ >= n * table_.steps) return false;
    const Node& node = queue_.order[cursor_ % n];
    if (state(node.task).firings != cursor_ / n * table_.actors[node.task.index()].rate + node.firing ||
        !is_ready(node.task))
      return false;
    next = node.task;
    ++cursor_;
  } else {
    if (ready_.empty()) return false;
    next.value = ready_.begin()->second;
    ready_.erase(ready_.begin());
  }
  begin(next);
  return true;
}

void Worker::begin(TaskId task) {
  busy_ = true;
  int collective = table_.actors[task.index()].collective;
  int64_t firings = state(task).firings, rate = table_.actors[task.index()].rate;
  if (collective < 0) {
    engine_.began(task, firings / rate, static_cast<int>(firings % rate));
    return work(task);
  }
  const auto& participants = table_.collectives[collective].participants;
  if (!rendezvous_.arrive(collective, static_cast<int>(participants.size()))) return;
  for (TaskId p : participants) engine_.began(p, firings / rate, static_cast<int>(firings % rate));
  for (TaskId p : participants) engine_.send(table_.actors[p.index()].worker, {Message::Kind::kGo, task, p});
}

void Worker::work(TaskId task) {
  int64_t firings = state(task).firings, rate = table_.actors[task.index()].rate;
  if (engine_.execute(task, firings / rate, static_cast<int>(firings % rate))) part_done(task);
}

void Worker::part_done(TaskId task) {
  int collective = table_.actors[task.index()].collective;
  int64_t firings = state(task).firings, rate = table_.actors[task.index()].rate;
  if (collective < 0) {
    engine_.finished(task, firings / rate, static_cast<int>(firings % rate));
    return over(task);
  }
  const auto& participants = table_.collectives[collective].participants;
  if (!rendezvous_.done(collective, static_cast<int>(participants.size()))) return;
  for (TaskId p : participants) engine_.finished(p, firings / rate, static_cast<int>(firings % rate));
  for (TaskId p : participants) engine_.send(table_.actors[p.index()].worker, {Message::Kind::kFinished, task, p});
}

void Worker::over(TaskId task) {
  State& s = state(task);
  const ActorTable::Actor& actor = table_.actors[task.index()];
  ++s.firings;
  --left_;
  s.listed = false;
  busy_ = false;
  for (TaskId listener : actor.listeners)
    engine_.send(table_.actors[listener.index()].worker, {Message::Kind::kDone, task, listener});
  look(task);
}

std::string Worker::waiting() const {
  std::string text;
  for (TaskId task : queue_.tasks) {
    const ActorTable::Actor& actor = table_.actors[task.index()];
    const State& s = state(task);
    if (s.firings >= actor.rate * table_.steps) continue;
    text += fmt::format("{} step {} act {} waits for", table_.graph.task(task).name, s.firings / actor.rate,
                        s.firings % actor.rate);
    for (const ActorTable::Wait& wait : actor.waits[s.firings % actor.rate])
      text += fmt::format(" {}({})", table_.graph.task(actor.predecessors[wait.predecessor]).name,
                          s.seen[wait.predecessor]);
    text += "\n";
  }
  return text;
}

}  // namespace partita
