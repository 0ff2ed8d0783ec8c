// Derives and enumerates strategies: docs/inside/TDL.md, section 4.
#include <algorithm>
#include <cctype>

#include "partita/base/error.h"
#include "partita/tdl/analysis.h"
#include "partita/tdl/mutant.h"
#include "partita/tdl/syntax.h"

namespace partita::tdl {
namespace {

constexpr size_t kMostSets = 64;  // sets of partial operands tried for one strategy

struct AxisPlan {
  std::vector<int> split;     // indices
  std::vector<Kind> partial;  // per operand
};

// Resolves the indices and operands that a strategy names; why not, if it can't exist for its names alone.
std::string resolve(const Analysis& analysis, const AxisStrategy& strategy, AxisPlan& plan) {
  const Bound& bound = *analysis.bound;
  plan.partial.assign(bound.operand_count, std::nullopt);
  for (const std::string& name : strategy.names) {
    const int index = bound.find_index(name);
    if (index < 0) return fmt::format("there is no index {}", name);
    if (!bound.indices[index].splittable) return fmt::format("{} can't be split", name);
    if (std::find(plan.split.begin(), plan.split.end(), index) != plan.split.end())
      return fmt::format("{} is named twice", name);
    plan.split.push_back(index);
  }
  for (const std::string& name : strategy.partial) {
    const int tensor = bound.find_tensor(name);
    if (tensor < 0 || tensor >= bound.operand_count) return fmt::format("there is no operand {}", name);
    plan.partial[tensor] = strategy.reducer;
  }
  for (const StageAnalysis& s : analysis.stages) {  // (10)
    int met = 0;
    for (int i : plan.split) met += s.has(i);
    if (met > 1 && !MUTANT("set_meets")) return "two of the names meet in one stage";
  }
  return "";
}

// Checks the conditions on a strategy beyond its kinds (15).
std::string refused(const Bound& bound, const AxisStrategy& strategy, const AxisKinds& kinds) {
  if (!kinds.exists) return kinds.why;
  if (!strategy.names.empty() || strategy.partial.empty()) return "";
  if (kinds.conversions > 0) return "partial operands would need a conversion inside";
  const bool leaves =
      std::any_of(bound.results.begin(), bound.results.end(), [&](int r) { return kinds.first[r].has_value(); });
  return leaves ? "" : "no result would be partial";
}

// Computes the boxes that each position owns of each stage's tensor.
bool boxes_exist(const Analysis& analysis, const Boxes& ranges, std::string& why, std::vector<Boxes>* boxes = nullptr) {
  Boxes owned;
  for (size_t s = 0; s < analysis.stages.size(); ++s) {
    const int tensor = analysis.bound->stages[s].tensor;
    if (!owned_boxes(analysis, static_cast<int>(s), ranges, owned)) {
      why = fmt::format("a position's part of {} is not one box", analysis.bound->tensors[tensor].name);
      return false;
    }
    if (boxes) (*boxes)[tensor] = std::move(owned);
  }
  return true;
}

// Applies rule 12 over all axes: why a tensor cannot be as the axes have it; empty if it can.
std::string refused_on_mesh(const Bound& bound, const std::vector<AxisKinds>& kinds) {
  for (size_t t = 0; t < bound.tensors.size(); ++t) {
    Kind seen;
    for (const AxisKinds& k : kinds) {
      if (seen && k.first[t] && k.first[t] != seen)
        return fmt::format("{} would be partial under two reducers", bound.tensors[t].name);
      if (k.first[t]) seen = k.first[t];
    }
  }
  return "";
}

std::optional<Derived> derive(const Analysis& analysis, const std::vector<int>& mesh,
                              const std::vector<AxisStrategy>& axes, RegionCache* known, std::string& why) {
  const Bound& bound = *analysis.bound;
  Derived d;
  d.mesh = mesh;
  d.axes = axes;
  std::vector<std::vector<int>> split;
  std::vector<AxisKinds> kinds;
  for (const AxisStrategy& axis : axes) {
    AxisPlan plan;
    why = resolve(analysis, axis, plan);
    if (!why.empty()) return std::nullopt;
    kinds.push_back(kinds_on_axis(analysis, plan.split, plan.partial));
    why = refused(bound, axis, kinds.back());
    if (!why.empty()) return std::nullopt;
    split.push_back(std::move(plan.split));
  }
  why = refused_on_mesh(bound, kinds);
  if (!why.empty()) return std::nullopt;
  d.ranges = ranges_on_mesh(bound, mesh, split);
  for (const BoundTensor& t : bound.tensors) d.boxes.push_back(Boxes::everywhere(mesh, empty_box(t.factored.size())));
  std::vector<Boxes> owned = d.boxes;
  if (!boxes_exist(analysis, d.ranges, why, &owned)) return std::nullopt;
  for (const AxisKinds& k : kinds) {
    d.kinds.push_back(k.first);
    d.final_kinds.push_back(k.first);
    for (size_t t = 0; t < bound.tensors.size(); ++t)
      if (k.whole_before[t] >= 0) d.final_kinds.back()[t] = std::nullopt;
  }

  for (int s = 0; s < static_cast<int>(bound.stages.size()); ++s) {
    for (int t = bound.operand_count; t < static_cast<int>(bound.tensors.size()); ++t) {
      InnerStep whole{s, t, {}, Reducer::kSum, {}};
      for (size_t axis = 0; axis < kinds.size(); ++axis) {
        if (kinds[axis].whole_before[t] != s || mesh[axis] == 1) continue;
        whole.axes.push_back(static_cast<int>(axis));
        whole.reducer = *kinds[axis].first[t];
      }
      if (!whole.axes.empty()) d.inner.push_back(std::move(whole));
    }
    for (int t = 0; t < static_cast<int>(bound.tensors.size()); ++t) {
      Boxes reads = stage_reads(analysis, s, t, d.ranges, split, known);
      if (t < bound.operand_count) {
        d.boxes[t] = hull(d.boxes[t], reads);
        continue;
      }
      if (contains(d.boxes[t], reads)) continue;
      InnerStep fetch{s, t, {}, Reducer::kSum, {}};
      fetch.needed = std::move(reads);
      d.inner.push_back(std::move(fetch));
    }
    d.boxes[bound.stages[s].tensor] = std::move(owned[bound.stages[s].tensor]);
  }
  return d;
}

// ------------------------------------------------------------ enumeration

AxisStrategy strategy_of(const Bound& bound, const std::vector<int>& split, const std::vector<Kind>& partial) {
  AxisStrategy s;
  for (int i : split) s.names.push_back(bound.indices[i].name);
  std::sort(s.names.begin(), s.names.end());
  for (int t = 0; t < bound.operand_count; ++t) {
    if (!partial[t]) continue;
    s.partial.push_back(bound.tensors[t].name);
    s.reducer = *partial[t];
  }
  return s;
}

int count_partial(const std::vector<Kind>& partial) {
  return static_cast<int>(std::count_if(partial.begin(), partial.end(), [](Kind k) { return k.has_value(); }));
}

// Adds the sets that joining reaches from one; a strategy has one reducer.
void add_joined(const AxisKinds& kinds, const std::vector<Kind>& partial, std::vector<std::vector<Kind>>& queue) {
  for (const AxisKinds::Join& join : kinds.joins) {
    if (std::any_of(partial.begin(), partial.end(), [&](Kind k) { return k && *k != join.reducer; })) continue;
    std::vector<Kind> more = partial;
    for (int t : join.operands) more[t] = join.reducer;
    if (std::find(queue.begin(), queue.end(), more) == queue.end()) queue.push_back(std::move(more));
  }
}

// Adds a split's offers (14): with the joined operands that leave the fewest conversions, then without any.
void add_split(const Analysis& analysis, const std::vector<int>& split, std::vector<AxisStrategy>& out) {
  const Bound& bound = *analysis.bound;
  struct Offer {
    int conversions, size;
    std::vector<Kind> partial;
  };
  const std::vector<Kind> none(bound.operand_count, std::nullopt);
  std::optional<Offer> best, plain;
  std::vector<std::vector<Kind>> queue = {none};
  for (size_t i = 0; i < queue.size() && queue.size() < kMostSets; ++i) {
    const std::vector<Kind> partial = queue[i];
    const AxisKinds kinds = kinds_on_axis(analysis, split, partial);
    if (kinds.exists) {
      Offer offer{kinds.conversions, count_partial(partial), partial};
      if (i == 0) plain = offer;
      if (!best || std::pair(offer.conversions, offer.size) < std::pair(best->conversions, best->size)) best = offer;
      if (kinds.conversions == 0) continue;
    }
    add_joined(kinds, partial, queue);
  }
  if (best) out.push_back(strategy_of(bound, split, best->partial));
  if (plain && plain->partial != best->partial) out.push_back(strategy_of(bound, split, plain->partial));
}

// Adds the smallest sets of partial operands that are closed (15), by size, then by position.
void add_partial(const Analysis& analysis, Reducer r, std::vector<AxisStrategy>& out) {
  const Bound& bound = *analysis.bound;
  const std::vector<Kind> none(bound.operand_count, std::nullopt);
  std::vector<std::vector<Kind>> queue, closed;
  for (int t = 0; t < bound.operand_count; ++t) {
    queue.push_back(none);
    queue.back()[t] = r;
  }
  for (size_t i = 0; i < queue.size() && queue.size() < kMostSets + 4 * bound.operand_count; ++i) {
    const std::vector<Kind> partial = queue[i];
    const AxisKinds kinds = kinds_on_axis(analysis, {}, partial);
    if (refused(bound, strategy_of(bound, {}, partial), kinds).empty()) {
      closed.push_back(partial);
      continue;
    }
    add_joined(kinds, partial, queue);
  }
  auto positions = [](const std::vector<Kind>& partial) {
    std::vector<size_t> p;
    for (size_t t = 0; t < partial.size(); ++t)
      if (partial[t]) p.push_back(t);
    return p;
  };
  std::sort(closed.begin(), closed.end(), [&](const auto& a, const auto& b) {
    return std::pair(count_partial(a), positions(a)) < std::pair(count_partial(b), positions(b));
  });
  std::vector<std::vector<size_t>> kept;
  for (const auto& partial : closed) {
    const std::vector<size_t> set = positions(partial);
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const auto& k) { return std::includes(set.begin(), set.end(), k.begin(), k.end()); }))
      continue;
    kept.push_back(set);
    out.push_back(strategy_of(bound, {}, partial));
  }
}

