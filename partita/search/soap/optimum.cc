// Branches on the configurations of units, and bounds partial plans by heads and queues.
#include "partita/search/soap/optimum.h"

#include <algorithm>
#include <optional>

#include "partita/base/error.h"
#include "partita/search/soap/bound_tables.h"
#include "partita/search/soap/simulated_proposals.h"

namespace partita {

namespace {

// A step through an op that is not decided.
struct Through {
  int operand = -1, result = 0;
  int64_t ns = 0;
};

class Brancher {
 public:
  Brancher(const Problem& problem, const SoapSpace& space, const CostModel& cost, const Watch& watch,
           int64_t most_nodes, const PlanFits& fits)
      : problem_(problem),
        space_(space),
        watch_(watch),
        most_nodes_(most_nodes),
        fits_(fits),
        parts_(problem, cost, space),
        tasks_(problem, cost, space),
        simulator_(SoapSimulator::kFull, tasks_),
        wired_(parts_.wired()),
        ops_(problem.graph.ops.size()),
        conversions_(problem.graph.tensors.size()),
        op_ends_(problem.graph.ops.size()),
        tensor_ends_(problem.graph.tensors.size()),
        least_(problem.graph.tensors.size()),
        touched_(space.units.size()) {
    for (size_t i = 0; i < ops_.size(); ++i) add_through(OpId(i));
    for (size_t t = 0; t < problem.graph.tensors.size(); ++t) add_touched(TensorId(t));
  }

  SoapOptimum run(int64_t known_ns) {
    out_.ns = known_ns;
    out_.plans = 1;
    for (const SoapSet& set : space_.sets) out_.plans *= static_cast<double>(set.size());
    numbers_.assign(space_.units.size(), 0);
    out_.proved = branch(0);
    return out_;
  }

 private:
  // Adds the least times of undecided ops. Those that read terms, or parts, begin with nothing.
  void add_through(OpId id) {
    const Op& op = problem_.graph.op(id);
    std::vector<Through>& all = through_.emplace_back();
    const int64_t size = space_.sets[static_cast<size_t>(parts_.unit_of(id))].size();
    for (int k = -1; k < static_cast<int>(op.operands.size()); ++k) {
      if (k >= 0 && !(waits(id, k))) continue;
      for (int r = 0; r < static_cast<int>(op.results.size()); ++r) {
        int64_t least = INT64_MAX;
        for (int64_t number = 0; number < size; ++number) least = std::min(least, parts_.step_ns(id, number, k, r));
        if (least >= 0) all.push_back({k, r, least});
      }
    }
  }

  bool waits(OpId op, int operand) {
    const TensorId t = problem_.graph.op(op).operands[static_cast<size_t>(operand)];
    return problem_.graph.tensor(t).producer.valid() && parts_.waits(op, operand);
  }

  // A tensor's conversions change with the units of all ops that they depend on.
  void add_touched(TensorId t) {
    std::vector<int> units;
    if (parts_.producer_unit_of(t) >= 0) units.push_back(parts_.producer_unit_of(t));
    const std::vector<int>& parties = wired_.wires[ops_.size() + t.index()].parties;
    for (size_t p = 1; p < parties.size(); ++p)
      if (parties[p] >= 0) units.push_back(parts_.unit_of(OpId(static_cast<size_t>(parties[p]))));
    std::ranges::sort(units);
    units.erase(std::unique(units.begin(), units.end()), units.end());
    for (const int u : units) touched_[static_cast<size_t>(u)].push_back(t);
  }

  int64_t simulated(const std::vector<int64_t>& numbers) {
    std::vector<std::pair<int, int64_t>> units;
    for (size_t u = 0; u < numbers.size(); ++u)
      if (numbers[u] != tasks_.numbers()[u]) units.emplace_back(static_cast<int>(u), numbers[u]);
    ++out_.simulated;
    return *simulator_.ns(tasks_.propose(units));
  }

  // The tensor's fragment for the decided ops; null if its producer or keeper is undecided.
  FragmentPtr decided(TensorId t) {
    const OpId writer = problem_.graph.tensor(t).producer;
    if (writer.valid() && !ops_[writer.index()]) return nullptr;
    const int base = parts_.producer_unit_of(t);
    if (base >= 0 && !ops_[space_.units[static_cast<size_t>(base)].ops[0].index()]) return nullptr;
    if (base < 0) return nullptr;
    return parts_.tensor(t, ops_);
  }

