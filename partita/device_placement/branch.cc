// Implements branch and bound over devices.
#include "partita/device_placement/branch.h"

#include <algorithm>
#include <bit>

#include "partita/device_placement/bounds.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/sequence.h"
#include "partita/device_placement/units.h"
#include "partita/device_placement/windows.h"

namespace partita {

namespace {

constexpr int kRounds = 6, kProbeRounds = 2;
constexpr size_t kProbed = 8;            // classes that a node tries on their devices before it branches
constexpr int64_t kOrderNodes = 20'000;  // nodes for the orders of one placement
constexpr int64_t kTry = 3;              // a limit gets a third of the time and nodes that are left
constexpr double kLeastPart = 0.02;      // of the gap between bound and schedule, that a limit adds

enum class Found { kNothing, kSchedule, kGaveUp };

class Branch {
 public:
  Branch(const PlacementProblem& problem, BranchResult& result)
      : p_(problem), result_(result), windows_(problem), equal_(equal_devices(problem)), root_(windows_.start()) {}

  // Whether a schedule ends at the limit or before.
  Found try_limit(int64_t limit_ns, int64_t nodes, const Watch& watch) {
    limit_ = limit_ns;
    last_node_ = nodes > INT64_MAX - looked_at() ? INT64_MAX : looked_at() + nodes;
    watch_ = watch;
    PlacementState state = root_;
    return search(state);
  }

 private:
  int64_t looked_at() const { return result_.nodes + result_.order_nodes; }
  bool ended() const { return watch_.ended() || looked_at() > last_node_; }
  struct Class {
    size_t first = 0;
    int64_t ns = 0;
  };
  // The undecided classes, the longest first.
  std::vector<Class> undecided(const PlacementState& state) const {
    std::vector<int64_t> ns(p_.ops.size(), 0);
    for (size_t o = 0; o < p_.ops.size(); ++o)
      ns[static_cast<size_t>(state.parent[o])] += *std::max_element(p_.ops[o].ns.begin(), p_.ops[o].ns.end());
    std::vector<Class> classes;
    for (size_t o = 0; o < p_.ops.size(); ++o)
      if (state.parent[o] == static_cast<int>(o) && !std::has_single_bit(state.runs[o])) classes.push_back({o, ns[o]});
    std::sort(classes.begin(), classes.end(), [](const Class& a, const Class& b) { return a.ns > b.ns; });
    return classes;
  }
  // Its devices; among equal empty ones only the first.
  std::vector<int> devices_of(const PlacementState& state, size_t first) const {
    uint64_t taken = 0;
    for (uint64_t runs : state.runs)
      if (std::has_single_bit(runs)) taken |= runs;
    uint64_t runs = state.runs[first];
    for (const std::vector<int>& set : equal_) {
      bool seen = false;
      for (int d : set) {
        const uint64_t bit = uint64_t{1} << d;
        if ((taken & bit) || !(runs & bit)) continue;
        if (seen) runs &= ~bit;
        seen = true;
      }
    }
    std::vector<int> devices;
    for (size_t d = 0; d < p_.devices.size(); ++d)
      if ((runs >> d) & 1) devices.push_back(static_cast<int>(d));
    return devices;
  }
  static PlacementState with(const PlacementState& state, size_t first, int device) {
    PlacementState next = state;
    next.runs[first] = uint64_t{1} << device;
    return next;
  }
  static double choices(const PlacementState& state) {
    double bits = 0;
    for (size_t o = 0; o < state.runs.size(); ++o)
      if (state.parent[o] == static_cast<int>(o)) bits += std::popcount(state.runs[o]) - 1;
    return bits;
  }

  struct Chosen {
    bool possible = true, forced = false;
    size_t first = 0;
    std::vector<PlacementState> next;
  };
  // Tries the longest classes on their devices. A device that leads to nothing is taken away. Branches on the class
  // that leaves the least.
  Chosen choose(PlacementState& state, const std::vector<Class>& classes) {
    Chosen best;
    double most = -1;
    for (size_t k = 0; k < std::min(kProbed, classes.size()); ++k) {
      const size_t first = classes[k].first;
      std::vector<PlacementState> next;
      double settled = 1;
      const double before = choices(state);
      const std::vector<int> devices = devices_of(state, first);
      for (int d : devices) {
        PlacementState tried = with(state, first, d);
        if (windows_.narrow(tried, limit_, kProbeRounds, true)) {
          settled *= before - choices(tried);
          next.push_back(std::move(tried));
        }
      }
      if (next.empty()) return {false, false, 0, {}};
      if (next.size() == 1) return {true, true, first, std::move(next)};
      if (settled > most) {
        most = settled;
        best = {true, false, first, std::move(next)};
      }
    }
    return best;
  }