void must_be_a_mesh(const std::vector<int>& mesh) {
  ensure(std::all_of(mesh.begin(), mesh.end(), [](int p) { return p > 0; }), "derive: a mesh axis without positions");
}

std::optional<Derived> derived_of(const Analysis& analysis, const std::vector<int>& mesh,
                                  const std::vector<AxisStrategy>& axes, RegionCache* known, NotDerived* why) {
  ensure(mesh.size() == axes.size(), "derive: {} mesh axes and {} strategies", mesh.size(), axes.size());
  std::string reason;
  auto derived = derive(analysis, mesh, axes, known, reason);
  if (!derived && why) why->why = reason;
  return derived;
}

}  // namespace

std::optional<Derived> derive(const Bound& bound, const std::vector<int>& mesh, const std::vector<AxisStrategy>& axes,
                              NotDerived* why) {
  must_be_a_mesh(mesh);
  return derived_of(analyze(bound), mesh, axes, nullptr, why);
}

struct Deriver::Inside {
  Analysis analysis;
  std::vector<int> mesh;
  RegionCache known;
};

Deriver::Deriver(const Bound& bound, std::vector<int> mesh)
    : inside_(std::make_unique<Inside>(Inside{analyze(bound), std::move(mesh), {}})) {
  must_be_a_mesh(inside_->mesh);
}
Deriver::~Deriver() = default;

