// What conversions and operations take when nothing else runs: for searches that cost a plan piece by piece. The
// formulas are the simulator's (partita/cost/cost.h), and so is what runs at the same time within one step of a
// conversion; steps run one after another. A simulated step differs from the sum of these: what does not wait for each
// other overlaps, and what shares a link or a queue waits.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/graph/graph.h"
#include "partita/plan/plan.h"
#include "partita/sharding/boxing.h"

namespace partita {

// A part of a step: how long it keeps links or a device busy, for elements of one byte.
struct Job {
  std::vector<int> occupies;  // ascending
  Duration duration;
};

// One step of a conversion by itself, as lowering makes its tasks. Of a fetch, a link's transfers one after another and
// a device's copies, all links and devices together; then, where there is anything to combine, the device that takes
// longest for it (a combine is bound by memory). Of collectives, those that share the narrowest link of a hop wait for
// each other.
class StepTime {
 public:
  StepTime(const Step& step, const CostModel& cost);  // the step's bytes: of one-byte elements
  double ns(double element_bytes) const;
  // What is the same for every size of element and of tensor: one Duration; empty if there is no such one.
  const Duration* straight() const { return straight_ ? &line_ : nullptr; }

 private:
  void add_pieces(const Step& step, const CostModel& cost);
  void add_rings(const Step& step, const CostModel& cost);

  std::vector<Job> jobs_, after_;  // those of `after_` begin when all the others have ended
  bool straight_ = false;
  Duration line_;
};

// Conversions in ns, with a memory: the same two layouts are looked at once, and once for all shapes that differ in
// nothing but how long their evenly split axes are. The way is the one that convert() goes, which moves the fewest
// bytes, between layouts over as few factors as they can be: where a reader sees an unevenly split axis in factors,
// lowering may have to fetch instead. Not thread-safe.
class ConversionTimes {
 public:
  explicit ConversionTimes(const Cluster& cluster);
  int64_t ns(const Layout& from, const Layout& to, int64_t element_bytes);
  // From each of `from` to each of `to`, places in `layouts`: row-major.
  std::vector<int64_t> table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                             const std::vector<int>& to, int64_t element_bytes);
  // A strategy's own inner steps, one after another.
  int64_t inner_ns(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element_bytes);
  // Of an input, loaded by its hosts, to where it is kept; of an output from there to its host, and given there.
  int64_t load_ns(const Layout& home, int64_t element_bytes) const;
  int64_t give_ns(const Layout& home, int64_t element_bytes) const;

 private:
  // Of elements of one byte; steps that are no one Duration are apart.
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

// What a plan's parts take, one after another: every operation's kernels and inner steps, every conversion, inputs from
// their hosts and outputs to theirs. Bad input where a choice does not exist.
int64_t serial_ns(const Graph& graph, const Plan& plan, const Cluster& cluster);

// An operation's kernels under a strategy: each run of stages takes what it takes on the slowest of the mesh's devices.
int64_t kernels_ns(const CostModel& cost, const Graph& graph, const Op& op, const tdl::Derived& derived,
                   const Mesh& mesh);

}  // namespace partita
