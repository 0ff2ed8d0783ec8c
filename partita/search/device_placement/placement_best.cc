// Rates schedules by length and by memory deficit.
#include "partita/search/device_placement/placement_best.h"

#include <utility>

#include "partita/device_placement/decode.h"
#include "partita/device_placement/improve.h"
#include "partita/device_placement/justify.h"
#include "partita/search/device_placement/placements.h"

namespace partita {

namespace {

constexpr double kFreesFrom[] = {1, 0.8, 0.5, 0};  // first_come()

}  // namespace

BestSchedule::Rated BestSchedule::rated(const PlacedSchedule& schedule, const std::string& whose) {
  const int64_t over = memory_.over_bytes(schedule);
  return {over, static_cast<double>(schedule.end) + deficit_cost_ns(p_, schedule.end, over), schedule, whose};
}

void BestSchedule::take(const Rated& rated) {
  if (!start_ || rated.cost < start_->cost) start_ = rated;
  const auto key = [](const Rated& r) { return std::pair(r.over, r.schedule.end); };
  if (!best_ || key(rated) < key(*best_)) best_ = rated;
}

bool BestSchedule::take(const PlacedSchedule& schedule, const std::string& whose) {
  const Rated r = rated(schedule, whose);
  take(r);
  return r.over == 0;
}

void BestSchedule::take(const BestSchedule& other) {
  take(other.schedule(), other.whose());
  take(other.start(), other.start_->whose);
}

PlacedSchedule BestSchedule::offer(const std::vector<int>& device, const std::vector<int>& order,
                                   const std::string& whose) {
  std::optional<Rated> least;
  const auto fits = [&](const PlacedSchedule& schedule) {
    Rated r = rated(schedule, whose);
    take(r);
    const bool fits = r.over == 0;
    if (!least || r.cost < least->cost) least = std::move(r);
    return fits;
  };
  for (const std::vector<int>& rank : {critical_ranks(p_, device), framework_ranks(p_)}) {
    fits(list_schedule(p_, device, by_rank(rank), true));
    for (double frees_from : kFreesFrom)
      if (fits(first_come(p_, device, rank, frees_from))) break;
  }
  if (!order.empty()) fits(list_schedule(p_, device, order, true));
  fits(justify_schedule(p_, least->schedule));
  return std::move(least->schedule);
}

bool BestSchedule::better_than(const BestSchedule& other, double by_share) const {
  if (best_->over != other.best_->over) return best_->over < other.best_->over;
  return static_cast<double>(schedule().end) < (1 - by_share) * static_cast<double>(other.schedule().end);
}

}  // namespace partita