std::optional<Derived> Deriver::derive(const std::vector<AxisStrategy>& axes, NotDerived* why) {
  return derived_of(inside_->analysis, inside_->mesh, axes, &inside_->known, why);
}

std::vector<AxisStrategy> strategies(const Bound& bound, int p) {
  const Analysis analysis = analyze(bound);
  std::vector<AxisStrategy> out;
  std::vector<int> names;
  std::string why;
  for (int i = 0; i < static_cast<int>(bound.indices.size()); ++i) {
    if (!bound.indices[i].splittable || bound.indices[i].extent < 2) continue;
    if (boxes_exist(analysis, ranges_on_mesh(bound, {p}, {{i}}), why)) names.push_back(i);
  }
  for (int i : names) add_split(analysis, {i}, out);
  for (size_t a = 0; a < names.size(); ++a)
    for (size_t b = a + 1; b < names.size(); ++b) {
      const bool meet = std::any_of(analysis.stages.begin(), analysis.stages.end(),
                                    [&](const StageAnalysis& s) { return s.has(names[a]) && s.has(names[b]); });
      if (!meet && boxes_exist(analysis, ranges_on_mesh(bound, {p}, {{names[a], names[b]}}), why))
        add_split(analysis, {names[a], names[b]}, out);
    }
  for (Reducer r : {Reducer::kSum, Reducer::kMax, Reducer::kMin, Reducer::kProd}) add_partial(analysis, r, out);
  out.push_back({});
  return out;
}

