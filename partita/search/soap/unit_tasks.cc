// Keeps the local task graph of a plan, and exchanges the fragments that a move changes.
#include "partita/search/soap/unit_tasks.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <tuple>

#include "partita/base/error.h"

namespace partita {

namespace {

// Alike ops share one set, which is made once.
void add_sets(const Graph& graph, const std::vector<DeviceId>& devices, const AllowedSoapDimensions& dimensions,
              SoapSpace& space) {
  std::map<
      std::tuple<const tdl::Bound*, std::vector<int>, std::vector<SoapDimension>, std::vector<std::vector<int64_t>>>,
      SoapSet>
      known;
  for (const SoapUnit& unit : space.units) {
    const auto [set, fresh] =
        known.try_emplace({graph.op(unit.leader).bound.get(), unit.indices, unit.dimensions, unit.extents});
    if (fresh) set->second = soap_set(graph, unit, devices, dimensions);
    space.sets.push_back(set->second);
  }
}

}  // namespace

SoapSpace soap_space(const Problem& problem, const AllowedSoapDimensions& dimensions, SoapGranularity granularity) {
  if (problem.graph.micro_batches() > 1)
    throw Error(ExitCode::kUsage,
                fmt::format("searches flexflow and soap plan a step on the whole batch, not in {} micro-batches; leave "
                            "micro-batches out, or take another search, such as auto",
                            problem.graph.micro_batches()));
  const std::vector<DeviceId> devices = slowest_link_first(problem.cluster);
  SoapSpace space{soap_units(problem.graph), {}};
  add_sets(problem.graph, devices, dimensions, space);
  if (granularity == SoapGranularity::kUnit) return space;
  SoapSpace of_ops{units_of_single_ops(problem.graph, space.units), {}};
  add_sets(problem.graph, devices, dimensions, of_ops);
  of_ops.of_units = std::make_shared<const SoapSpace>(std::move(space));
  return of_ops;
}

int64_t number_of(const SoapSet& set, const SoapConfiguration& configuration) {
  const auto degrees = std::ranges::find(set.degrees, configuration.degrees);
  if (degrees == set.degrees.end()) return -1;
  const size_t d = static_cast<size_t>(degrees - set.degrees.begin());
  for (int64_t i = d == 0 ? 0 : set.ends[d - 1]; i < set.ends[d]; ++i)
    if (set.at(i) == configuration) return i;
  return -1;
}

namespace {

int64_t number_like(const SoapSet& set, const SoapConfiguration& c) {
  if (const int64_t number = number_of(set, c); number >= 0) return number;
  int64_t best = 0, least = std::numeric_limits<int64_t>::max();
  for (int64_t i = 0; i < set.size(); ++i) {
    const SoapConfiguration other = set.at(i);
    if (other.devices != c.devices) continue;
    int64_t apart = 0;
    for (size_t d = 0; d < c.degrees.size(); ++d) apart += std::abs(other.degrees[d] - c.degrees[d]);
    if (apart < least) best = i, least = apart;
  }
  return best;
}

}  // namespace

std::vector<std::pair<int, int64_t>> numbers_of_unit(const SoapSpace& space, int unit, const SoapConfiguration& c) {
  const size_t u = static_cast<size_t>(unit);
  if (!space.of_units) return {{unit, std::max<int64_t>(0, number_of(space.sets[u], c))}};
  const SoapUnit& of = space.of_units->units[u];
  std::vector<std::pair<int, int64_t>> numbers;
  for (size_t i = 0; i < of.ops.size(); ++i) {
    const size_t op = of.ops[i].index();
    numbers.emplace_back(static_cast<int>(op),
                         number_like(space.sets[op], configuration_of_op(of, i, space.units[op], c)));
  }
  return numbers;
}

std::vector<int64_t> numbers_of(const SoapSpace& space, const std::vector<SoapConfiguration>& configurations) {
  std::vector<int64_t> numbers(space.units.size(), 0);
  for (size_t u = 0; u < configurations.size(); ++u)
    for (const auto& [unit, number] : numbers_of_unit(space, static_cast<int>(u), configurations[u]))
      numbers[static_cast<size_t>(unit)] = number;
  return numbers;
}

std::vector<SoapConfiguration> configurations_of(const SoapSpace& space, const std::vector<int64_t>& numbers) {
  std::vector<SoapConfiguration> configurations;
  for (size_t u = 0; u < numbers.size(); ++u) configurations.push_back(space.sets[u].at(numbers[u]));
  return configurations;
}

std::vector<const OpFragment*> op_fragments(const Problem& problem, const SoapUnit& unit,
                                            const SoapConfiguration& configuration, UnitChoices& choices,
                                            LocalTasks& tasks) {
  std::vector<const OpFragment*> out;
  const std::vector<OpChoice> chosen = choices.of(unit, configuration);
  for (size_t i = 0; i < chosen.size(); ++i) {
    out.push_back(&tasks.op(unit.ops[i], problem.constraints.choice_or(unit.ops[i], chosen[i])));
  }
  return out;
}

int kept_as_planned(const Problem& problem, TensorId t, const std::vector<const OpFragment*>& ops, LocalTasks& tasks) {
  const Placement* fixed = problem.constraints.kept_of(problem.graph, t);
  return fixed ? tasks.kept(*fixed) : tasks.kept_as_read(t, ops);
}

SoapTasks::SoapTasks(const Problem& problem, const CostModel& cost, const SoapSpace& space, int64_t most_bytes)
    : problem_(problem),
      space_(space),
      tasks_(problem.graph, cost, problem.bucket_bytes),
      most_bytes_(most_bytes),
      choices_(problem.graph, &tasks_.derivations()),
      graph_(tasks_.wired()),
      numbers_(space.units.size(), 0),
      ops_(problem.graph.ops.size()),
      known_(space.units.size()),
      seen_(graph_.wires.size(), 0) {
  for (const SoapUnit& unit : space.units) {
    std::vector<int>& slots = tensors_.emplace_back();
    for (const OpId op : unit.ops) {
      const std::vector<int> of_op = tasks_.tensors_of(op);
      slots.insert(slots.end(), of_op.begin(), of_op.end());
    }
    std::ranges::sort(slots);
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  }
  std::vector<std::pair<int, int64_t>> all;
  for (size_t u = 0; u < space.units.size(); ++u) all.emplace_back(static_cast<int>(u), 0);
  propose(all);
  keep();
}

const std::vector<const OpFragment*>& SoapTasks::ops_of(int unit, int64_t number) {
  const auto [known, fresh] = known_[static_cast<size_t>(unit)].try_emplace(number);
  if (fresh)
    known->second = op_fragments(problem_, space_.units[static_cast<size_t>(unit)],
                                 space_.sets[static_cast<size_t>(unit)].at(number), choices_, tasks_);
  return known->second;
}

void SoapTasks::begin_proposal(const std::vector<std::pair<int, int64_t>>& units) {
  for (const auto& [unit, number] : proposed_) {  // the last proposal, if it was not kept
    const std::vector<const OpFragment*>& ops = ops_of(unit, numbers_[static_cast<size_t>(unit)]);
    for (size_t i = 0; i < ops.size(); ++i) ops_[space_.units[static_cast<size_t>(unit)].ops[i].index()] = ops[i];
  }
  proposed_ = units;
  changes_.clear();
  ++proposals_;
  if (tasks_.bytes() > std::max(most_bytes_, 2 * kept_bytes_) && proposals_ > 1) {
    tasks_.forget_others(ops_);
    kept_bytes_ = tasks_.bytes();
    for (auto& of_unit : known_) of_unit.clear();
  }
}

// Returns the tensors that it may change, each once.
const std::vector<int>& SoapTasks::propose_ops(const std::vector<std::pair<int, int64_t>>& units) {
  for (const auto& [unit, number] : units) {
    const std::vector<const OpFragment*>& ops = ops_of(unit, number);
    for (size_t i = 0; i < ops.size(); ++i) {
      const size_t op = space_.units[static_cast<size_t>(unit)].ops[i].index();
      ops_[op] = ops[i];
      if (graph_.fragments[op] != ops[i]->tasks) changes_.emplace_back(static_cast<int>(op), ops[i]->tasks);
    }
  }
  slots_.clear();
  for (const auto& [unit, number] : units)
    for (const int slot : tensors_[static_cast<size_t>(unit)])
      if (std::exchange(seen_[static_cast<size_t>(slot)], proposals_) != proposals_) slots_.push_back(slot);
  return slots_;
}

const Fragment& SoapTasks::propose_tensor(int slot) {
  const TensorId t(static_cast<size_t>(slot - graph_.op_count));
  const FragmentPtr& fragment = tasks_.tensor(t, kept_as_planned(problem_, t, ops_, tasks_), ops_);
  if (graph_.fragments[static_cast<size_t>(slot)] != fragment) changes_.emplace_back(slot, fragment);
  return *fragment;
}

const SoapTasks::Changes& SoapTasks::propose(const std::vector<std::pair<int, int64_t>>& units) {
  begin_proposal(units);
  for (const int slot : propose_ops(units)) propose_tensor(slot);
  return changes_;
}

const SoapTasks::Changes* SoapTasks::propose_within(const std::vector<std::pair<int, int64_t>>& units,
                                                    int64_t threshold_ns) {
  begin_proposal(units);
  std::vector<int> slots = propose_ops(units);
  const auto bytes = [&](int slot) {
    return problem_.graph.tensor(TensorId(static_cast<size_t>(slot - graph_.op_count))).bytes();
  };
  std::ranges::stable_sort(slots, [&](int a, int b) { return bytes(a) > bytes(b); });
  std::vector<int64_t> load_ns(static_cast<size_t>(graph_.queue_count), 0);
  const auto add = [&](const Fragment& fragment) {
    bool within = true;
    for (const auto& [queue, ns] : fragment.load_ns)
      within &= (load_ns[static_cast<size_t>(queue)] += ns) <= threshold_ns;
    return within;
  };
  bool within = true;
  for (const OpFragment* op : ops_) within &= add(*op->tasks);
  for (size_t slot = static_cast<size_t>(graph_.op_count); slot < graph_.fragments.size(); ++slot)
    if (seen_[slot] != proposals_) within &= add(*graph_.fragments[slot]);
  for (size_t i = 0; i < slots.size() && within; ++i) within = add(propose_tensor(slots[i]));
  return within ? &changes_ : nullptr;
}

void SoapTasks::keep() {
  for (const auto& [slot, fragment] : changes_) graph_.fragments[static_cast<size_t>(slot)] = fragment;
  for (const auto& [unit, number] : proposed_) numbers_[static_cast<size_t>(unit)] = number;
  changes_.clear();
  proposed_.clear();
}

std::vector<int64_t> SoapTasks::most_bytes() const {
  std::vector<int64_t> bytes(problem_.cluster.devices.size(), 0);
  std::vector<const Fragment*> fragments;
  for (const FragmentPtr& fragment : graph_.fragments) fragments.push_back(fragment.get());
  for (const auto& [slot, fragment] : changes_) fragments[static_cast<size_t>(slot)] = fragment.get();
  for (const Fragment* fragment : fragments)
    for (const auto& [device, count] : fragment->bytes) bytes[static_cast<size_t>(device)] += count;
  return bytes;
}

Plan SoapTasks::plan(const std::vector<int64_t>& numbers, std::string_view search) const {
  return soap_plan(problem_.graph, problem_.cluster, space_.units, configurations_of(space_, numbers), search,
                   problem_.constraints);
}

}  // namespace partita
