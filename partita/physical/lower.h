// Lowering: local (the tasks of an op, the conversions of a tensor: a pure function of the choices on them), then
// global (order, counts, memory, edges, admission; docs/PHYSICAL.md).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partita/base/watch.h"
#include "partita/physical/physical.h"
#include "partita/plan/plan.h"

namespace partita {

// Which micro-batch a stage takes next (section 2). kDefault: forward and backward of one, then of the next.
enum class Schedule { kDefault, kGpipe, k1F1B };

struct LowerOptions {
  bool share_bytes = true;  // false: no two registers share bytes
  // Tofu section 6: a parameter's update waits for nothing and stands as soon as its gradient is whole; transfers just
  // before their first reader. false, for comparison: updates after everything else, transfers as soon as they are
  // ready.
  bool control_edges = true;
  Schedule schedule = Schedule::kDefault;  // of micro-batches
  std::vector<int>
      op_places;  // by OpId, of a plan that gives the order; empty: the graph's, and updates and stages as above
  bool transfer_slack = false;  // one count more for registers on either side of a transfer (section 3)
  Watch watch;                  // throws where that ends
};

// Bad input where that is too large.
PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options = {});
// An op is a task, or some, on each of so many devices that they can neither be held nor simulated. Then what typical
// devices need of memory is what there is to tell: the first, one in the middle, and the last, whose part of every
// split is the largest.
bool is_too_large_to_lower(const Graph& graph, const Cluster& cluster);
std::vector<DeviceId> typical_devices(const Cluster& cluster);
// By how many bytes the compute device that lacks most would be over its memory, of typical ones where all are too
// many; at most 0: the plan fits.
int64_t missing_bytes(const Graph& graph, const Plan& plan, const Cluster& cluster, const Watch& watch = {});
// What lower() makes, without making edges and asking for admission: for searches. Of `devices` and
// their hosts alone, if there are such: then nothing else is lowered, and of what others fetch from them it is not
// known just how long it stays: it is reckoned to do so until the operation that it is fetched for.
// (tests/golden/some_devices_test.cc says how far off that is.)
PhysicalGraph planned_memory(const Graph& graph, const Plan& plan, const Cluster& cluster,
                             const std::vector<DeviceId>& devices = {}, const Watch& watch = {});
// Its peak_bytes, by device.
std::vector<int64_t> planned_peak_bytes(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                        const std::vector<DeviceId>& devices = {}, const Watch& watch = {});

struct NodeTable;
class Uses;

// The passes, in order; each takes what the one before left. Nodes and uses are those of the graph's tasks, which no
// pass but the first changes.
PhysicalGraph lower_local(const Graph& graph, const Plan& plan, const Cluster& cluster, const Listed& devices = nullptr,
                          const Watch& watch = {});
void make_order(PhysicalGraph& graph, const NodeTable& table, const Uses& uses,
                const LowerOptions& options = {});  // section 2: fills `order`
void make_counts(PhysicalGraph& graph, const NodeTable& table, const Uses& uses,
                 const LowerOptions& options = {});  // section 3: `count`
void plan_memory(PhysicalGraph& graph, const NodeTable& table, const Uses& uses,
                 const LowerOptions& options = {});  // section 4: `offset`, `peak_bytes`
// The same, with the nodes and uses found for the one pass.
void make_order(PhysicalGraph& graph, const LowerOptions& options = {});
void make_counts(PhysicalGraph& graph, const LowerOptions& options = {});
void plan_memory(PhysicalGraph& graph, const LowerOptions& options = {});
void make_edges(PhysicalGraph& graph, const Watch& watch = {});  // section 5: `edges`, without implied ones

// Where a step's inputs are loaded, and its outputs given: an input whole on every host that feeds a device of its
// home's mesh, an output whole on the host of that mesh's first device; over the home's factoring.
Layout layout_on_hosts(const Layout& home, const Cluster& cluster);
Layout layout_on_first_host(const Layout& home, const Cluster& cluster);

// Section 6. Empty: admitted. Else the reason, naming the edge and the cycle. Shares no code with make_edges.
std::optional<std::string> refuse(const PhysicalGraph& graph, const Watch& watch = {});
// refuse(), and the capacity of each device. Throws bad input, or infeasible with what is missing.
void admit(const PhysicalGraph& graph, const Cluster& cluster);
// The capacity alone: lower() has asked refuse() already.
void check_capacity(const PhysicalGraph& graph, const Cluster& cluster);

// ---------------------------------------------------------------- uses (section 1), shared by the passes

struct Use {
  RegisterId reg;
  int number = 0;                          // 0 .. uses-1; of a carried register 0 is `old`, 1 is `new`
  std::span<const Node> writers, readers;  // as nodes, ascending; a task that uses scratch is writer and reader
};
// Which uses act `act` of a task of that rate touches: numbers [first, last). A task that acts once a step reads all.
struct UseRange {
  int first = 0, last = 0;
};
UseRange uses_of(const Register& reg, int rate, int act, bool is_new);  // is_new: writes, or reads what this step wrote

// Nodes by dense numbers: the acts of a task are consecutive, the participants of a collective share theirs.
struct NodeTable {
  std::vector<Node> nodes;                   // by number; a collective is named by its participant of the lowest TaskId
  std::vector<int> first;                    // by TaskId: the number of its act 0
  std::vector<std::vector<TaskId>> members;  // by number: the participants of a collective, or the task alone
  int size() const { return static_cast<int>(nodes.size()); }
  int number(TaskId task, int act) const { return first[task.index()] + act; }
  int number(const Node& node) const { return number(node.task, node.act); }
};
NodeTable number_nodes(const PhysicalGraph& graph);

// Every use of every register: uses[register][number]. There are tens of thousands, of a node or two: all nodes lie in
// one list.
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
// The node of (task, act), without a table.
Node node_of(const PhysicalGraph& graph, TaskId task, int act);
// Places in `order` by node number. Bad input if `order` is not each node once.
std::vector<int> places(const PhysicalGraph& graph, const NodeTable& table);
std::string to_string(const PhysicalGraph& graph,
                      const Node& node);  // "mm@0", "mm@0#2" where the task acts several times

}  // namespace partita
