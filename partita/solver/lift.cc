// Solves the dual of a folding: passes over all values or likely ones, and its messages for the whole network.
#include "partita/solver/lift.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "partita/solver/narrow.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

// Numbers the model's pairs: the edges over two different variables, however often they name them. Only edges that name
// them once have messages.
std::vector<int> number_pairs(const Network& n) {
  std::vector<int> pairs;
  int count = 0;
  for (const Network::Edge& e : n.edges) {
    const bool is_pair = std::set<int>(e.variables.begin(), e.variables.end()).size() == 2;
    pairs.push_back(e.over_two() ? count : -1);
    count += is_pair;
  }
  return pairs;
}

// Keeps the limit at one time only: the one with most certain use. There, most copies folded into one see the same
// price. At other times one copy each sees a price, and messages for the mean of the copies fit none.
Model at_fullest(Model m) {
  if (m.times.empty()) return m;
  const std::vector<double> load = use_by_time(m, [](int, const Model::Use& u) {
    return static_cast<double>(*std::min_element(u.amounts.begin(), u.amounts.end()));
  });
  const auto fullest = static_cast<int>(std::max_element(load.begin(), load.end()) - load.begin());
  for (auto& uses : m.uses) {
    std::erase_if(uses, [&](const Model::Use& u) { return u.lower > fullest || u.upper <= fullest; });
    for (Model::Use& u : uses) u.lower = 0, u.upper = 1;
  }
  m.times = {m.times[fullest]};
  return m;
}

Model without_limit(Model m) {
  for (auto& uses : m.uses) uses.clear();
  m.times.clear();
  m.limited = false;
  return m;
}

}  // namespace

LiftedDual::LiftedDual(Folding::Folded folded, PairTables& known, bool priced)
    : folded_(std::move(folded)),
      pair_of_(number_pairs(folded_.once)),
      model_((priced ? at_fullest : without_limit)(compile_apart(folded_.once, folded_.times, known))),
      dual_(model_),
      alive_(model_.unary.size(), 1) {}

void LiftedDual::begin(const LiftedDual& coarser) {
  messages_first_ = kTuning.lift.messages_first_begun;
  ascent_.rate = coarser.ascent_.rate;
  if (model_.times == coarser.model_.times) dual_.set_prices(coarser.dual_.state().prices);
  std::vector<char> begun(pair_of_.size(), 0);
  for (size_t whole = 0; whole < folded_.edge_of.size(); ++whole) {
    const int fine = folded_.edge_of[whole], to = pair_of_[fine],
              from = coarser.pair_of_[coarser.folded_.edge_of[whole]];
    if (std::exchange(begun[fine], 1) || to < 0 || from < 0) continue;
    for (int end : {0, 1}) {
      const double* messages = coarser.dual_.message(from, end);
      const int values = folded_.once.domain(folded_.once.edges[fine].variables[end]);
      std::transform(messages, messages + values, dual_.message(to, end), [](double m) {
        return std::isfinite(m) ? m : 0;
      });  // solutions of the finer may take values that none of the coarser takes
    }
  }
}

double LiftedDual::run(int most, std::optional<Wide> best, const std::function<bool()>& stop, double next_to_nothing) {
  constexpr const Tuning::Lift& t = kTuning.lift;
  if (model_.limited) {
    const std::optional<double> target = best ? std::optional<double>(static_cast<double>(*best)) : std::nullopt;
    auto closed = [&] { return target && ascent_.bound >= *target - t.no_gap * std::abs(*target); };
    for (int pass = 1; pass <= most && ascent_.shrinks < t.shrinks && !closed() && !stop(); ++pass)
      ascent_.pass(dual_, alive_, target, messages_first_);
    if (ascent_.bound > -kInfinity) dual_.set(ascent_.state, alive_);
    return ascent_.bound;
  }
  double bound = -kInfinity, now = -kInfinity;
  for (int pass = 1; pass <= most && !stop(); ++pass) {
    now = dual_.pass();
    if (pass % t.window != 0) continue;
    if (now - bound <= next_to_nothing * std::abs(now)) break;
    bound = now;
  }
  return now;
}

bool LiftedDual::run_narrowed(double share, int most, const std::optional<Assignment>& solution,
                              const std::function<bool()>& stop) {
  constexpr const Tuning::Lift& t = kTuning.lift;
  if (model_.limited) return false;
  const Dual::State before = dual_.state();
  const std::vector<double> least = least_costs_of_one();
  const double bound = bound_from_least_costs(model_, least);
  if (!std::isfinite(bound)) {  // if there is no solution
    dual_.set(before, alive_);
    return false;
  }
  double room = 0;  // above the bound
  for (double c : least)
    if (c < kInfinity) room = std::max(room, c - bound);
  for (int i = 0;
       i < t.halvings && static_cast<double>(sweep_entries(model_, values_within_cost(bound + room / 2, least))) >=
                             share * static_cast<double>(model_.sweep);
       ++i)
    room /= 2;
  const Subset left = subset_of_alive(folded_.once, model_, values_within_cost(bound + room, least),
                                      solution ? std::optional(folded_.of_folded(*solution)) : std::nullopt);
  PairTables tables;
  LiftedDual narrow({{}, left.network(), {}, folded_.times}, tables, false);
  auto each_message = [&](const auto& go) {  // the narrow dual's message, ours, and the values that it has
    for (size_t e = 0; e < pair_of_.size(); ++e)
      for (int end : {0, 1})
        if (pair_of_[e] >= 0)
          go(narrow.dual_.message(pair_of_[e], end), dual_.message(pair_of_[e], end),
             left.values()[folded_.once.edges[e].variables[end]]);
  };
  each_message([](double* narrow, const double* all, const std::vector<int>& values) {
    for (int x : values) *narrow++ = std::isfinite(all[x]) ? all[x] : 0;
  });
  const double narrow_bound = narrow.run(most, std::nullopt, stop, t.next_to_nothing_narrowed);
  each_message([](const double* narrow, double* all, const std::vector<int>& values) {
    for (int x : values)
      all[x] = std::isfinite(*narrow) ? *narrow : 0,
      ++narrow;  // others may have partners for a value without any here
  });
  if (std::isfinite(narrow_bound) && run(t.passes_after_narrowed, std::nullopt, stop) > bound) return true;
  dual_.set(before, alive_);
  return false;
}

