// Makes the orders of a lowered plan, each with a larger overlap budget than the one before (docs/inside/PHYSICAL.md
// section 4). choose_order.h picks one of them.
//
// Example: a data-parallel step. In order 0, the tightest, a reduction's operand is free as soon as the reduction
// stands in the order, and kernels behind it wait. It takes 28 GB. In the last, the fullest, the bytes are held until
// the reduction's estimated end. It takes 60 GB. A limit of 30 GB leaves the orders that take less.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "partita/cost/peak_times.h"
#include "partita/physical/passes.h"
#include "partita/physical/spread_micro_batches.h"
#include "partita/plan/resolve.h"
#include "partita/schedule/by_time.h"

namespace partita {

// The overlap that an order leaves to communication.
struct OrderVariant {
  double fraction = 0;  // of the kernels of a micro-batch: overlap_budget.h
  bool transfer_slack = false;
  int more_in_flight = 0;
  bool apart = false;    // no two registers share bytes
  bool by_time = false;  // by the times of the order in which they are apart (by_time.h)
};

// Gathers of weights ahead of their readers are joined until their bytes take several times as long on the links as the
// hops of the ring. They are then so large a share of a model's memory that more would not pay. 0: each by itself.
int64_t bytes_worth_hops(const Cluster& cluster, const std::vector<DeviceId>& group);

// Makes once what does not depend on the order.
class Orders {
 public:
  Orders(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const LowerOptions& options = {});

  // One if nothing may overlap, and if each micro-batch adds memory: a few of them do not show whether all fit.
  size_t size() const { return variants_.size(); }
  // The order that must be simulated before the order by time is made. It is the one in which registers are apart, of a
  // plan with inter-op parallelism. None: there is no such order.
  std::optional<size_t> wants_times() const;
  std::optional<size_t> by_time() const;  // the order by time
  void take_times(const std::vector<Event>& events) { times_of_apart_ = node_times(table_, events); }
  // Makes its order, counts and memory; boxes are those of one micro-batch (spread_micro_batches.h).
  const PhysicalGraph& planned(size_t i);
  // Tells whether every device's memory holds it.
  bool fits(size_t i);
  // Tells whether two orders are the same in all their decisions.
  bool alike(size_t i, size_t k);
  // Adds edges, implied ones too: it can be simulated.
  const PhysicalGraph& with_edges(size_t i);
  // These two end the object's use. Returns planned(i) as it is:
  PhysicalGraph taken(size_t i);
  // Returns the order with edges, and all firings at their places in the batch. If all devices are lowered, it is
  // without implied edges, and admitted; bad input if that is refused.
  PhysicalGraph lowered(size_t i);

 private:
  // The decisions of an order about the graph.
  struct Decided {
    std::vector<Node> order;
    std::vector<int> counts;
    std::vector<int64_t> offsets, peak_bytes;  // by register, by device
    std::vector<Edge> control_edges;
  };
  void plan(size_t i);
  void show(size_t i);
  Decided decided();
  void put(Decided decided);

  const Graph& graph_;
  const Cluster& cluster_;
  const bool some_devices_;
  const bool share_bytes_;  // the options'
  LocallyLowered lowered_;
  LowerOptions options_;
  NodeTable table_;
  Uses uses_;
  PeakTimes times_;
  NodeTimes times_of_apart_;  // of a plan with inter-op parallelism
  std::vector<OrderVariant> variants_;
  std::vector<std::optional<Decided>> known_;  // by order
  std::optional<size_t> shown_;                // whose decisions the graph has
  bool has_edges_ = false;                     // and their edges
};

}  // namespace partita
