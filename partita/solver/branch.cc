// Branches and bounds: each part of the space has a dual of its own messages, and the checker closes it.
#include "partita/solver/branch.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

constexpr const Tuning::Branch& kBranch = kTuning.branch;

}  // namespace

Branch::Branch(const Model& model, const LeafChecker& checker, const Alive& alive, const Certificate::Leaf* messages)
    : m_(model), checker_(checker), dual_(model), root_alive_(alive) {
  if (messages) dual_.begin(*messages);
  Part root;
  root.alive = alive;
  root.state = dual_.state();
  stored_ = static_cast<int64_t>(root.state.messages.size());
  open_.push_back(std::move(root));
  loaded_ = open_.end();
}

double Branch::bound() const {
  double bound = closed_bound_ ? static_cast<double>(*closed_bound_) : kInfinity;
  for (const Part& p : open_) bound = std::min(bound, p.bound);
  return bound;
}

double Branch::most_prices() const {
  double most = root_state().all_prices();
  for (const Part& p : open_) most = std::max(most, p.state.all_prices());
  return most;
}

Assignment Branch::believed() const {
  const auto& beliefs = dual_.beliefs();
  Assignment x(m_.variables());
  for (int v = 0; v < m_.variables(); ++v)
    x[v] = static_cast<int>(std::min_element(beliefs.begin() + m_.offset[v], beliefs.begin() + m_.offset[v + 1]) -
                            (beliefs.begin() + m_.offset[v]));
  return x;
}

std::vector<double> Branch::least_costs() {
  dual_.set(root_state(), root_alive_);
  loaded_ = open_.end();
  passes_ += 2;
  work_ += 2 * (2 * m_.sweep + m_.offset.back());
  return dual_.least_costs();
}

void Branch::load(Parts::iterator part) {
  if (loaded_ == part) return;
  dual_.set(part->state, part->alive);
  loaded_ = part;
}

void Branch::one_pass(Part& part, const std::optional<Wide>& incumbent) {
  part.pass(dual_, part.alive, incumbent ? std::optional<double>(static_cast<double>(*incumbent)) : std::nullopt,
            part.decisions.empty() ? kBranch.passes_before_prices : 0);
  ++passes_;
  work_ += 2 * m_.sweep + m_.offset.back();
}

bool Branch::stalled(const Part& part) const {
  const int most_shrinks = !m_.limited              ? kBranch.shrinks_unlimited
                           : part.decisions.empty() ? kBranch.shrinks_of_root
                                                    : kBranch.shrinks;
  return part.shrinks >= most_shrinks;
}

// Tells whether a proof shows that the part holds nothing better. It is only tried if the bound in doubles is near,
// unless it must be.
bool Branch::closes(const Part& part, const std::optional<Wide>& incumbent, bool must) {
  constexpr double kRounding = 1e-9;
  constexpr int kTryNearEvery = 8;
  const double needed = static_cast<double>(incumbent.value_or(checker_.most())) - 1,
               near = kRounding * std::max(1.0, std::abs(needed));
  if (!must && (part.bound < needed - near || (part.bound < needed + near && part.passes % kTryNearEvery != 0)))
    return false;
  Certificate::Leaf leaf = dual_.leaf(part.state, part.alive);
  leaf.decisions = part.decisions;
  if (must) leaf.multipliers.clear();  // nothing is open: prices only lower the cost of the one choice
  const std::optional<Wide> bound = checker_.bound(leaf);
  if (bound && (!incumbent || *bound < *incumbent)) return false;
  if (bound && (!closed_bound_ || *bound < *closed_bound_)) closed_bound_ = bound;
  closed_.push_back(std::move(leaf));
  return true;
}

