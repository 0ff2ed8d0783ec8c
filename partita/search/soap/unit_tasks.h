// Keeps the local task graph of a plan of the SOAP space (partita/task_graph/task_graph.h), for searches that change it
// a unit at a time.
//
// Worked example: a dense layer goes from samples over 4 devices to units over 2. propose({{1, 17}}) returns the
// fragments that change. They are of its ops, of tensors that these make and read, and of its weights, gradients and
// states, whose kept layouts follow. keep() takes the proposal over; without it the next one starts from the same plan.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "partita/search/search.h"
#include "partita/search/soap/units_of_ops.h"
#include "partita/task_graph/local_tasks.h"

namespace partita {

// The space of a search: units, and the set of each.
struct SoapSpace {
  std::vector<SoapUnit> units;
  std::vector<SoapSet> sets;
  std::shared_ptr<const SoapSpace> of_units = nullptr;  // if each op is a unit of its own: the space of whole units

  // The space that makes initial plans.
  const SoapSpace& whole() const { return of_units ? *of_units : *this; }
};
SoapSpace soap_space(const Problem& problem, const AllowedSoapDimensions& dimensions,
                     SoapGranularity granularity = SoapGranularity::kUnit);
// Returns the number of a configuration in a set; -1: it is not there.
int64_t number_of(const SoapSet& set, const SoapConfiguration& configuration);
// Converts a plan of whole() units to numbers, by unit of the space. A configuration that is not in its set becomes the
// one of as many devices that is most like it, or the set's first.
std::vector<int64_t> numbers_of(const SoapSpace& space, const std::vector<SoapConfiguration>& configurations);
// Converts the configuration of one of whole() units: by unit of the space.
std::vector<std::pair<int, int64_t>> numbers_of_unit(const SoapSpace& space, int unit, const SoapConfiguration& c);
std::vector<SoapConfiguration> configurations_of(const SoapSpace& space, const std::vector<int64_t>& numbers);

// Returns the fragments of a unit's ops in a configuration, one an op, with pins kept.
std::vector<const OpFragment*> op_fragments(const Problem& problem, const SoapUnit& unit,
                                            const SoapConfiguration& configuration, UnitChoices& choices,
                                            LocalTasks& tasks);
// Returns the kept layout that soap_plan() gives a tensor whose ops have these fragments: a number of LocalTasks.
int kept_as_planned(const Problem& problem, TensorId t, const std::vector<const OpFragment*>& ops, LocalTasks& tasks);

class SoapTasks {
 public:
  using Changes = std::vector<std::pair<int, FragmentPtr>>;  // by slot, each once

  static constexpr int64_t kMostBytes = int64_t{1} << 30;

  // Begins with the first configuration of each set. Forgets fragments of other plans when all take more than
  // `most_bytes`.
  SoapTasks(const Problem& problem, const CostModel& cost, const SoapSpace& space, int64_t most_bytes = kMostBytes);

  // Proposes these configurations for these units. Returns the changes against the current plan.
  const Changes& propose(const std::vector<std::pair<int, int64_t>>& units);
  // The same, but nothing if a queue has more work than the threshold; then it cannot be kept. The largest tensors are
  // looked at first, so that the others need not be made.
  const Changes* propose_within(const std::vector<std::pair<int, int64_t>>& units, int64_t threshold_ns);
  // Makes the proposed plan the current one.
  void keep();
  const TaskGraph& graph() const { return graph_; }                 // of the current plan
  const std::vector<int64_t>& numbers() const { return numbers_; }  // by unit
  // Returns an upper bound of each device's bytes in the proposed plan: as if no two registers shared any.
  std::vector<int64_t> most_bytes() const;
  Plan plan(const std::vector<int64_t>& numbers, std::string_view search) const;

  int64_t bytes() const { return tasks_.bytes(); }  // that fragments take, about
  const LocalTasks::Counters& counters() const { return tasks_.counters(); }

 private:
  const std::vector<const OpFragment*>& ops_of(int unit, int64_t number);
  void begin_proposal(const std::vector<std::pair<int, int64_t>>& units);
  const std::vector<int>& propose_ops(const std::vector<std::pair<int, int64_t>>& units);
  const Fragment& propose_tensor(int slot);

  const Problem& problem_;
  const SoapSpace& space_;
  LocalTasks tasks_;
  const int64_t most_bytes_;
  int64_t kept_bytes_ = 0;  // bytes when others were forgotten last
  UnitChoices choices_;
  TaskGraph graph_;
  std::vector<int64_t> numbers_;
  std::vector<const OpFragment*> ops_;                                    // of the proposal
  std::vector<std::vector<int>> tensors_;                                 // by unit: slots that a move of it may change
  std::vector<std::map<int64_t, std::vector<const OpFragment*>>> known_;  // by unit
  std::vector<std::pair<int, int64_t>> proposed_;
  std::vector<int> seen_;  // by slot: the last proposal that met it
  int proposals_ = 0;
  std::vector<int> slots_;  // tensors that the proposal may change
  Changes changes_;
};

}  // namespace partita