  Found search(PlacementState& state) {
    ++result_.nodes;
    while (true) {
      if (ended()) return Found::kGaveUp;
      if (!windows_.narrow(state, limit_, kRounds, true)) return Found::kNothing;
      const std::vector<Class> classes = undecided(state);
      if (classes.empty()) return ordered(state);
      Chosen chosen = choose(state, classes);
      if (!chosen.possible) return Found::kNothing;
      if (chosen.forced) {
        state = std::move(chosen.next.front());
        continue;
      }
      // The device of the best schedule comes first.
      const int best = result_.schedule.device[chosen.first];
      std::stable_sort(chosen.next.begin(), chosen.next.end(), [&](const PlacementState& a, const PlacementState& b) {
        return ((a.runs[chosen.first] >> best) & 1) > ((b.runs[chosen.first] >> best) & 1);
      });
      Found found = Found::kNothing;
      for (PlacementState& next : chosen.next) {
        const Found here = search(next);
        if (here == Found::kSchedule) return here;
        if (here == Found::kGaveUp) found = here;
        if (here == Found::kGaveUp && ended()) return here;
      }
      return found;
    }
  }
  Found ordered(const PlacementState& state) {
    std::vector<int> device(p_.ops.size());
    for (size_t o = 0; o < p_.ops.size(); ++o) device[o] = std::countr_zero(state.runs[o]);
    SequenceResult result =
        find_sequence(p_, device, limit_, std::min(kOrderNodes, last_node_ - looked_at() + 1), watch_);
    result_.order_nodes += result.nodes;
    if (!result.schedule) return result.complete ? Found::kNothing : Found::kGaveUp;
    result_.schedule = std::move(*result.schedule);
    return Found::kSchedule;
  }

  const PlacementProblem& p_;
  BranchResult& result_;
  Watch watch_;
  int64_t last_node_ = 0;
  PlacementWindows windows_;
  std::vector<std::vector<int>> equal_;
  PlacementState root_;
  int64_t limit_ = 0;
};

}  // namespace

BranchResult branch_and_bound(const PlacementProblem& problem, const PlacedSchedule& start,
                              const BranchOptions& options, const Watch& watch) {
  const Watch::Clock::time_point begun = Watch::Clock::now();
  BranchResult result;
  result.schedule = start;
  result.bound_ns = std::min(start.end, placement_bounds(problem).ns());
  Watch until = watch;
  const auto end = begun + std::chrono::duration_cast<Watch::Clock::duration>(
                               std::chrono::duration<double>(std::min(options.seconds, 1e6)));
  until.deadline = watch.deadline ? std::min(*watch.deadline, end) : end;
  const auto enough = [&] {
    return static_cast<double>(result.schedule.end - result.bound_ns) <=
           options.gap * static_cast<double>(result.schedule.end);
  };
  Branch branch(problem, result);
  double part = 0.5;  // share of the gap between bound and schedule
  const auto nodes_left = [&] { return options.nodes - result.nodes - result.order_nodes; };
  while (!result.proved() && !enough() && !until.ended() && nodes_left() > 0) {
    const int64_t left = result.schedule.end - result.bound_ns;
    const bool last = left <= result.schedule.end / 2000;
    const auto more = std::min(left - 1, static_cast<int64_t>(part * static_cast<double>(left)));
    const int64_t limit = result.bound_ns + (last ? left - 1 : more);
    const int64_t nodes = last ? nodes_left() : nodes_left() / kTry;
    const Found found = branch.try_limit(limit, nodes, until.share(last ? 1 : 1.0 / kTry));
    if (found == Found::kGaveUp && (last || part < kLeastPart)) break;
    part = found == Found::kGaveUp ? part / 2 : std::min(0.5, 2 * part);
    if (found == Found::kNothing) result.bound_ns = limit + 1;
  }
  result.seconds = std::chrono::duration<double>(Watch::Clock::now() - begun).count();
  return result;
}

}  // namespace partita
