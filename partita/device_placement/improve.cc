// Searches placements and orders by late acceptance.
#include "partita/device_placement/improve.h"

#include <algorithm>
#include <cmath>

#include "partita/device_placement/list_decoder.h"
#include "partita/device_placement/memory.h"
#include "partita/device_placement/moves.h"

namespace partita {

namespace {

// A memory deficit counts as time. The price doubles after each such part of the moves with a deficit, up to a limit.
constexpr int64_t kPart = 20;
constexpr double kMostTimes = 1 << 20;

class Walk {
 public:
  Walk(const PlacementProblem& problem, const PlacedSchedule& start, const ImproveOptions& options)
      : moves_(problem, start),
        decoder_(problem, true),
        memory_(problem),
        best_(start),
        patience_(options.changes / kPart + 1) {
    ns_per_byte_ = deficit_cost_ns(problem, start.end, 1);
    best_over_ = memory_.over_bytes(start);
    decoder_.decode(moves_.device(), moves_.order());
    over_ = memory_.over_bytes(decoder_.last());
    late_.resize(static_cast<size_t>(options.late));
    take();
    std::fill(late_.begin(), late_.end(), current_);
  }
  // Tells whether the best fits, and takes no longer than `ns`.
  bool enough(int64_t ns) const { return best_over_ == 0 && best_.end <= ns; }
  PlacedSchedule&& best() && { return std::move(best_); }

  void step(int64_t i, Rng& rng) {
    if (over_ > 0 && ++over_for_ % patience_ == 0) raise_price();
    if (!moves_.change(rng)) return;
    int64_t& before = late_[static_cast<size_t>(i) % late_.size()];
    const int64_t limit = moves_.has_to_shorten() ? current_ - 1 : std::max(current_, before);
    const bool ends = moves_.most_work_ns() <= limit && decoder_.decode(moves_.device(), moves_.order(), limit);
    const int64_t over = ends ? memory_.over_bytes(decoder_.last()) : 0;
    if (ends && cost(decoder_.last().end, over) <= limit) {
      moves_.keep(cost(decoder_.last().end, over) < current_);
      over_ = over;
      take();
    } else {
      moves_.take_back();
    }
    before = std::min(before, current_);
  }

 private:
  int64_t cost(int64_t end, int64_t over) const {
    return end + std::llround(times_ * ns_per_byte_ * static_cast<double>(over));
  }
  // Makes the decoder's schedule the current one.
  void take() {
    end_ = decoder_.last().end;
    current_ = cost(end_, over_);
    if (std::pair(over_, end_) >= std::pair(best_over_, best_.end)) return;
    best_ = decoder_.schedule();
    best_over_ = over_;
  }
  void raise_price() {
    times_ = std::min(kMostTimes, 2 * times_);
    current_ = cost(end_, over_);
    std::fill(late_.begin(), late_.end(), current_);
  }

  Moves moves_;
  ListDecoder decoder_;
  PlacedMemory memory_;
  PlacedSchedule best_;
  int64_t best_over_ = 0;
  int64_t end_ = 0, over_ = 0, current_ = 0;  // ns, bytes, and the cost of both
  int64_t over_for_ = 0, patience_;           // moves
  double times_ = 1, ns_per_byte_ = 0;        // the price of a byte of deficit
  std::vector<int64_t> late_;
};

}  // namespace

double deficit_cost_ns(const PlacementProblem& problem, int64_t end_ns, int64_t over_bytes) {
  constexpr double kSteps = 4;
  int64_t least = INT64_MAX;
  for (const PlacedDevice& d : problem.devices) least = std::min(least, std::max<int64_t>(1, d.memory_bytes));
  return kSteps * static_cast<double>(end_ns) * static_cast<double>(over_bytes) / static_cast<double>(least);
}

namespace {

PlacedSchedule walked(const PlacementProblem& problem, const PlacedSchedule& start, const ImproveOptions& options,
                      Rng& rng, const Watch& watch) {
  Walk walk(problem, start, options);
  for (int64_t i = 0; i < options.changes && !walk.enough(options.enough_ns) && !watch.ended(); ++i) walk.step(i, rng);
  return std::move(walk).best();
}

// Walks from a start with a deficit end far apart, by how their first moves free memory. The best of a few short ones
// goes on.
PlacedSchedule fitted(const PlacementProblem& problem, const PlacedSchedule& start, ImproveOptions options, Rng& rng,
                      const Watch& watch) {
  constexpr int kWalks = 8, kLate = 5;
  options.late = std::min(options.late, kLate);
  const ImproveOptions each{options.changes / (2 * kWalks), options.enough_ns, options.late};
  PlacedMemory memory(problem);
  PlacedSchedule best = start;
  int64_t over = memory.over_bytes(start);
  for (int k = 0; k < kWalks && !watch.ended(); ++k) {
    PlacedSchedule other = walked(problem, start, each, rng, watch);
    const int64_t of_other = memory.over_bytes(other);
    if (std::pair(of_other, other.end) >= std::pair(over, best.end)) continue;
    best = std::move(other);
    over = of_other;
  }
  options.changes -= kWalks * each.changes;
  return walked(problem, best, options, rng, watch);
}

}  // namespace

PlacedSchedule improve_schedule(const PlacementProblem& problem, const PlacedSchedule& start,
                                const ImproveOptions& options, Rng& rng, const Watch& watch) {
  if (problem.ops.empty()) return start;
  if (PlacedMemory(problem).over_bytes(start) > 0) return fitted(problem, start, options, rng, watch);
  return walked(problem, start, options, rng, watch);
}

}  // namespace partita
