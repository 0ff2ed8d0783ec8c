// Passes of sequential reweighted message passing, with prices on the limit.
#include "partita/solver/dual.h"

#include <algorithm>
#include <cmath>

#include "partita/solver/vectors.h"

namespace partita::solver {

namespace {

inline __attribute__((always_inline)) void add(double times, const double* __restrict from, int count,
                                               double* __restrict to) {
  for (int x = 0; x < count; ++x) to[x] += times * from[x];
}

}  // namespace

Dual::Dual(const Model& model) : Dual(model, wide_vectors()) {}

Dual::Dual(const Model& model, bool wide)
    : m_(model), wide_(wide), alive_(model.unary.size(), 1), rounded_(model.variables(), 0) {
  at_.resize(m_.pairs.size());
  size_t size = 0;
  for (int v = 0; v < m_.variables(); ++v)  // in the order of a sweep
    for (const Model::Neighbour& n : m_.neighbours[v]) {
      at_[n.pair][n.first ? 0 : 1] = size;
      size += m_.domain(v);
    }
  state_.messages.assign(size, 0);
  state_.prices.assign(m_.times.size(), 0);
  int most_kinds = 0;
  for (int v = 0; v < m_.variables(); ++v) {
    first_end_.push_back(ends_.size());
    backward_count_.push_back(0);
    for (const Model::Neighbour& n : m_.neighbours[v]) {  // ascending: backward ones come first
      const auto [a, b] = at_[n.pair];
      const PairView view = m_.view(n);
      const bool plain = view.own->all_differ() && view.other->all_differ();
      ends_.push_back({view, plain ? view.by_other : nullptr, m_.domain(n.variable), n.first ? a : b, n.first ? b : a,
                       m_.pairs[n.pair].times, n.variable, n.variable < v});
      most_kinds = std::max(most_kinds, ends_.back().view.kinds());
      backward_count_[v] += n.variable < v;
    }
  }
  first_end_.push_back(ends_.size());
  base_ = beliefs_ = m_.unary;
  int widest = 0;
  for (int v = 0; v < m_.variables(); ++v) widest = std::max(widest, m_.domain(v));
  choosing_.resize(widest);
  kinds_.resize(most_kinds);
  direction_.assign(m_.times.size(), 0);
}

void Dual::set(State state, const Alive& alive) {
  state_ = std::move(state);
  alive_ = alive;
  std::fill(direction_.begin(), direction_.end(), 0);
}

void Dual::begin(const Certificate::Leaf& leaf) {
  const auto scale = static_cast<double>(leaf.scale);
  auto take = [&](const std::vector<int64_t>& values, size_t at) {
    for (size_t x = 0; x < values.size(); ++x)
      state_.messages[at + x] = values[x] == kNotThere ? 0 : static_cast<double>(values[x]) / scale;
  };
  for (const Certificate::Message& m : leaf.messages) {
    if (m.variables.size() != 2) continue;
    const int a = m.variables[0], b = m.variables[1];
    const std::vector<Model::Neighbour>& list = m_.neighbours[a];
    const auto at =
        std::lower_bound(list.begin(), list.end(), b, [](const Model::Neighbour& n, int v) { return n.variable < v; });
    if (at == list.end() || at->variable != b) continue;
    const End& end = ends_[first_end_[a] + static_cast<size_t>(at - list.begin())];
    take(m.ends[0], end.own);
    take(m.ends[1], end.other);
  }
  for (const Certificate::Multiplier& m : leaf.multipliers) {
    const auto at = std::lower_bound(m_.times.begin(), m_.times.end(), m.time);
    if (at != m_.times.end() && *at == m.time)
      state_.prices[static_cast<size_t>(at - m_.times.begin())] = static_cast<double>(m.value) / scale;
  }
}

// Receives the messages of the pairs on the near side, and sends equal shares of the total to those on the far side.
template <typename V>
PARTITA_INLINE void Dual::sweep_by(int v, bool forwards) {
  const int values = m_.domain(v);
  double* belief = &beliefs_[m_.offset[v]];
  const double* base = &base_[m_.offset[v]];
  const char* alive = &alive_[m_.offset[v]];
  for (int x = 0; x < values; ++x) belief[x] = alive[x] ? base[x] : kInfinity;
  const End *first = ends_.data() + first_end_[v], *middle = first + backward_count_[v],
            *last = ends_.data() + first_end_[v + 1];
  const End *near = forwards ? first : middle, *near_end = forwards ? middle : last, *far = forwards ? middle : first,
            *far_end = forwards ? last : middle;
  for (const End* e = far; e != far_end; ++e) add(e->times, &state_.messages[e->own], values, belief);
  if (forwards) {  // the choice, beside choices already made
    double* choosing = choosing_.data();
    std::copy(belief, belief + values, choosing);
    for (const End* e = near; e != near_end; ++e)
      if (e->table) add(e->times, e->table + static_cast<size_t>(rounded_[e->variable]) * values, values, choosing);
      else add_beside(e->view, rounded_[e->variable], e->times, values, choosing);
    rounded_[v] = least_of<V>(choosing, values);
    if (!alive[rounded_[v]]) rounded_[v] = static_cast<int>(std::find(alive, alive + values, 1) - alive);
  }
  for (const End* e = near; e != near_end; ++e) {
    double* own = &state_.messages[e->own];
    const double* minus = &state_.messages[e->other];
    if (e->table) min_minus<V>(e->table, minus, e->others, values, own);
    else min_minus<V>(e->view, minus, values, kinds_.data(), own);
    add(e->times, own, values, belief);
  }
  auto count = [](const End* from, const End* to) {
    double sum = 0;
    for (; from != to; ++from) sum += from->times;
    return sum;
  };
  const double far_count = count(far, far_end), all = std::max({count(near, near_end), far_count, 1.0}),
               share = 1 / all;
  for (const End* e = far; e != far_end; ++e) {
    double* own = &state_.messages[e->own];
    for (int x = 0; x < values; ++x)
      own[x] = belief[x] < kInfinity ? own[x] - share * belief[x] : -kInfinity;  // the latter if not alive
  }
  const int best = least_of<V>(belief, values);
  bound_ += (1 - far_count / all) * belief[best];
  for (const Model::Use& u : m_.uses[v]) {
    load_[u.lower] += static_cast<double>(u.amounts[best]);
    load_[u.upper] -= static_cast<double>(u.amounts[best]);
  }
}

PARTITA_WIDE void Dual::sweep_wide(int v, bool forwards) { sweep_by<Eight>(v, forwards); }
PARTITA_HALVED void Dual::sweep_halved(int v, bool forwards) { sweep_by<Halves>(v, forwards); }
void Dual::sweep(int v, bool forwards) { wide_ ? sweep_wide(v, forwards) : sweep_halved(v, forwards); }

double Dual::pass() {
  std::vector<double> sums(m_.times.size() + 1, 0);
  for (size_t t = 0; t < m_.times.size(); ++t) sums[t + 1] = sums[t] + state_.prices[t];
  base_ = m_.unary;
  for (int v = 0; v < m_.variables(); ++v)
    for (const Model::Use& u : m_.uses[v]) {
      const double price = sums[u.upper] - sums[u.lower];
      if (price > 0)
        for (size_t x = 0; x < u.amounts.size(); ++x)
          base_[m_.offset[v] + x] += price * static_cast<double>(u.amounts[x]);
    }
  load_.assign(m_.times.size() + 1, 0);
  for (int v = 0; v < m_.variables(); ++v) sweep(v, true);
  bound_ = 0;
  for (int v = m_.variables(); v-- > 0;) sweep(v, false);
  return bound_ -= sums.back() * static_cast<double>(m_.limit);
}

// No step of a pass lowers the bound that the messages prove. When a pass is at a variable, the variable's beliefs are
// all that is known of its values. So with one of its values instead of the best, the second pass proves as much as the
// first, plus the extra cost of the value.
std::vector<double> Dual::least_costs(double bound) {
  pass();
  std::vector<double> costs = beliefs_;
  for (int v = 0; v < m_.variables(); ++v) {
    const double least = beliefs_[m_.offset[v] + least_of<Halves>(&beliefs_[m_.offset[v]], m_.domain(v))];
    for (int i = m_.offset[v]; i < m_.offset[v + 1]; ++i)
      costs[i] = beliefs_[i] < kInfinity ? bound + (beliefs_[i] - least) : kInfinity;
  }
  return costs;
}

void Dual::move_prices(double target, double best, double rate) {
  constexpr double kMemory = kTuning.ascent.memory;
  double norm = 0, now = 0;
  for (size_t t = 0; t < m_.times.size(); ++t) {
    now += load_[t];
    direction_[t] = kMemory * direction_[t] + (1 - kMemory) * (0.5 * now - static_cast<double>(m_.limit));
    if (direction_[t] > 0 || state_.prices[t] > 0) norm += direction_[t] * direction_[t];
  }
  if (norm == 0 || target <= best) return;
  const double step = rate * (target - best) / norm;
  for (size_t t = 0; t < m_.times.size(); ++t)
    state_.prices[t] = std::max(0.0, state_.prices[t] + step * direction_[t]);
}

std::vector<double> Dual::slacks() const {
  std::vector<double> slacks(m_.variables(), 0);
  for (int v = 0; v < m_.variables(); ++v) {
    const int values = m_.domain(v), x = rounded_[v];
    std::vector<double> own(base_.begin() + m_.offset[v], base_.begin() + m_.offset[v + 1]);
    for (size_t i = first_end_[v]; i < first_end_[v + 1]; ++i) {
      const End& e = ends_[i];
      for (int y = 0; y < values; ++y) own[y] += e.times * state_.messages[e.own + y];
      if (e.backward) {  // after a pass the least of a pair's reparametrised costs is 0
        const int other = rounded_[e.variable];
        const double slack =
            e.times * (e.view.at(x, other) - state_.messages[e.own + x] - state_.messages[e.other + other]);
        slacks[v] += slack, slacks[e.variable] += slack;
      }
    }
    double least = kInfinity;
    for (int y = 0; y < values; ++y)
      if (alive_[m_.offset[v] + y]) least = std::min(least, own[y]);
    slacks[v] += own[x] - least;
  }
  return slacks;
}

int64_t scale_for(double largest) {
  constexpr double kRoom = 1.15e18;  // 2^60
  int64_t scale = int64_t{1} << 20;
  while (scale > 1 && largest * static_cast<double>(scale) > kRoom) scale /= 2;
  return scale;
}

namespace {

double largest_of(const std::vector<double>& messages) {
  double largest = 1;
  for (double m : messages)
    if (std::isfinite(m)) largest = std::max(largest, std::abs(m));
  return largest;
}

}  // namespace

double Dual::largest() const { return largest_of(state_.messages); }

Certificate::Leaf Dual::leaf(const State& state, const Alive& alive) const {
  double largest = largest_of(state.messages) + m_.headroom;
  for (double p : state.prices) largest = std::max(largest, p);
  const int64_t scale = scale_for(largest);
  constexpr double kLargest = 4e18;
  auto integer = [&](double value) {
    return std::isfinite(value) ? std::llrint(std::clamp(value * static_cast<double>(scale), -kLargest, kLargest)) : 0;
  };
  Certificate::Leaf leaf;
  leaf.scale = scale;
  std::vector<Certificate::Message> joints;
  for (const Model::Joint& j : m_.joints)
    joints.push_back({j.variables, std::vector<std::vector<int64_t>>(j.variables.size())});
  auto end_of = [&](size_t at, int v) {
    std::vector<int64_t> end(m_.domain(v));
    for (int x = 0; x < m_.domain(v); ++x)
      end[x] = alive[m_.offset[v] + x] ? integer(state.messages[at + x]) : kNotThere;
    return end;
  };
  for (int v = 0; v < m_.originals; ++v)
    for (size_t i = first_end_[v]; i < first_end_[v + 1]; ++i) {
      const End& e = ends_[i];
      if (e.variable >= m_.originals) {  // one of the factor's messages is the one to its tuples' variable at this end
        const Model::Joint& j = m_.joints[e.variable - m_.originals];
        joints[e.variable - m_.originals]
            .ends[std::find(j.variables.begin(), j.variables.end(), v) - j.variables.begin()] = end_of(e.own, v);
      } else if (!e.backward) {
        leaf.messages.push_back({{v, e.variable}, {end_of(e.own, v), end_of(e.other, e.variable)}});
      }
    }
  leaf.messages.insert(leaf.messages.end(), joints.begin(), joints.end());
  for (size_t t = 0; t < m_.times.size(); ++t)
    if (const int64_t price = integer(state.prices[t]); price > 0) leaf.multipliers.push_back({m_.times[t], price});
  return leaf;
}

void Ascent::pass(Dual& dual, const Alive& alive, std::optional<double> target, int messages_first) {
  constexpr const Tuning::Ascent& t = kTuning.ascent;
  const double now = dual.pass();
  ++passes;
  if (!target) target = std::max(bound, now) + t.guessed_gap * std::max(1.0, std::abs(now));
  const double gap = std::max(*target - std::max(bound, now), t.least_gap * std::max(1.0, std::abs(*target)));
  if (now > bound) {
    if (now > bound + t.next_to_nothing * gap) stale = 0;
    else ++stale;
    bound = now;
    state = dual.state();
  } else {
    ++stale;
  }
  if (passes <= messages_first || !std::isfinite(now)) return;
  if (bound - now > t.fall * gap) {
    dual.set(state, alive);
    rate *= t.shrink_after_fall;
    return;
  }
  if (stale > t.stale_passes) rate *= t.shrink, stale = 0, ++shrinks;
  dual.move_prices(*target, bound, rate);
}

}  // namespace partita::solver
