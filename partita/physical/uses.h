// Defines nodes and the uses of registers (docs/inside/PHYSICAL.md section 1), for all passes.
//
// Example: with 2 micro-batches, x writes register r (2 uses) and y reads it. The nodes are x#0, x#1, y#0, y#1, and
// uses[r] = {number 0: writers {x#0}, readers {y#0}}, {number 1: writers {x#1}, readers {y#1}}. If y fired once a step,
// it would read both uses.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// Nodes by dense numbers: the firings of a task are consecutive, the participants of a collective share theirs.
struct NodeTable {
  std::vector<Node> nodes;                   // by number; a collective is named by its participant of the lowest TaskId
  std::vector<int> first;                    // by TaskId: the number of its firing 0
  std::vector<std::vector<TaskId>> members;  // by number: the participants of a collective, or one task
  int size() const { return static_cast<int>(nodes.size()); }
  int number(TaskId task, int firing) const { return first[task.index()] + firing; }
  int number(const Node& node) const { return number(node.task, node.firing); }
};
NodeTable number_nodes(const PhysicalGraph& graph);
// Returns the node of (task, firing), without a table.
Node node_of(const PhysicalGraph& graph, TaskId task, int firing);
// Returns places in `order` by node number. Bad input if `order` is not each node once.
std::vector<int> places(const PhysicalGraph& graph, const NodeTable& table);
// "mm@0", or "mm@0#2" if the task fires several times.
std::string to_string(const PhysicalGraph& graph, const Node& node);

struct Use {
  RegisterId reg;
  int number = 0;                          // 0 .. uses-1; of a carried register 0 is `old`, 1 is `new`
  std::span<const Node> writers, readers;  // as nodes, ascending; a task that uses scratch is writer and reader
};
// The uses that one firing of a task touches: numbers [first, last). A task that fires once a step reads all.
struct UseRange {
  int first = 0, last = 0;
};
// `is_new`: the task writes, or reads what this step wrote.
UseRange uses_of(const Register& reg, int rate, int firing, bool is_new);

// Every use of every register: uses[register][number]. There are tens of thousands, each with a node or two, so all
// nodes lie in one list.
class Uses {
 public:
  Uses(const PhysicalGraph& graph, const NodeTable& table);
  Uses(Uses&&) = default;
  std::size_t size() const { return first_.size() - 1; }  // registers
  const std::vector<Use>& all() const { return uses_; }
  std::span<const Use> operator[](std::size_t reg) const {
    return {uses_.data() + first_[reg], first_[reg + 1] - first_[reg]};
  }

 private:
  std::vector<Node> nodes_;
  std::vector<Use> uses_;
  std::vector<std::size_t> first_;  // by register: its first use
};

}  // namespace partita
