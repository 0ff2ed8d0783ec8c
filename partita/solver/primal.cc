#include "partita/solver/primal.h"

#include <cmath>

namespace partita::solver {

namespace {

constexpr int kFromChoice = 40, kFromBest = 4;  // forest moves
constexpr int kRepairs = 400;                   // rounds of prices, before another start
constexpr int kBlockSize = 40;                  // variables
constexpr double kNextToNothing = 1e-4;         // relative

}  // namespace

void Primal::guide(const Assignment& choice, const std::vector<double>& prices) {
  choice_ = choice;
  prices_ = prices;
}

void Primal::start() {
  const bool from_best = !best_.empty() && restarts_ % 2 == 1;
  ++restarts_;
  blocks_.set(from_best ? best_ : choice_);
  blocks_.set_prices(prices_);
  moves_ = from_best ? kFromBest : kFromChoice;
  phase_ = Phase::kDescend;
}

void Primal::advance(int64_t work, const std::function<void(const Assignment&)>& found, const std::function<bool()>& stop) {
  const int64_t end = blocks_.work() + work, window = 20 * (model_.entries + 100'000);
  while (blocks_.work() < end && !stop()) switch (phase_) {
      case Phase::kStart:
        start();
        break;
      case Phase::kDescend:
        blocks_.forest_move();
        if (--moves_ == 0) phase_ = Phase::kRepair, moves_ = kRepairs;
        break;
      case Phase::kRepair:
        if (blocks_.feasible() || blocks_.find_feasible(1, stop)) {
          blocks_.set(blocks_.assignment());  // sums anew, without the rounding of penalties
          blocks_.set_prices(prices_);
          found(blocks_.assignment());
          mark_cost_ = blocks_.cost(), mark_work_ = blocks_.work();
          phase_ = Phase::kPolish;
        } else if (--moves_ == 0) {
          phase_ = Phase::kStart;
        }
        break;
      case Phase::kPolish:
        blocks_.improve(kBlockSize, std::min(end - blocks_.work(), window), 0, stop);
        found(blocks_.assignment());
        if (blocks_.work() - mark_work_ < window) break;
        if (mark_cost_ - blocks_.cost() < kNextToNothing * std::abs(blocks_.cost())) phase_ = Phase::kStart;
        mark_cost_ = blocks_.cost(), mark_work_ = blocks_.work();
        break;
    }
}

}  // namespace partita::solver
