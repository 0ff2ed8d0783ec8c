// Lowers a plan once, and makes its orders from that.
#include "partita/schedule/orders.h"

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/cluster/group.h"
#include "partita/cluster/memory_deficit.h"
#include "partita/physical/bundle.h"
#include "partita/physical/inter_op_parallelism.h"
#include "partita/physical/lower_local.h"
#include "partita/physical/passes.h"
#include "partita/physical/transfer_turns.h"
#include "partita/schedule/overlap_budget.h"

namespace partita {

namespace {

constexpr char kWhere[] = "while a plan was lowered";

LocallyLowered before_order(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const Watch& watch) {
  LocallyLowered lowered = lower_local(graph, resolved, cluster, watch);
  if (resolved.smaller)
    merge_micro_batches(lowered, lower_local(resolved.smaller->graph, resolved.smaller->resolved, cluster, watch),
                        graph);
  size_constants(lowered, graph);
  // Buckets come before the order, which follows from them.
  bundle_collectives(lowered, resolved.bucket_bytes, resolved.order,
                     [&](const std::vector<DeviceId>& group) { return bytes_worth_hops(cluster, group); });
  return lowered;
}

LowerOptions of_plan(LowerOptions options, const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                     const PhysicalGraph& physical) {
  options.schedule = resolved.pipeline.schedule;
  options.virtual_stages = resolved.pipeline.virtual_stages;
  if (resolved.order.empty()) return options;
  ensure(resolved.order.size() == graph.ops.size(), "an order of {} of {} ops", resolved.order.size(),
         graph.ops.size());
  options.op_places.resize(graph.ops.size());
  for (size_t i = 0; i < resolved.order.size(); ++i) options.op_places[resolved.order[i].index()] = static_cast<int>(i);
  if (!resolved.transfers || resolved.device_mask) return options;
  options.transfer_places = transfer_places(graph, physical, *resolved.transfers);
  // A search has made such a plan for the devices' memory. The least memory of other plans does not depend on it.
  for (int d = 0; d < physical.compute_count; ++d)
    options.enough_bytes.push_back(cluster.devices[static_cast<size_t>(d)].memory_bytes);
  return options;
}

bool has_transfers_between_stages(Schedule schedule) {
  return schedule == Schedule::k1F1B || schedule == Schedule::kInterleaved;
}

std::vector<OrderVariant> variants_of(const PeakTimes& times, Schedule schedule, bool inter_op) {
  std::vector<OrderVariant> variants{{}};
  const bool overlaps = may_overlap(times) && schedule != Schedule::kGpipe;
  if (overlaps) {
    for (const double fraction : {1.0 / 256, 1.0 / 64, 1.0 / 16, 1.0}) variants.push_back({fraction, false, 0});
    if (has_transfers_between_stages(schedule)) variants.push_back({1, true, 0});
    if (schedule == Schedule::k1F1B) variants.push_back({1, true, 1});
  }
  if (inter_op) {
    variants.push_back({.by_time = true});
    variants.push_back({overlaps ? 1.0 : 0.0, false, 0, true});
  }
  return variants;
}

}  // namespace

int64_t bytes_worth_hops(const Cluster& cluster, const std::vector<DeviceId>& group) {
  constexpr double kTimes = 4, kMostBytes = 512 << 20;
  const RingTime ring = ring_time(cluster, group);
  return ring.a_byte_s > 0 ? static_cast<int64_t>(std::min(kMostBytes, kTimes * ring.hops_s / ring.a_byte_s)) : 0;
}

Orders::Orders(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const LowerOptions& options)
    : graph_(graph),
      cluster_(cluster),
      some_devices_(resolved.device_mask != nullptr),
      share_bytes_(options.share_bytes),
      lowered_(before_order(graph, resolved, cluster, options.watch)),
      options_(of_plan(options, graph, resolved, cluster, lowered_.graph)),
      table_(number_nodes(lowered_.graph)),
      uses_(lowered_.graph, table_),
      times_(peak_times(lowered_.graph, cluster, has_transfers_between_stages(options_.schedule))),
      variants_(variants_of(times_, options_.schedule, has_inter_op_parallelism(graph, resolved.ops))),
      known_(variants_.size()) {}

std::optional<size_t> Orders::by_time() const {
  for (size_t i = 0; i < variants_.size(); ++i)
    if (variants_[i].by_time) return i;
  return std::nullopt;
}

std::optional<size_t> Orders::wants_times() const {
  return by_time() && !times_of_apart_.known() ? std::optional(variants_.size() - 1) : std::nullopt;
}

void Orders::plan(size_t i) {
  PhysicalGraph& physical = lowered_.graph;
  const OrderVariant& variant = variants_[i];
  options_.watch.poll(kWhere);
  physical.edges.clear();  // those of another order
  options_.start_places.clear();
  options_.gathers_ahead.clear();
  options_.held = nullptr;
  if (variant.fraction > 0)
    set_overlap_budget(options_, overlap_budget(physical, times_, variant.fraction, options_.op_places));
  options_.transfer_slack = variant.transfer_slack;
  options_.more_in_flight = variant.more_in_flight;
  options_.share_bytes = share_bytes_ && !variant.apart;
  ensure(!variant.by_time || times_of_apart_.known(), "an order by time is asked for before the times are known");
  if (variant.by_time) set_times(options_, times_of_apart_);
  make_order(physical, table_, uses_, options_);
  options_.watch.poll(kWhere);
  make_counts(physical, table_, uses_, options_);  // after the order, whose intervals it counts
  plan_memory(physical, table_, uses_, options_);  // after the counts: slots have sizes
}

Orders::Decided Orders::decided() {
  PhysicalGraph& physical = lowered_.graph;
  Decided out{std::move(physical.order), {}, {}, std::move(physical.peak_bytes), {}};
  for (const Edge& edge : physical.edges)
    if (edge.kind == EdgeKind::kPlan) out.control_edges.push_back(edge);
  for (const Register& reg : physical.registers) {
    out.counts.push_back(reg.count);
    out.offsets.push_back(reg.offset);
  }
  return out;
}

void Orders::put(Decided decided) {
  PhysicalGraph& physical = lowered_.graph;
  physical.order = std::move(decided.order);
  physical.peak_bytes = std::move(decided.peak_bytes);
  physical.edges = std::move(decided.control_edges);
  has_edges_ = false;
  for (size_t r = 0; r < physical.registers.size(); ++r) {
    physical.registers[r].count = decided.counts[r];
    physical.registers[r].offset = decided.offsets[r];
  }
}

void Orders::show(size_t i) {
  if (shown_ == i) return;
  if (shown_) known_[*shown_] = decided();
  shown_ = i;
  if (known_[i]) return put(std::move(*known_[i]));
  has_edges_ = false;
  plan(i);
}

const PhysicalGraph& Orders::planned(size_t i) {
  show(i);
  return lowered_.graph;
}

bool Orders::fits(size_t i) { return memory_deficit(planned(i).peak_bytes, cluster_).fits(); }

bool Orders::alike(size_t i, size_t k) {
  if (i == k) return true;
  show(i);
  show(k);
  const Decided& other = *known_[i];
  const PhysicalGraph& physical = lowered_.graph;
  if (physical.order != other.order) return false;
  for (size_t r = 0; r < physical.registers.size(); ++r)
    if (physical.registers[r].count != other.counts[r] || physical.registers[r].offset != other.offsets[r])
      return false;
  return true;
}

const PhysicalGraph& Orders::with_edges(size_t i) {
  show(i);
  if (!has_edges_)
    make_edges(lowered_.graph, table_, uses_, options_.watch);  // after memory: who follows on whose bytes
  has_edges_ = true;
  return lowered_.graph;
}

PhysicalGraph Orders::taken(size_t i) {
  show(i);
  return std::move(lowered_.graph);
}

PhysicalGraph Orders::lowered(size_t i) {
  with_edges(i);
  if (!some_devices_) leave_out_implied(lowered_.graph, table_, options_.watch);
  spread_over_micro_batches(lowered_, graph_);
  PhysicalGraph physical = std::move(lowered_.graph);
  if (some_devices_) return physical;
  if (const auto why = refuse(physical, options_.watch))
    fail("plan for '{}' on '{}' is refused: {}", graph_.name, cluster_.name, *why);
  return physical;
}

}  // namespace partita