  // Returns whether all below was looked at.
  bool branch(size_t unit) {
    if (watch_.ended() || out_.nodes >= most_nodes_) return false;
    if (unit == numbers_.size()) {
      const int64_t ns = simulated(numbers_);
      if (ns >= out_.ns) return true;
      const std::optional<bool> counts = fits_ ? fits_(numbers_) : true;
      if (counts.value_or(false)) out_.ns = ns, out_.numbers = numbers_;
      return counts.has_value();
    }
    std::vector<std::pair<int64_t, int64_t>> children;  // bound, number
    std::vector<FragmentPtr> before;
    for (const TensorId t : touched_[unit]) before.push_back(conversions_[t.index()]);
    const int64_t size = space_.sets[unit].size();
    for (int64_t number = 0; number < size; ++number) {
      put(unit, number);
      ++out_.nodes;
      if (const int64_t ns = bound(); ns < out_.ns) children.emplace_back(ns, number);
    }
    std::ranges::sort(children);
    bool all = true;
    for (const auto& [ns, number] : children) {
      if (ns >= out_.ns) break;
      put(unit, number);
      numbers_[unit] = number;
      if (!(all = branch(unit + 1))) break;
    }
    for (const OpId op : space_.units[unit].ops) ops_[op.index()] = nullptr;
    for (size_t i = 0; i < before.size(); ++i) conversions_[touched_[unit][i].index()] = std::move(before[i]);
    return all;
  }

  void put(size_t unit, int64_t number) {
    const std::vector<const OpFragment*>& of = parts_.ops(static_cast<int>(unit), number);
    for (size_t i = 0; i < of.size(); ++i) ops_[space_.units[unit].ops[i].index()] = of[i];
    for (const TensorId t : touched_[unit]) conversions_[t.index()] = decided(t);
  }

  // ---------------------------------------------------------------- the bound

  // The earliest ends of a fragment's tasks. `ready(party, task)`: when the tasks they wait for end.
  template <typename Ends>
  void end_tasks(const Fragment& fragment, std::vector<int64_t>& ends, const Ends& other) {
    const size_t size = static_cast<size_t>(fragment.size());
    ends.assign(size, -1);
    for (size_t task = 0; task < size; ++task) end_task(fragment, ends, task, other);
  }

  template <typename Ends>
  int64_t end_task(const Fragment& fragment, std::vector<int64_t>& ends, size_t task, const Ends& other) {
    if (ends[task] >= 0) return ends[task];
    int64_t head = other(task);
    if (!fragment.before.empty() && !fragment.before[0].ends.empty()) {
      const TaskLists& lists = fragment.before[0];
      for (int i = task == 0 ? 0 : lists.ends[task - 1]; i < lists.ends[task]; ++i) {
        const TaskOf& b = lists.tasks[static_cast<size_t>(i)];
        if (b.party == 0) head = std::max(head, end_task(fragment, ends, static_cast<size_t>(b.task), other));
        else if (writer_) head = std::max(head, (*writer_)[static_cast<size_t>(b.task)]);
      }
    }
    const int64_t ns = fragment.duration_ns[task];
    for (int q = task == 0 ? 0 : fragment.queue_ends[task - 1]; q < fragment.queue_ends[task]; ++q)
      on_queues_.push_back({head, ns, fragment.queues[static_cast<size_t>(q)]});
    last_ = std::max(last_, head + ns);
    return ends[task] = head + ns;
  }

  void end_op(OpId id) {
    const size_t i = id.index();
    const Op& op = problem_.graph.op(id);
    heads_.assign(static_cast<size_t>(ops_[i]->tasks->size()), 0);
    for (const auto& [slot, party] : wired_.wires[i].operands) {
      const size_t t = static_cast<size_t>(slot) - ops_.size();
      if (!conversions_[t]) continue;
      const TaskLists& lists = conversions_[t]->before[static_cast<size_t>(party)];
      const OpId writer = problem_.graph.tensors[t].producer;
      for (size_t task = 0; task < lists.ends.size(); ++task)
        for (int b = task == 0 ? 0 : lists.ends[task - 1]; b < lists.ends[task]; ++b) {
          const TaskOf& of = lists.tasks[static_cast<size_t>(b)];
          const std::vector<int64_t>& ends = of.party == 0 ? tensor_ends_[t] : op_ends_[writer.index()];
          heads_[task] = std::max(heads_[task], ends[static_cast<size_t>(of.task)]);
        }
    }
    for (int k = 0; k < static_cast<int>(op.operands.size()); ++k) {
      const size_t t = op.operands[static_cast<size_t>(k)].index();
      if (conversions_[t] || least_[t] <= 0 || !waits(id, k)) continue;
      for (const int task : ops_[i]->reads.of(static_cast<size_t>(k)))
        heads_[static_cast<size_t>(task)] = std::max(heads_[static_cast<size_t>(task)], least_[t]);
    }
    writer_ = nullptr;
    end_tasks(*ops_[i]->tasks, op_ends_[i], [&](size_t task) { return heads_[task]; });
    for (size_t r = 0; r < op.results.size(); ++r) {
      int64_t least = INT64_MAX;
      for (const int task : ops_[i]->writes.of(r)) least = std::min(least, op_ends_[i][static_cast<size_t>(task)]);
      least_[op.results[r].index()] = least == INT64_MAX ? 0 : least;
    }
  }

