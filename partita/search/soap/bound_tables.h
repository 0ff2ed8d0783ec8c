// What is certain to be in the simulated time of every plan of the SOAP space, in parts that depend on one unit or on
// two: what its bound is made of (bound.h).
//
// Loads. A fragment of the local task graph holds each of its queues for as long as its tasks take there. Queues of one
// kind (all compute queues, links of one level in one direction) are taken together. What an op holds depends on its
// unit. What a tensor holds depends on the unit that makes or keeps it and on those that read it: what the conversions
// for its own unit hold is certain; of m other units, those for one of them are certain as far as its own unit does not
// need the same, and 1/m of that, summed over all of them, is no more than what the tensor holds.
//
// Paths. A task that reads a tensor waits for one that makes it. So it begins no earlier than the first of those that
// make it ends, and the conversion between takes: step_ns() through an op, edge_ns() through a tensor. These add up
// along any path of ops.
//
// Classes. A unit's configurations with equal degrees on equally many nodes are one class. Of two classes, a part is
// the least of all device lists that they have.
//
// Worked example: two layers on 2 devices. Where the first is split along samples and the second along outputs,
// whatever the devices are, what the first makes is gathered by both, which takes 3 us on the queue of each device's
// collectives. So the load of that kind is 6 us, and an edge through the tensor takes 3 us.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/search/soap/unit_tasks.h"

namespace partita {

// Of a unit.
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
  int of = 1;                               // units that read it, a left out
  std::vector<std::pair<OpId, int>> edges;  // ops of b that read it, and operands; of what ops make, and of inputs
};
// For some device lists of its two classes.
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
  int base_of(TensorId t) const;  // the unit that makes or keeps it; -1: nobody reads it

  // The fragments of a unit's ops; and of a tensor as far as the ops are concerned that are not null.
  const std::vector<const OpFragment*>& ops(int unit, int64_t number);
  FragmentPtr tensor(TensorId t, const std::vector<const OpFragment*>& ops);
  const TaskGraph& wired() const;

  // Of one unit in a configuration: its ops, and tensors as far as it alone is concerned.
  const KindLoads& own(int unit, int64_t number);
  // The least time from when the first task that reads the operand begins to when the first that writes the result
  // ends. Operand -1: from the op's first tasks. -1: it may write without having read.
  int64_t step_ns(OpId op, int64_t number, int operand, int result);
  // The same from when the tensor's maker ends to when the operand is read, inside one unit. -1: it is no such tensor,
  // or it may be read by what does not wait for it.
  int64_t edge_ns(OpId op, int64_t number, int operand);
  // Whether every task that reads the operand waits for the op that makes it, whatever the units do. Of inputs, which
  // paths may begin with: their edges are from the beginning of the step.
  bool waits(OpId op, int operand);

  const std::vector<SoapShared>& shared() const;
  // Different ones, for all lists of the two classes.
  const std::vector<SoapPiece>& pieces(size_t shared, int class_a, int class_b);
  bool known(size_t shared, int class_a, int class_b) const;
  int64_t between() const;  // fragments made for pieces so far

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace partita
