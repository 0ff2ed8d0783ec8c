// Computes the certain part of the simulated time of every plan of the SOAP space, for the bound (bound.h). It is in
// terms of one or two units.
//
// Loads. A fragment of the local task graph holds each of its queues while its tasks run there. Queues of one kind (all
// compute queues, links of one level in one direction) are taken together. An op's load depends on its unit. A tensor's
// load depends on the unit that makes or keeps it and on those that read it. The load of conversions for its own unit
// is certain. With m other units, the load for one of them is certain as far as its own unit does not need the same.
// 1/m of that, summed over all of them, is no more than the tensor's load.
//
// Paths. A task that reads a tensor waits for one that makes it. So it begins no earlier than the first producing task
// ends and the conversion is done: step_ns() through an op, edge_ns() through a tensor. These add up along any path of
// ops.
//
// Classes. A unit's configurations with equal degrees on equally many nodes are one class. A term of two classes is the
// least over all their device lists.
//
// Worked example: two layers on 2 devices. Let the first be split along samples and the second along outputs, on any
// devices. Then both gather the first's result, which takes 3 us on the queue of each device's collectives. So the load
// of that kind is 6 us, and an edge through the tensor takes 3 us.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/search/soap/unit_tasks.h"

namespace partita {

// A class of a unit's configurations.
struct SoapClass {
  std::vector<int> degrees;
  int nodes = 0;
  std::vector<int64_t> numbers;  // configurations of the set
};
std::vector<SoapClass> classes_of(const SoapSet& set, const Cluster& cluster);

struct LoadKind {
  std::string name;
  int queues = 0;
};

using KindLoads = std::vector<int64_t>;  // ns by kind, of all its queues

// A tensor between two units.
struct SoapShared {
  TensorId tensor;
  int a = 0, b = 0;                         // it is made or kept by a, and read by b
  int of = 1;                               // units that read it, without a
  std::vector<std::pair<OpId, int>> edges;  // ops of b that read it, and operands; for results and inputs
};
// The loads and edges of a shared tensor for some device lists of its two classes.
struct SoapPiece {
  KindLoads loads;                // beyond those of a alone
  std::vector<int64_t> edges_ns;  // as SoapShared::edges
  auto operator<=>(const SoapPiece&) const = default;
};

class SoapParts {
 public:
  SoapParts(const Problem& problem, const CostModel& cost, const SoapSpace& space);
  ~SoapParts();

  const std::vector<LoadKind>& kinds() const;
  int kind_of(int queue) const;  // of the local task graph
  const std::vector<SoapClass>& classes(int unit) const;
  int unit_of(OpId op) const;
  int producer_unit_of(TensorId t) const;  // the unit that makes or keeps it; -1: nobody reads it

  // The fragments of a unit's ops; and a tensor's fragment for the non-null ops.
  const std::vector<const OpFragment*>& ops(int unit, int64_t number);
  FragmentPtr tensor(TensorId t, const std::vector<const OpFragment*>& ops);
  const TaskGraph& wired() const;

  // The load of one unit in a configuration: its ops, and tensors for it alone.
  const KindLoads& own(int unit, int64_t number);
  // The least time from the begin of the first task that reads the operand to the end of the first that writes the
  // result. Operand -1: from the op's first tasks. -1: it may write without having read.
  int64_t step_ns(OpId op, int64_t number, int operand, int result);
  // The least time from the end of the tensor's producer to the read, inside one unit. -1: it is no such tensor, or
  // some reading task may not wait for it.
  int64_t edge_ns(OpId op, int64_t number, int operand);
  // Tells whether every task that reads the operand waits for its producer, in any configurations. True for inputs that
  // paths may begin with: their edges are from the beginning of the step.
  bool waits(OpId op, int operand);

  const std::vector<SoapShared>& shared_tensors() const;
  // The distinct pieces for all device lists of the two classes.
  const std::vector<SoapPiece>& pieces(size_t shared, int class_a, int class_b);
  bool known(size_t shared, int class_a, int class_b) const;
  int64_t between() const;  // fragments made for pieces so far

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace partita