  void end_tensor(TensorId t) {
    const OpId writer = problem_.graph.tensor(t).producer;
    writer_ = writer.valid() ? &op_ends_[writer.index()] : nullptr;
    end_tasks(*conversions_[t.index()], tensor_ends_[t.index()], [](size_t) { return 0; });
  }

  // No plan with these decisions takes less.
  int64_t bound() {
    on_queues_.clear();
    last_ = 0;
    const Graph& graph = problem_.graph;
    for (size_t t = 0; t < graph.tensors.size(); ++t)
      if (!graph.tensors[t].producer.valid() && conversions_[t]) end_tensor(TensorId(t));
    for (size_t i = 0; i < ops_.size() && last_ < out_.ns; ++i) {
      const Op& op = graph.ops[i];
      if (ops_[i]) {
        end_op(OpId(i));
        for (const TensorId t : op.results)
          if (conversions_[t.index()]) end_tensor(t);
        continue;
      }
      for (const TensorId t : op.results) least_[t.index()] = 0;
      for (const Through& step : through_[i]) {
        const int64_t head = step.operand < 0 ? 0 : least_[op.operands[static_cast<size_t>(step.operand)].index()];
        int64_t& least = least_[op.results[static_cast<size_t>(step.result)].index()];
        least = std::max(least, head + step.ns);
        last_ = std::max(last_, least);
      }
    }
    return last_ < out_.ns ? std::max(last_, of_queues()) : last_;
  }

  // The bound by queues: tasks that begin no earlier than some time are one after another from then on.
  int64_t of_queues() {
    std::ranges::sort(on_queues_, [](const OnQueue& a, const OnQueue& b) { return a.head > b.head; });
    sums_.assign(static_cast<size_t>(wired_.queue_count), 0);
    int64_t most = 0;
    for (const OnQueue& task : on_queues_) {
      int64_t& sum = sums_[static_cast<size_t>(task.queue)];
      sum += task.ns;
      most = std::max(most, task.head + sum);
    }
    return most;
  }

  struct OnQueue {
    int64_t head = 0, ns = 0;
    int queue = 0;
  };

  const Problem& problem_;
  const SoapSpace& space_;
  const Watch& watch_;
  const int64_t most_nodes_;
  const PlanFits& fits_;
  SoapParts parts_;
  SoapTasks tasks_;
  ProposalSimulator simulator_;
  const TaskGraph& wired_;
  std::vector<const OpFragment*> ops_;                       // of decided units
  std::vector<FragmentPtr> conversions_;                     // by tensor, as far as decided
  std::vector<std::vector<Through>> through_;                // by op
  std::vector<std::vector<int64_t>> op_ends_, tensor_ends_;  // by task
  std::vector<int64_t> least_;                               // by tensor: the first end of its producing tasks
  std::vector<std::vector<TensorId>> touched_;               // by unit
  std::vector<int64_t> numbers_, heads_, sums_;
  std::vector<OnQueue> on_queues_;
  const std::vector<int64_t>* writer_ = nullptr;
  int64_t last_ = 0;
  SoapOptimum out_;
};

}  // namespace

SoapOptimum soap_optimum(const Problem& problem, const SoapSpace& space, const CostModel& cost, int64_t known_ns,
                         const Watch& watch, int64_t most_nodes, const PlanFits& fits) {
  const Watch::Clock::time_point begun = Watch::Clock::now();
  SoapOptimum out = Brancher(problem, space, cost, watch, most_nodes, fits).run(known_ns);
  out.seconds = std::chrono::duration<double>(Watch::Clock::now() - begun).count();
  return out;
}

}  // namespace partita
