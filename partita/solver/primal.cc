// Restarts local search: decides where each restart begins, and when it is done.
#include "partita/solver/primal.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

constexpr const Tuning::Primal& kPrimal = kTuning.primal;

// Values left to each variable while one after another is fixed: those with a partner across every pair.
class Fixing {
 public:
  Fixing(const Model& model, const Alive& alive) : m_(model), alive_(alive), queued_(model.variables(), 0) {}

  bool allowed(int v, int x) const { return alive_[m_.offset[v] + x]; }
  void fix(int v, int x) {
    for (int y = 0; y < m_.domain(v); ++y) alive_[m_.offset[v] + y] = y == x;
    push(v);
    while (!queue_.empty()) {
      const int next = queue_.back();
      queue_.pop_back();
      queued_[next] = 0;
      for (const Model::Neighbour& n : m_.neighbours[next]) narrow(n);
    }
  }

 private:
  void push(int v) {
    if (!std::exchange(queued_[v], 1)) queue_.push_back(v);
  }
  // Removes the neighbour's values without a partner at this end; all stay if none has one.
  void narrow(const Model::Neighbour& n) {
    const int w = n.variable, v = n.first ? m_.pairs[n.pair].a : m_.pairs[n.pair].b;
    const int left = collect_without_partner(m_, v, n, alive_, lost_);
    if (left == 0 || lost_.empty()) return;
    for (int y : lost_) alive_[m_.offset[w] + y] = 0;
    push(w);
  }

  const Model& m_;
  Alive alive_;
  std::vector<char> queued_;
  std::vector<int> queue_, lost_;
};

}  // namespace

// Repairs `choice` by fixing one variable after another, which leaves few forbidden pairs; those with most neighbours
// come first. Each keeps its value, or takes the cheapest beside its neighbours' that still has partners.
Assignment Primal::reconciled(const Assignment& choice, const std::vector<double>& prices) const {
  std::vector<double> sums(prices.size() + 1, 0);
  std::partial_sum(prices.begin(), prices.end(), sums.begin() + 1);
  Assignment x = choice;
  Fixing fixing(model_, alive_);
  for (int v : by_degree_) {
    if (!fixing.allowed(v, x[v])) {
      double least = kInfinity;
      int best = -1;
      for (int y = 0; y < model_.domain(v); ++y) {
        if (!fixing.allowed(v, y)) continue;
        double cost = model_.unary[model_.offset[v] + y];
        for (const Model::Use& u : model_.uses[v])
          cost += static_cast<double>(u.amounts[y]) * (sums[u.upper] - sums[u.lower]);
        for (const Model::Neighbour& n : model_.neighbours[v])
          if (const double pair = model_.pair_cost(n, y, x[n.variable]); pair < kInfinity) cost += pair;
        if (best < 0 || cost < least) least = cost, best = y;
      }
      x[v] = best;
    }
    fixing.fix(v, x[v]);
  }
  return x;
}

Primal::Primal(const Model& model, const Alive& alive, uint64_t seed)
    : model_(model), alive_(alive), blocks_(model, alive, seed), by_degree_(model.variables()) {
  std::iota(by_degree_.begin(), by_degree_.end(), 0);
  std::stable_sort(by_degree_.begin(), by_degree_.end(),
                   [&](int v, int w) { return model.neighbours[v].size() > model.neighbours[w].size(); });
}

void Primal::guide(const Assignment& choice, const Assignment& believed, const std::vector<double>& prices) {
  choice_ = choice;
  believed_ = believed;
  prices_ = prices;
}

// The choice of least use, whatever it costs: as a rule within the limit.
Assignment Primal::lean() const {
  const double price = blocks_.penalty() / std::max(1.0, static_cast<double>(model_.limit));
  Assignment x(model_.variables());
  for (int v = 0; v < model_.variables(); ++v) {
    double least = kInfinity;
    for (int y = 0; y < model_.domain(v); ++y) {
      double cost = model_.unary[model_.offset[v] + y];
      for (const Model::Use& u : model_.uses[v])
        cost += price * static_cast<double>(u.amounts[y]) * (u.upper - u.lower);
      if (alive_[model_.offset[v] + y] && cost < least) least = cost, x[v] = y;
    }
  }
  return reconciled(x, std::vector<double>(model_.times.size(), price));
}

void Primal::start() {
  if (++restarts_ == 1) {
    blocks_.set(lean());
    moves_ = 1;
    phase_ = Phase::kRepair;
    return;
  }
  const int64_t turn = restarts_ % 3;
  if (turn == 2) blocks_.set(reconciled(believed_, prices_));
  else if (turn == 0 || best_.empty()) blocks_.set(choice_);
  else blocks_.set(best_);
  blocks_.set_prices(prices_);
  moves_ = turn == 1 ? kPrimal.moves_from_best : kPrimal.moves_from_dual;
  phase_ = Phase::kDescend;
}

void Primal::advance(int64_t work, const std::function<void(const Assignment&)>& found,
                     const std::function<bool()>& stop) {
  const int64_t end = blocks_.work() + work, window = kPrimal.window * (model_.entries + kPrimal.window_least);
  while (blocks_.work() < end && !stop()) switch (phase_) {
      case Phase::kStart:
        start();
        break;
      case Phase::kDescend:
        blocks_.forest_move();
        if (--moves_ == 0) phase_ = Phase::kRepair, moves_ = kPrimal.repairs;
        break;
      case Phase::kRepair:
        if (restarts_ == 1) {
          if (blocks_.feasible()) found(blocks_.assignment());
          phase_ = Phase::kStart;
          break;
        }
        if (blocks_.feasible() || blocks_.find_feasible(1, stop)) {
          blocks_.set(blocks_.assignment());  // recomputes sums, without the rounding of penalties
          blocks_.set_prices(prices_);
          found(blocks_.assignment());
          mark_cost_ = blocks_.cost(), mark_work_ = blocks_.work();
          phase_ = Phase::kPolish;
        } else if (--moves_ == 0) {
          phase_ = Phase::kStart;
        }
        break;
      case Phase::kPolish:
        blocks_.improve(kPrimal.block_size, std::min(end - blocks_.work(), window), 0, stop);
        found(blocks_.assignment());
        if (blocks_.work() - mark_work_ < window) break;
        if (mark_cost_ - blocks_.cost() <
            std::max(kPrimal.least, kPrimal.enough / static_cast<double>(restarts_)) * std::abs(blocks_.cost()))
          phase_ = Phase::kStart;
        mark_cost_ = blocks_.cost(), mark_work_ = blocks_.work();
        break;
    }
}

}  // namespace partita::solver