int Branch::branching_variable(const Part& part) const {
  auto open = [&](int v) {
    return std::count(&part.alive[m_.offset[v]], &part.alive[m_.offset[v]] + m_.domain(v), 1) > 1;
  };
  const std::vector<double> slacks = dual_.slacks();
  int best = -1;
  for (int v = 0; v < m_.originals; ++v) {
    if (open(v) && (best < 0 || slacks[v] > slacks[best])) best = v;
  }
  if (best < 0 || !m_.limited || slacks[best] > kBranch.agrees * std::max(1.0, std::abs(part.bound)) / m_.originals)
    return best;
  // The choice agrees with itself: so it breaks the limit, or does not use up the prices.
  const std::vector<double> load =
      use_by_time(m_, [&](int v, const Model::Use& u) { return static_cast<double>(u.amounts[dual_.rounded()[v]]); });
  size_t time = 0;
  double worst = -kInfinity;
  for (size_t t = 0; t < load.size(); ++t) {
    const double excess = load[t] - static_cast<double>(m_.limit),
                 score = excess > 0 ? 1e30 + excess : -excess * dual_.state().prices[t];
    if (score > worst) worst = score, time = t;
  }
  double widest = -1;
  for (int v = 0; v < m_.originals; ++v) {
    if (!open(v)) continue;
    for (const Model::Use& u : m_.uses[v]) {
      if (static_cast<size_t>(u.lower) > time || static_cast<size_t>(u.upper) <= time) continue;
      int64_t least = INT64_MAX, most = 0;
      for (size_t x = 0; x < u.amounts.size(); ++x)
        if (part.alive[m_.offset[v] + x]) least = std::min(least, u.amounts[x]), most = std::max(most, u.amounts[x]);
      if (static_cast<double>(most - least) > widest && most > least)
        widest = static_cast<double>(most - least), best = v;
    }
  }
  return best;
}

bool Branch::split(Parts::iterator part) {
  dual_.set(part->state, part->alive);
  loaded_ = part;
  const double bound = dual_.pass();
  ++passes_;
  work_ += 2 * m_.sweep + m_.offset.back();
  if (bound > part->bound) part->bound = bound, part->state = dual_.state();
  const int v = branching_variable(*part);
  if (v < 0) return false;
  if (part->decisions.empty()) root_ = part->state, root_bound_ = part->bound;
  const int chosen = dual_.rounded()[v];
  std::vector<int> rest;  // values that are not alive too: the children partition the domain
  for (int x = 0; x < m_.domain(v); ++x)
    if (x != chosen) rest.push_back(x);
  for (const std::vector<int>& values : {std::vector<int>{chosen}, rest}) {
    Part child;
    child.decisions = part->decisions;
    child.decisions.push_back({v, values});
    child.alive = part->alive;
    for (int x = 0; x < m_.domain(v); ++x)
      if (std::find(values.begin(), values.end(), x) == values.end()) child.alive[m_.offset[v] + x] = 0;
    ++parts_;
    if (!propagate(m_, child.alive)) {
      closed_.push_back({1, child.decisions, {}, {}});
      continue;
    }
    child.state = part->state;
    child.bound = part->bound;
    child.rate = std::max(part->rate, kBranch.least_rate);
    stored_ += static_cast<int64_t>(child.state.messages.size());
    open_.push_back(std::move(child));
  }
  open_.erase(part);
  loaded_ = open_.end();
  full_ = stored_ > kBranch.stored_most;
  return true;
}

void Branch::close(Parts::iterator part) {
  if (part->decisions.empty()) root_ = part->state, root_bound_ = part->bound;
  stored_ += static_cast<int64_t>(part->state.messages.size());
  open_.erase(part);
  loaded_ = open_.end();
}

void Branch::advance(int64_t work, std::optional<Wide> incumbent,
                     const std::function<std::optional<Wide>(const Assignment&)>& found,
                     const std::function<bool()>& stop) {
  const int64_t end = work_ + work;
  do {
    auto worst =
        std::min_element(open_.begin(), open_.end(), [](const Part& a, const Part& b) { return a.bound < b.bound; });
    if (worst == open_.end()) return;
    load(worst);
    for (int i = 0; i < kTuning.ascent.stale_passes && !stop() && (i == 0 || work_ < end); ++i) {
      one_pass(*worst, incumbent);
      incumbent = found(dual_.rounded());
      if (closes(*worst, incumbent, false)) {
        close(worst);
        break;
      }
      if (!stalled(*worst)) continue;
      worst->shrinks = 0;
      if (full_ || split(worst)) break;
      ensure(closes(*worst, incumbent, true),
             "a part with nothing open holds neither a solution nor a proof that it has none");
      close(worst);
      break;
    }
  } while (work_ < end && !stop() && !done());
}

Certificate Branch::certificate() const {
  Certificate c;
  c.leaves = closed_;
  c.bound = closed_bound_;
  for (const Part& p : open_) {
    c.leaves.push_back(dual_.leaf(p.state, p.alive));
    c.leaves.back().decisions = p.decisions;
    if (const auto bound = checker_.bound(c.leaves.back()); bound && (!c.bound || *bound < *c.bound)) c.bound = bound;
  }
  return c;
}

}  // namespace partita::solver
