// Sets blocks and forests of variables to their exact minimum beside the others.
#include "partita/solver/blocks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partita/solver/tuning.h"
#include "partita/solver/vectors.h"

namespace partita::solver {

namespace {

// The work of steps other than table entries, in table entries (about 2 ns).
constexpr int64_t kWorkOfMember = 400, kWorkOfNeighbour = 20, kWorkOfUse = 60;

// The same pair, seen from its other end.
Model::Neighbour reversed(const Model& m, const Model::Neighbour& n) {
  return {n.first ? m.pairs[n.pair].a : m.pairs[n.pair].b, n.pair, !n.first};
}

}  // namespace

Blocks::Blocks(const Model& model, const Alive& alive, uint64_t seed)
    : m_(model),
      unary_(model.unary),
      tables_(model.tables),
      rng_(seed),
      profile_(static_cast<int>(model.times.size())),
      price_sums_(model.times.size() + 1, 0),
      member_of_(model.variables(), -1),
      touched_(model.variables(), 0) {
  double largest = 1;
  for (double c : unary_)
    if (c < kInfinity) largest = std::max(largest, std::abs(c));
  for (const auto& t : tables_) largest = std::max(largest, t->largest);
  penalty_ = kTuning.primal.penalty * largest;
  for (size_t i = 0; i < unary_.size(); ++i)
    if (!alive[i]) unary_[i] = kInfinity;
  for (auto& t : tables_) {
    if (!t->forbids) continue;
    auto softened = std::make_shared<PairTable>(*t);
    for (std::vector<double>* costs : {&softened->by_row, &softened->by_column})
      for (double& c : *costs) c = std::min(c, penalty_);
    t = std::move(softened);
  }
  Assignment x(m_.variables());
  for (int v = 0; v < m_.variables(); ++v)
    x[v] = static_cast<int>(std::min_element(unary_.begin() + m_.offset[v], unary_.begin() + m_.offset[v + 1]) -
                            (unary_.begin() + m_.offset[v]));
  set(x);
}

void Blocks::set(const Assignment& x) {
  x_ = x;
  profile_ = Profile(static_cast<int>(m_.times.size()));
  cost_ = 0;
  for (int v = 0; v < m_.variables(); ++v) {
    cost_ += unary_[m_.offset[v] + x_[v]];
    for (const Model::Use& u : m_.uses[v]) profile_.add(u.lower, u.upper, u.amounts[x_[v]]);
    for (const Model::Neighbour& n : m_.neighbours[v])
      if (n.first) cost_ += pair_cost(n, x_[v], x_[n.variable]);
  }
}

void Blocks::set_prices(const std::vector<double>& prices) {
  prices_ = prices;
  std::partial_sum(prices_.begin(), prices_.end(), price_sums_.begin() + 1);
}

double Blocks::price(int v, int x) const {
  double sum = 0;
  for (const Model::Use& u : m_.uses[v])
    sum += static_cast<double>(u.amounts[x]) * (price_sums_[u.upper] - price_sums_[u.lower]);
  return sum;
}

PairView Blocks::view(const Model::Neighbour& n) const {
  const PairTable& t = *tables_[m_.pairs[n.pair].table];
  return n.first ? by_row(t) : by_column(t);
}

double Blocks::pair_cost(const Model::Neighbour& n, int own, int other) const { return view(n).at(own, other); }

void Blocks::start_block() {
  for (const Member& member : members_) member_of_[member.variable] = -1;
  for (int v : touched_list_) touched_[v] = 0;
  members_.clear();
  touched_list_.clear();
  frontier_.clear();
}

void Blocks::join(int v, int parent, const Model::Neighbour& up) {
  const int index = static_cast<int>(members_.size());
  member_of_[v] = index;
  members_.push_back({v, parent, up, 0});
  for (const Model::Neighbour& n : m_.neighbours[v]) {
    if (touched_[n.variable]++ == 0) touched_list_.push_back(n.variable);
    if (touched_[n.variable] == 1 && member_of_[n.variable] < 0) frontier_.push_back({index, reversed(m_, n)});
  }
}

// Grows a random tree from `seed`, which touches no member yet, until the block has `size` members. A variable that
// touches two members stays out.
void Blocks::grow(int seed, size_t size) {
  join(seed, -1, {});
  while (!frontier_.empty() && members_.size() < size) {
    std::swap(frontier_[rng_.below(frontier_.size())], frontier_.back());
    const auto [parent, up] = frontier_.back();
    frontier_.pop_back();
    const Model::Neighbour down = reversed(m_, up);
    if (member_of_[down.variable] < 0 && touched_[down.variable] == 1) join(down.variable, parent, up);
  }
  frontier_.clear();
}

// A variable that uses something at the same time as a member of the block, at the fullest such time; -1 if none was
// met.
int Blocks::companion() {
  const int v = members_[rng_.below(members_.size())].variable;
  if (m_.uses[v].empty()) return -1;
  const Model::Use& mine = m_.uses[v][rng_.below(m_.uses[v].size())];
  const int time = static_cast<int>(rng_.between(mine.lower, mine.upper - 1));
  for (int tries = 0; tries < 64; ++tries) {
    const int w = static_cast<int>(rng_.below(m_.variables()));
    if (member_of_[w] >= 0 || touched_[w] > 0) continue;
    for (const Model::Use& u : m_.uses[w])
      if (u.lower <= time && time < u.upper) return w;
  }
  return -1;
}

// The cost of each value of each member beside variables out of the block.
void Blocks::fill_base(double price_weight) {
  size_t size = 0;
  for (Member& member : members_) {
    member.at = size;
    size += m_.domain(member.variable);
  }
  base_.resize(size);
  belief_.resize(size);
  for (const Member& member : members_) {
    const int v = member.variable, values = m_.domain(v);
    double* base = &base_[member.at];
    for (int x = 0; x < values; ++x)
      base[x] = unary_[m_.offset[v] + x] + (price_weight > 0 ? price_weight * price(v, x) : 0);
    for (const Model::Neighbour& n : m_.neighbours[v]) {
      if (member_of_[n.variable] >= 0) continue;
      add_beside(view(n), x_[n.variable], 1, values, base);
    }
    work_ += kWorkOfMember + (values + kWorkOfNeighbour) * static_cast<int64_t>(m_.neighbours[v].size() + 1);
  }
}

// Finds the block's minimum by dynamic programming from its leaves; ties take the lowest value.
template <typename V>
PARTITA_INLINE void Blocks::minimise_by(const std::vector<Overlay>& overlay) {
  std::copy(base_.begin(), base_.end(), belief_.begin());
  for (const Overlay& o : overlay)
    for (const Member& member : members_)
      for (const Model::Use& u : m_.uses[member.variable])
        if (u.lower <= o.time && o.time < u.upper)
          for (size_t x = 0; x < u.amounts.size(); ++x)
            belief_[member.at + x] += o.price * static_cast<double>(u.amounts[x]);
  for (size_t i = members_.size(); i-- > 0;) {
    const Member& member = members_[i];
    if (member.parent < 0) continue;
    const int values = m_.domain(member.variable), above = m_.domain(member.up.variable);
    const PairView down = view(reversed(m_, member.up));
    scratch_.resize(static_cast<size_t>(values) + above + down.kinds());
    double *minus = scratch_.data(), *least = minus + values;
    for (int x = 0; x < values; ++x) minus[x] = -belief_[member.at + x];
    min_minus<V>(down, minus, above, least + above, least);
    double* parent = &belief_[members_[member.parent].at];
    for (int y = 0; y < above; ++y) parent[y] += least[y];
    work_ += static_cast<int64_t>(down.own->count) * down.other->count + values + above;
  }
  choice_.resize(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    const int values = m_.domain(member.variable);
    int best = 0;
    double least = kInfinity;
    for (int x = 0; x < values; ++x) {
      const double cost =
          belief_[member.at + x] + (member.parent < 0 ? 0 : pair_cost(member.up, x, choice_[member.parent]));
      if (cost < least) least = cost, best = x;
    }
    choice_[i] = best;
  }
}

PARTITA_WIDE void Blocks::minimise_wide(const std::vector<Overlay>& overlay) { minimise_by<Eight>(overlay); }
PARTITA_HALVED void Blocks::minimise_halved(const std::vector<Overlay>& overlay) { minimise_by<Halves>(overlay); }
void Blocks::minimise(const std::vector<Overlay>& overlay) {
  wide_vectors() ? minimise_wide(overlay) : minimise_halved(overlay);
}

// The change of cost from x_ to the block's choice.
double Blocks::change() const {
  double change = 0;
  for (size_t i = 0; i < members_.size(); ++i) {
    const int v = members_[i].variable, now = x_[v], then = choice_[i];
    if (now != then) change += unary_[m_.offset[v] + then] - unary_[m_.offset[v] + now];
    if (members_[i].parent >= 0) {
      const int above = members_[i].up.variable;
      change +=
          pair_cost(members_[i].up, then, choice_[members_[i].parent]) - pair_cost(members_[i].up, now, x_[above]);
    }
    if (now == then) continue;
    for (const Model::Neighbour& n : m_.neighbours[v])
      if (member_of_[n.variable] < 0) change += pair_cost(n, then, x_[n.variable]) - pair_cost(n, now, x_[n.variable]);
  }
  return change;
}

// Takes the members' use out of the profile, or puts it in.
void Blocks::load(int sign) {
  for (const Member& member : members_)
    for (const Model::Use& u : m_.uses[member.variable]) {
      profile_.add(u.lower, u.upper, sign * Wide{u.amounts[x_[member.variable]]});
      work_ += kWorkOfUse;
    }
}

void Blocks::forest_move() {
  start_block();
  std::vector<int> order(m_.variables());
  std::iota(order.begin(), order.end(), 0);
  rng_.shuffle(order);
  for (int v : order)
    if (member_of_[v] < 0 && touched_[v] == 0) grow(v, order.size());
  fill_base(1);
  minimise({});
  cost_ += change();
  for (size_t i = 0; i < members_.size(); ++i) {
    int& x = x_[members_[i].variable];
    for (const Model::Use& u : m_.uses[members_[i].variable])
      profile_.add(u.lower, u.upper, Wide{u.amounts[choice_[i]]} - u.amounts[x]);
    x = choice_[i];
  }
}

bool Blocks::find_feasible(int rounds, const std::function<bool()>& stop) {
  constexpr const Tuning::Primal& t = kTuning.primal;
  prices_.resize(m_.times.size(), 0);
  for (int round = 0; round < rounds && !stop(); ++round) {
    forest_move();
    if (feasible()) return true;
    // A price at all times at once that makes a limit's worth of use as dear as a tenth of the cost.
    work_ += kWorkOfUse * static_cast<int64_t>(prices_.size());
    const double least =
        t.first_price * std::max(std::abs(cost_), 1.0) /
        (std::max(1.0, static_cast<double>(m_.limit)) * static_cast<double>(std::max<size_t>(1, prices_.size())));
    for (size_t i = 0; i < prices_.size(); ++i) {
      const int time = static_cast<int>(i);
      prices_[i] =
          profile_.most(time, time + 1) > m_.limit ? std::max(prices_[i], least) * t.rise : prices_[i] * t.fall;
    }
    set_prices(prices_);
  }
  return feasible();
}

bool Blocks::try_block(double price_weight, double tolerance) {
  load(-1);
  fill_base(price_weight);
  if (m_.limited)
    for (const Member& member : members_)
      for (const Model::Use& u : m_.uses[member.variable]) {
        work_ += kWorkOfUse;
        const Wide room = m_.limit - profile_.most(u.lower, u.upper);
        for (size_t x = 0; x < u.amounts.size(); ++x)
          if (u.amounts[x] > room) base_[member.at + x] = kInfinity;
      }
  std::vector<Overlay> overlay;
  for (int retry = 0; retry < kTuning.primal.retries; ++retry) {
    minimise(overlay);
    bool same = true;
    for (size_t i = 0; i < members_.size() && same; ++i) same = choice_[i] == x_[members_[i].variable];
    if (same) break;
    const double by = change();
    if (by > tolerance || (by == tolerance && by > 0)) break;
    for (size_t i = 0; i < members_.size(); ++i) std::swap(x_[members_[i].variable], choice_[i]);
    load(1);
    if (!m_.limited || profile_.most() <= m_.limit) {
      cost_ += by;
      return true;
    }
    const int time = profile_.peak();
    const double excess = static_cast<double>(profile_.most() - m_.limit);
    load(-1);
    for (size_t i = 0; i < members_.size(); ++i) std::swap(x_[members_[i].variable], choice_[i]);
    auto known = std::find_if(overlay.begin(), overlay.end(), [&](const Overlay& o) { return o.time == time; });
    if (known == overlay.end()) overlay.push_back({time, std::max(1.0, std::abs(by)) / std::max(1.0, excess)});
    else known->price *= kTuning.primal.dearer;
  }
  load(1);
  return false;
}

void Blocks::improve(int size, int64_t work, double tolerance, const std::function<bool()>& stop) {
  const int64_t end = work_ + work;
  for (int64_t count = 0; work_ < end && (count % 64 != 0 || !stop()); ++count) {
    start_block();
    const size_t target = 1 + rng_.below(size);
    const bool paired = m_.limited && rng_.below(2) == 0;
    grow(static_cast<int>(rng_.below(m_.variables())), paired ? 1 + target / 2 : target);
    if (paired)
      if (const int v = companion(); v >= 0) grow(v, target);
    const double weight = m_.limited ? 0.5 * static_cast<double>(rng_.below(3)) : 0;
    try_block(weight, tolerance);
  }
}

}  // namespace partita::solver
