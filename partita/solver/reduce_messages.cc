// Maps messages of a reduced network to the original so that they prove the same, and back. Each step has its
// counterpart in messages (reduce.h has the table).
#include <algorithm>

#include "partita/solver/model.h"
#include "partita/solver/reduce_state.h"

namespace partita::solver {

namespace {

using Kind = ReductionStep::Kind;

// Messages at the two ends of each edge of a reduction, to a and to b; empty: all are 0.
struct Ends {
  std::vector<int64_t> a, b;
};

// [variable][value]: not forbidden, and not dominated at this point of undoing.
using There = std::vector<std::vector<char>>;

int64_t clamped(Wide value) {
  constexpr Wide kMost = Wide{4'000'000'000'000'000'000};
  return static_cast<int64_t>(std::clamp(value, -kMost, kMost));
}

std::vector<int64_t>& end(const Reducing& r, std::vector<Ends>& ends, int e, int v) {
  std::vector<int64_t>& values = v == r.edges[e].a ? ends[e].a : ends[e].b;
  if (values.empty()) values.assign(r.n.domain(v), 0);
  return values;
}

There there_at_the_end(const Reducing& r) {
  There there;
  for (const Table& costs : r.unary) {
    there.emplace_back();
    for (int64_t c : costs) there.back().push_back(c < kForbidden);
  }
  return there;
}

// min over the other end of s table - messages there. Removed values get messages of their own only once their
// dominance is undone, and do not count other removed values.
std::vector<int64_t> transformed(const Reducing& r, const Side& s, const std::vector<int64_t>& messages, int64_t scale,
                                 const There& there) {
  std::vector<int64_t> out;
  for (int x = 0; x < r.n.domain(s.own); ++x) {
    bool any = false;
    Wide least = 0;
    for (int z = 0; there[s.own][x] && z < r.n.domain(s.other); ++z) {
      if (!there[s.other][z] || messages[z] == kNotThere || s.at(x, z) >= kForbidden) continue;
      const Wide cost = Wide{scale} * s.at(x, z) - messages[z];
      if (!any || cost < least) least = cost, any = true;
    }
    out.push_back(any ? clamped(least) : kNotThere);
  }
  return out;
}

void undo_dominance(const Reducing& r, const ReductionStep& s, int64_t scale, There& there, std::vector<Ends>& ends) {
  there[s.variable][s.first] = 1;
  for (const auto& [e, difference] : s.differences) {
    std::vector<int64_t>& messages = end(r, ends, e, s.variable);
    messages[s.first] =
        messages[s.second] == kNotThere ? kNotThere : clamped(messages[s.second] + Wide{scale} * difference);
  }
}

void undo_degree_two(const Reducing& r, const ReductionStep& s, int64_t scale, const There& there,
                     std::vector<Ends>& ends) {
  for (int e : {s.first, s.second}) {
    const int other = r.side(e, s.variable).other;
    end(r, ends, e, other) = end(r, ends, s.made, other);
  }
  for (int e : {s.first, s.second}) {
    const Side side = r.side(e, s.variable);
    end(r, ends, e, s.variable) = transformed(r, side, end(r, ends, e, side.other), scale, there);
  }
  ends[s.made] = {};
}

// Undoes a variable that was fixed, or of degree one.
void undo_single(const Reducing& r, const ReductionStep& s, int64_t scale, const There& there,
                 std::vector<Ends>& ends) {
  const int v = s.variable, other = r.side(s.first, v).other;
  std::vector<int64_t>& own = end(r, ends, s.first, v);
  for (int x = 0; x < r.n.domain(v); ++x) {
    if (s.kind == Kind::kDegreeOne) own[x] = s.own[x] >= kForbidden ? kNotThere : clamped(-Wide{scale} * s.own[x]);
    else own[x] = x == s.own[0] ? 0 : kNotThere;
  }
  end(r, ends, s.first, other) = transformed(r, r.side(s.first, other), own, scale, there);
}

void undo_step(const Reducing& r, const ReductionStep& s, int64_t scale, There& there, std::vector<Ends>& ends) {
  if (s.kind == Kind::kDominance) return undo_dominance(r, s, scale, there, ends);
  if (s.kind == Kind::kDegreeTwo) return undo_degree_two(r, s, scale, there, ends);
  undo_single(r, s, scale, there, ends);
}

std::vector<Certificate::Decision> lifted(const std::vector<Certificate::Decision>& decisions, const Reducing& hand,
                                          const Reduced& left) {
  std::vector<Certificate::Decision> out;
  for (const Certificate::Decision& d : decisions) {
    const int v = left.original[d.variable];
    out.push_back({v, {}});
    for (int x = 0; x < hand.n.domain(v); ++x)
      if (std::binary_search(d.values.begin(), d.values.end(), left.place[v][x])) out.back().values.push_back(x);
  }
  return out;
}

// The reduced network's messages at the ends of the remaining edges; those of unchanged edges go to the leaf.
std::vector<Ends> ends_of_reduced(const Certificate::Leaf& of_reduced, const Reducing& hand, const Reduced& left,
                                  Certificate::Leaf& leaf) {
  std::vector<Ends> ends(hand.edges.size());
  for (const Certificate::Message& m : of_reduced.messages) {
    std::vector<int> variables;
    for (int r : m.variables) variables.push_back(left.original[r]);
    const auto at = variables.size() == 2 ? hand.at.find({variables[0], variables[1]}) : hand.at.end();
    if (at == hand.at.end()) {
      leaf.messages.push_back({variables, m.ends});
      continue;
    }
    for (size_t i = 0; i < 2; ++i) {
      if (m.ends[i].empty()) continue;
      std::vector<int64_t>& to = end(hand, ends, at->second, variables[i]);
      std::fill(to.begin(), to.end(), kNotThere);
      for (size_t x = 0; x < m.ends[i].size(); ++x) to[left.kept_values[m.variables[i]][x]] = m.ends[i][x];
    }
  }
  return ends;
}

}  // namespace

Certificate::Leaf Reduction::lifted(const Certificate::Leaf& of_reduced) const {
  const Reducing& hand = inside_->hand;
  Certificate::Leaf leaf{of_reduced.scale, {}, {}, of_reduced.multipliers};
  if (inside_->is_same()) {
    leaf = of_reduced;
  } else {
    leaf.decisions = solver::lifted(of_reduced.decisions, hand, inside_->left);
    std::vector<Ends> ends = ends_of_reduced(of_reduced, hand, inside_->left, leaf);
    There there = there_at_the_end(hand);
    for (size_t i = hand.steps.size(); i-- > 0;) undo_step(hand, hand.steps[i], leaf.scale, there, ends);
    for (size_t e = 0; e < ends.size(); ++e)
      if (!ends[e].a.empty() || !ends[e].b.empty())
        leaf.messages.push_back({{hand.edges[e].a, hand.edges[e].b}, {std::move(ends[e].a), std::move(ends[e].b)}});
  }
  for (Certificate::Message& m : leaf.messages)
    for (auto& values : m.ends)
      for (int64_t& value : values)
        if (value == kNotThere) value = 0;
  return leaf;
}

// A step removes a variable with its edges. The messages at the far ends of the two edges that degree two takes become
// those of the new edge; all others are in costs now.
Certificate::Leaf Reduction::lowered(const Certificate::Leaf& of_original) const {
  const Reducing& hand = inside_->hand;
  const Reduced& left = inside_->left;
  if (inside_->is_same()) return of_original;
  Certificate::Leaf leaf{of_original.scale, {}, {}, of_original.multipliers};
  std::map<std::vector<int>, int> known;  // edges by their variables
  for (size_t e = 0; e < hand.original_edges; ++e) known[{hand.edges[e].a, hand.edges[e].b}] = static_cast<int>(e);
  std::vector<Ends> ends(hand.edges.size());
  for (const Certificate::Message& m : of_original.messages) {
    if (const auto at = known.find(m.variables); at != known.end()) {
      ends[at->second] = {m.ends[0], m.ends[1]};
      continue;
    }
    leaf.messages.push_back(m);  // of an edge that is unchanged
    for (int& v : leaf.messages.back().variables) v = left.number[v];
  }
  for (const ReductionStep& s : hand.steps)
    if (s.kind == Kind::kDegreeTwo) {
      const Side first = hand.side(s.first, s.variable), second = hand.side(s.second, s.variable);
      ends[s.made] = {end(hand, ends, s.first, first.other), end(hand, ends, s.second, second.other)};
    }
  for (size_t e = 0; e < hand.edges.size(); ++e) {
    const ReducedEdge& edge = hand.edges[e];
    if (edge.gone || (ends[e].a.empty() && ends[e].b.empty())) continue;
    leaf.messages.push_back({{left.number[edge.a], left.number[edge.b]}, {{}, {}}});
    for (const auto& [v, place] : {std::pair(edge.a, 0), std::pair(edge.b, 1)}) {
      const std::vector<int64_t>& values = end(hand, ends, static_cast<int>(e), v);
      for (int x : left.kept_values[left.number[v]]) leaf.messages.back().ends[place].push_back(values[x]);
    }
  }
  return leaf;
}

}  // namespace partita::solver