std::string to_string(const AxisStrategy& s) {
  if (s.replicate()) return "replicate";
  std::string text;
  if (s.names.size() == 1) text = s.names[0];
  if (s.names.size() > 1) text = fmt::format("{{{}}}", fmt::join(s.names, " "));
  if (s.partial.empty()) return text;
  const std::string reducer = s.reducer == Reducer::kSum ? "" : fmt::format(":{}", name_of(s.reducer));
  return fmt::format("{}{}partial{}{{{}}}", text, text.empty() ? "" : " ", reducer, fmt::join(s.partial, ","));
}

namespace {

// A place in a strategy's text.
struct StrategyText {
  std::string_view text;
  size_t i = 0;

  [[noreturn]] void error(const char* expected) const {
    fail("strategy '{}': expected {} at column {}", text, expected, i + 1);
  }
  bool at_end() const { return i >= text.size(); }
  bool at(char c) const { return !at_end() && text[i] == c; }
  bool at_partial() const { return text.substr(i).starts_with("partial{") || text.substr(i).starts_with("partial:"); }
  void skip() {
    while (at(' ')) ++i;
  }
  // A word of letters, digits and `more`.
  std::string word(std::string_view more) {
    const size_t begin = i;
    while (!at_end() &&
           (std::isalnum(static_cast<unsigned char>(text[i])) || more.find(text[i]) != std::string_view::npos))
      ++i;
    if (i == begin) error("a name");
    return std::string(text.substr(begin, i - begin));
  }
};

// "k", "{j m}"
void parse_names(StrategyText& t, AxisStrategy& s) {
  if (t.at('{')) {
    ++t.i;
    t.skip();
    while (!t.at_end() && !t.at('}')) {
      s.names.push_back(t.word("_."));
      t.skip();
    }
    if (t.at_end()) t.error("'}'");
    ++t.i;
  } else {
    s.names.push_back(t.word("_."));
  }
  std::sort(s.names.begin(), s.names.end());
}

// "partial{a, b}", "partial:max{a}"
void parse_partial(StrategyText& t, AxisStrategy& s) {
  t.i += std::string_view("partial").size();
  if (t.at(':')) {
    ++t.i;
    const std::string name = t.word("");
    const std::optional<Reducer> reducer = find_reducer(name);
    if (!reducer) fail("strategy '{}': there is no reducer {}", t.text, name);
    s.reducer = *reducer;
  }
  if (!t.at('{')) t.error("'{'");
  do {
    ++t.i;
    t.skip();
    s.partial.push_back(t.word("_"));
    t.skip();
  } while (t.at(','));
  if (!t.at('}')) t.error("'}'");
  ++t.i;
}

}  // namespace

AxisStrategy parse_strategy(std::string_view text) {
  AxisStrategy s;
  StrategyText t{text};
  t.skip();
  if (text.substr(t.i) == "replicate") return s;
  if (!t.at_partial()) {
    parse_names(t, s);
    t.skip();
  }
  if (!t.at_end()) {
    if (!t.at_partial()) t.error("'partial{'");
    parse_partial(t, s);
    t.skip();
  }
  if (!t.at_end()) t.error("the end");
  return s;
}

}  // namespace partita::tdl