double LiftedDual::sweep_of_whole() const {
  double entries = 0;
  for (const Model::Pair& p : model_.pairs) entries += p.times * static_cast<double>(model_.sweep_entries(p));
  return entries;
}

Alive LiftedDual::likeliest(size_t most) const {
  Alive alive(model_.unary.size(), 0);
  for (int v = 0; v < model_.variables(); ++v) {
    const std::vector<double>& beliefs = dual_.beliefs();
    std::vector<int> places(model_.domain(v));  // of values
    std::iota(places.begin(), places.end(), model_.offset[v]);
    if (places.size() > most) {
      std::nth_element(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(most), places.end(),
                       [&](int x, int y) { return std::pair(beliefs[x], x) < std::pair(beliefs[y], y); });
      places.resize(most);
    }
    for (int x : places) alive[x] = 1;
  }
  return alive;
}

Certificate::Leaf LiftedDual::leaf(const Network& network, const std::function<int(size_t)>& folded_edge,
                                   bool once) const {
  Certificate::Leaf leaf;
  const int64_t most =
      once || folded_.times.empty() ? 1 : *std::max_element(folded_.times.begin(), folded_.times.end());
  leaf.scale = scale_for(dual_.largest() * static_cast<double>(most));
  std::map<std::pair<int, int>, size_t> messages;
  for (size_t e = 0; e < network.edges.size(); ++e) {
    const int folded = folded_edge(e), pair = pair_of_[folded];
    if (pair < 0 || !network.edges[e].over_two()) continue;
    const std::vector<int>& variables = network.edges[e].variables;
    const std::pair<int, int> ends = std::minmax(variables[0], variables[1]);
    const auto [it, fresh] = messages.try_emplace(ends, leaf.messages.size());
    if (fresh)
      leaf.messages.push_back({{ends.first, ends.second},
                               {std::vector<int64_t>(network.domain(ends.first), 0),
                                std::vector<int64_t>(network.domain(ends.second), 0)}});
    const double factor = static_cast<double>(leaf.scale) * (once ? 1 : static_cast<double>(folded_.times[folded]));
    for (int end : {0, 1}) {
      const double* from = dual_.message(pair, end);
      std::vector<int64_t>& to = leaf.messages[it->second].ends[variables[end] == ends.first ? 0 : 1];
      for (size_t x = 0; x < to.size(); ++x)
        if (std::isfinite(from[x])) to[x] += std::llrint(from[x] * factor);
    }
  }
  for (const auto& [time, price] : priced_times())
    if (const int64_t scaled = std::llrint(price * static_cast<double>(leaf.scale)); scaled > 0)
      leaf.multipliers.push_back({time, scaled});
  return leaf;
}

Certificate::Leaf LiftedDual::of_folded() const {
  return leaf(
      folded_.once, [](size_t e) { return static_cast<int>(e); }, false);
}

Certificate::Leaf LiftedDual::of_whole(const Network& whole) const {
  return leaf(
      whole, [&](size_t e) { return folded_.edge_of[e]; }, true);
}

Certificate::Leaf LiftedDual::of_part(const Network& part, const std::vector<size_t>& whole_edges) const {
  Certificate::Leaf messages = leaf(
      part, [&](size_t e) { return folded_.edge_of[whole_edges[e]]; }, true);
  messages.multipliers.clear();
  return messages;
}

const double* LiftedDual::message(int folded_edge, int end) const {
  const int pair = pair_of_[folded_edge];
  return pair < 0 ? nullptr : dual_.message(pair, end);
}

std::vector<LiftedDual::Priced> LiftedDual::priced_times() const {
  std::vector<Priced> out;
  for (size_t t = 0; t < model_.times.size(); ++t)
    if (const double price = dual_.state().prices[t]; price > 0) out.push_back({model_.times[t], price});
  return out;
}

// A value of a class costs as much as if all its copies took it.
std::vector<double> LiftedDual::least_costs_of_one() {
  std::vector<double> copies(folded_.once.costs.size(), 0);
  for (int c : folded_.class_of) ++copies[c];
  std::vector<double> least = dual_.least_costs();
  const double bound = bound_from_least_costs(model_, least);
  for (int v = 0; v < model_.variables(); ++v) {
    const double share = 1 / (static_cast<size_t>(v) < copies.size() ? copies[v] : 1.0);
    for (int i = model_.offset[v]; i < model_.offset[v + 1]; ++i) least[i] = bound + share * (least[i] - bound);
  }
  return least;
}

double LiftedDual::left_of_whole(Wide cost) {
  return static_cast<double>(
             sweep_entries(model_, values_within_cost(static_cast<double>(cost), least_costs_of_one()))) /
         static_cast<double>(model_.sweep);
}

}  // namespace partita::solver
