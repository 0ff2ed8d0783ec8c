// Computes isolated costs: the time of conversions and operations when nothing else runs, for searches that cost a plan
// piece by piece. The formulas are the simulator's (cost.h). Steps of a conversion run one after another. A simulated
// step of a plan differs from the sum: independent tasks overlap, and tasks that share a link or a queue wait.
//
// Example: S(0) -> B of 64 MB on 2 devices is one all-gather; each sends its 32 MB in p-1 = 1 round. With links of
// 8 GB/s and 5 us that takes 5 us + 4 ms.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/cost/step_time.h"
#include "partita/graph/graph.h"
#include "partita/plan/resolve.h"
#include "partita/sharding/boxing.h"

namespace partita {

// Returns the same layout over as few factors an axis as possible. Layouts that place alike are then equal.
Layout coarse(const Layout& layout);

// Times of conversions in ns, with a cache. Two layouts are looked at once, and once for all shapes that differ only in
// the length of their evenly split axes. The path is convert()'s, which moves the fewest bytes, between layouts over as
// few factors as possible. Lowering may have to fetch instead if a reader sees an unevenly split axis in factors. Not
// thread-safe.
class ConversionTimes {
 public:
  explicit ConversionTimes(const Cluster& cluster);
  int64_t ns(const Layout& from, const Layout& to, int64_t element_bytes);
  // Returns the times from each of `from` to each of `to`, places in `layouts`: row-major.
  std::vector<int64_t> table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                             const std::vector<int>& to, int64_t element_bytes);
  // The time of a strategy's own inner steps, one after another.
  int64_t inner_ns(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element_bytes);
  // The time of an input from its hosts into its kept layout, and of an output from there to its host.
  int64_t load_ns(const Layout& kept_layout, int64_t element_bytes) const;
  int64_t give_ns(const Layout& kept_layout, int64_t element_bytes) const;

 private:
  // For elements of one byte. Steps whose time is no single Duration are kept apart.
  struct Time {
    Duration line;
    std::vector<std::shared_ptr<const StepTime>> steps;
    int64_t ns(double scale) const;
  };
  int64_t with_hosts_ns(const Layout& from, const Layout& to, int64_t element_bytes) const;
  const Time& time(int from, int to);
  std::shared_ptr<const StepTime> step(int from, int to);

  CostModel cost_;
  Converter converter_;
  std::unordered_map<uint64_t, Time> times_;  // by two of the converter's numbers
  std::unordered_map<uint64_t, std::shared_ptr<const StepTime>> steps_;
};

// Sums a plan's isolated costs: kernels, inner steps, conversions, inputs from their hosts, outputs to theirs.
int64_t serial_ns(const Graph& graph, const Resolved& resolved, const Cluster& cluster);
// The same for a plan that is resolved for nothing else. Bad input if a choice does not exist.
int64_t serial_ns(const Graph& graph, const Plan& plan, const Cluster& cluster);

// The time of an op's kernels under a strategy. Each run of stages takes as long as on the slowest device of the mesh.
// With a mask, of those devices of the mesh that are in it, if any is.
int64_t kernels_ns(const CostModel& cost, const Graph& graph, const Op& op, const tdl::Derived& derived,
                   const Mesh& mesh, const DeviceMask& device_mask = nullptr);

}  // namespace partita
