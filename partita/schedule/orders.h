// Makes the orders of a lowered plan, each with a larger overlap budget than the one before (docs/inside/PHYSICAL.md
// section 4). choose_order.h picks one of them.
//
// Example: a data-parallel step. In order 0, the tightest, what a reduction reads is free as soon as it stands in the
// order, and kernels behind it wait; it takes 28 GB. In the last, the fullest, the bytes are its own until the
// reduction is thought to be over; it takes 60 GB. A limit of 30 GB leaves the orders that take less.
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
  double part = 0;  // of the kernels of a micro-batch: overlap_budget.h
  bool transfer_slack = false;
  int more_in_flight = 0;
  bool apart = false;    // no two registers share bytes
  bool by_time = false;  // as where they are apart (by_time.h)
};

// What does not depend on the order is made once.
class Orders {
 public:
  Orders(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const LowerOptions& options = {});

  // One if nothing may overlap, and if each micro-batch adds memory: a few of them do not tell whether all fit.
  size_t size() const { return variants_.size(); }
  // The order whose simulation has to be known before some other is asked for: that in which registers are apart, of a
  // plan with operations beside each other. None: there is no such.
  std::optional<size_t> wants_times() const;
  std::optional<size_t> by_time() const;  // that other one
  void take_times(const std::vector<Event>& events) { times_of_apart_ = node_times(table_, events); }
  // Its order, counts and memory; boxes are those of one part (spread_micro_batches.h).
  const PhysicalGraph& planned(size_t i);
  // Whether every device's memory holds it.
  bool fits(size_t i);
  // Whether two orders are the same in all that they decide.
  bool alike(size_t i, size_t k);
  // With edges, those that a path implies among them: it can be simulated.
  const PhysicalGraph& with_edges(size_t i);
  // Nothing else is asked for after these. planned(i) as it is:
  PhysicalGraph taken(size_t i);
  // With edges, and all firings at their places in the batch. Where all devices are lowered, without edges that are
  // implied, and admitted; bad input where that is refused.
  PhysicalGraph lowered(size_t i);

 private:
  // What an order decides of the graph.
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
  NodeTimes times_of_apart_;  // of a plan with operations beside each other
  std::vector<OrderVariant> variants_;
  std::vector<std::optional<Decided>> known_;  // by order
  std::optional<size_t> shown_;                // whose decisions the graph has
  bool has_edges_ = false;                     // and their edges
};

}  // namespace partita
