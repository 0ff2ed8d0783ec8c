// Reduces a network, and maps solutions of the reduced network to the original and back.
#include "partita/solver/reduce.h"

#include <algorithm>

#include "partita/solver/reduce_state.h"

namespace partita::solver {

using Kind = ReductionStep::Kind;

Reduction::Inside::Inside(const Network& network, Rules rules) : hand(network) {
  if (!hand.infeasible && !(network.limit && *network.limit < 0)) apply_rules(hand, rules);
  if (is_same()) hand.headroom = 0;
  else left = make_reduced(hand);
}

Reduction::Reduction(const Network& network, Rules rules) : inside_(std::make_unique<Inside>(network, rules)) {}
Reduction::~Reduction() = default;

const Network& Reduction::reduced() const { return inside_->is_same() ? inside_->hand.n : inside_->left.network; }
double Reduction::headroom() const { return inside_->hand.headroom; }
const std::map<std::string, int>& Reduction::counts() const { return inside_->hand.counts; }

std::vector<Certificate::Substitution> Reduction::dominated() const {
  std::vector<Certificate::Substitution> list;
  for (const ReductionStep& s : inside_->hand.steps)
    if (s.kind == Kind::kDominance) list.push_back({s.variable, s.first, s.second});
  return list;
}

namespace {

// Gives an eliminated variable the best value beside its neighbours' values.
void undo_step(const Reducing& r, const ReductionStep& s, Assignment& x) {
  if (s.kind != Kind::kDegreeOne && s.kind != Kind::kDegreeTwo) return;
  const int v = s.variable;
  Wide best = 0;
  x[v] = -1;
  for (int y = 0; y < r.n.domain(v); ++y) {
    if (s.own[y] >= kForbidden) continue;
    Wide cost = s.own[y];
    bool forbidden = false;
    for (int e : {s.first, s.second}) {
      if (e < 0) continue;
      const Side t = r.side(e, v);
      const int64_t pair = t.at(y, x[t.other]);
      forbidden |= pair >= kForbidden;
      cost += pair;
    }
    if (!forbidden && (x[v] < 0 || cost < best)) best = cost, x[v] = y;
  }
  x[v] = std::max(x[v], 0);
}

}  // namespace

Assignment Reduction::lifted(const Assignment& of_reduced) const {
  const Inside& in = *inside_;
  if (in.is_same()) return of_reduced;
  Assignment x(in.hand.n.variables(), 0);
  for (size_t r = 0; r < of_reduced.size(); ++r) x[in.left.original[r]] = in.left.kept_values[r][of_reduced[r]];
  for (size_t i = in.hand.steps.size(); i-- > 0;) undo_step(in.hand, in.hand.steps[i], x);
  return x;
}

Assignment Reduction::lowered(const Assignment& of_original) const {
  const Inside& in = *inside_;
  if (in.is_same()) return of_original;
  Assignment x;
  for (int v : in.left.original) x.push_back(in.left.place[v][of_original[v]]);
  return x;
}

}  // namespace partita::solver
