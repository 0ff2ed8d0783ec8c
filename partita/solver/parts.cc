#include "partita/solver/parts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/threads.h"
#include "partita/solver/fusion.h"
#include "partita/solver/rounds.h"
#include "partita/solver/steps.h"

namespace partita::solver {

namespace {

struct Neighbour {
  int variable = 0;
  size_t kind = 0;  // of the edge: its table, and which end
};

// From several variables at once along edges: each variable falls to the nearest of them; of several that are as near
// to the one that the edge of the earlier kind leads to, so that where everything looks alike everything falls alike.
std::vector<int> nearest(const std::vector<int>& to, const std::vector<std::vector<Neighbour>>& beside,
                         const std::vector<char>& passable) {
  const auto none = static_cast<int>(to.size());
  std::vector<int> part(beside.size(), none), level = to;
  for (int k = 0; k < none; ++k) part[to[k]] = k;
  while (!level.empty()) {
    std::vector<std::tuple<int, size_t, int>> reached;  // variable, the edge's kind, part
    for (int v : level)
      for (const Neighbour& w : beside[v])
        if (passable[w.variable] && part[w.variable] == none) reached.push_back({w.variable, w.kind, part[v]});
    std::sort(reached.begin(), reached.end());
    level.clear();
    for (const auto& [w, kind, from] : reached)
      if (part[w] == none) part[w] = from, level.push_back(w);
  }
  return part;
}

double largest_of(const std::vector<int>& part_of) {
  std::vector<int> sizes(part_of.size() + 1, 0);
  for (int part : part_of) ++sizes[part];
  return *std::max_element(sizes.begin(), sizes.end());
}

bool lies_across(const Network::Edge& e, const std::vector<int>& part_of) {
  return std::any_of(e.variables.begin(), e.variables.end(),
                     [&](int v) { return part_of[v] != part_of[e.variables[0]]; });
}

// Variables by how they look from within their part, in an order that is the same in parts that are alike: colour
// refinement, where one of those that still look alike in a part is then told apart from the others (as McKay does,
// Practical graph isomorphism, 1981, but along one path only). Should two parts look different that are alike, they are
// solved twice.
class Looks {
 public:
  Looks(const Network& network, const std::vector<Table>& costs, const std::vector<int>& part_of)
      : costs_(costs), part_of_(part_of) {
    std::map<const Table*, uint64_t> numbers;
    for (const Network::Edge& e : network.edges)
      if (!lies_across(e, part_of))
        edges_.push_back({&e, mixed(numbers.try_emplace(e.table.get(), numbers.size()).first->second)});
  }

  std::vector<int> order() {
    constexpr int kRounds = 100;
    for (const Table& costs : costs_) {
      uint64_t colour = costs.size();
      for (int64_t c : costs) colour = mixed(colour + static_cast<uint64_t>(c));
      colours_.push_back(colour);
    }
    refine();
    for (int round = 0; round < kRounds && tell_apart(); ++round) refine();
    return sorted();
  }

 private:
  static uint64_t mixed(uint64_t x) {  // SplitMix64
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  void refine() {
    for (size_t known = 0, now = different(); now > known; known = std::exchange(now, different())) {
      std::vector<uint64_t> seen(colours_.size(), 0);
      for (const auto& [edge, table] : edges_) {
        uint64_t all = table;
        for (int v : edge->variables) all = mixed(all + colours_[v]);
        for (size_t end = 0; end < edge->variables.size(); ++end) seen[edge->variables[end]] += mixed(all + end);
      }
      for (size_t v = 0; v < colours_.size(); ++v) colours_[v] = mixed(colours_[v] + seen[v]);
    }
  }

  size_t different() const {
    std::vector<uint64_t> all;
    for (size_t v = 0; v < colours_.size(); ++v) all.push_back(mixed(colours_[v] + static_cast<uint64_t>(part_of_[v])));
    std::sort(all.begin(), all.end());
    return static_cast<size_t>(std::unique(all.begin(), all.end()) - all.begin());
  }

  std::vector<int> sorted() const {
    std::vector<int> order(colours_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int v, int w) {
      return std::tuple(part_of_[v], colours_[v], v) < std::tuple(part_of_[w], colours_[w], w);
    });
    return order;
  }

  // One variable in each part with some that look alike. False if there is none.
  bool tell_apart() {
    const std::vector<int> order = sorted();
    int told = -1;  // the last part where there is one
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      const int v = order[i], w = order[i + 1];
      if (part_of_[v] == told || part_of_[v] != part_of_[w] || colours_[v] != colours_[w]) continue;
      colours_[v] = mixed(colours_[v]);
      told = part_of_[v];
    }
    return told >= 0;
  }

  const std::vector<Table>& costs_;
  const std::vector<int>& part_of_;
  std::vector<std::pair<const Network::Edge*, uint64_t>> edges_;  // within parts
  std::vector<uint64_t> colours_;                                 // [variable]
};

Wide rounded_down(Wide sum, int64_t scale) { return sum / scale - (sum % scale < 0 ? 1 : 0); }

struct Part {
  Network network;
  std::vector<size_t> edges;                // of the whole, as its first copy has them
  std::vector<std::vector<int>> variables;  // [copy]: of the whole
};

// A few passes over a network, and what they prove.
class Passes {
 public:
  explicit Passes(const Network& network) : network_(network), model_(compile(network)), dual_(model_) {
    constexpr int kPasses = 16;
    for (int pass = 0; pass < kPasses; ++pass) bound_ = std::max(bound_, dual_.pass());
  }
  std::optional<Wide> bound() const {
    const double bound = bound_ - Rounding(model_).at(0);
    if (!std::isfinite(bound)) return std::nullopt;
    return static_cast<Wide>(std::ceil(bound));
  }
  Certificate certificate() const {
    Certificate c;
    c.leaves = {dual_.leaf(dual_.state(), Alive(model_.unary.size(), 1))};
    c.bound = LeafJudge(network_).bound(c.leaves[0]);
    return c;
  }

 private:
  const Network& network_;
  const Model model_;
  Dual dual_;
  double bound_ = -kInfinity;
};

// A part in steps, or else by itself; certified, the best of what steps prove, at most half a percent below in a second
// try, and, should that fail, a few passes.
Result solve_in_one(const Network& part, const Assignment& start, const Certificate::Leaf& messages,
                    const Options& options, const PairTables& made) {
  constexpr double kShareOfTime = 0.8, kGap = 5e-3;
  Options inside = options;
  inside.deadline = share_of_time(options, kShareOfTime);
  Result proved = solve_in_steps(part, start, messages, inside, &made);
  if (is_closed(proved, options.gap)) return proved;
  inside = options;
  inside.certify = false;
  inside.start = proved.solution;
  Result r = solve_reduced(part, inside);
  if (!options.certify) {
    if (!r.bound) r.bound = Passes(part).bound();
    return r;
  }
  inside.gap = std::max(options.gap, kGap);
  const auto take = [&](Certificate certificate) {
    if (certificate.bound && (!proved.certificate.bound || *certificate.bound > *proved.certificate.bound))
      proved.certificate = std::move(certificate);
  };
  if (r.solution && (!proved.solution || r.cost < proved.cost)) {
    proved.solution = r.solution;
    proved.cost = r.cost;
  }
  if (!is_closed(proved, inside.gap)) take(solve_in_steps(part, *proved.solution, messages, inside, &made).certificate);
  if (!is_closed(proved, inside.gap)) take(Passes(part).certificate());
  proved.bound = proved.certificate.bound;
  return proved;
}

// What is cut apart: all, or a part again.
struct Piece {
  const Network& network;
  std::vector<int> alike;     // [variable]: its class
  std::vector<size_t> edges;  // [edge]: of the whole
};

// What a dual's prices and messages make of a network that is cut into parts.
class Cut {
 public:
  Cut(const Piece& piece, const std::vector<int>& part_of, const LiftedDual& dual)
      : n_(piece.network), alike_(piece.alike), edges_(piece.edges), part_of_(part_of), dual_(dual), costs_(n_.costs) {
    for (const Table& costs : n_.costs) added_.emplace_back(costs.size(), 0);
    split_edges();
    add_prices();
    add_up();
    make_parts();
  }
  const std::vector<Part>& parts() const { return parts_; }
  const Certificate::Leaf& messages() const { return leaf_; }  // on what lies across, and multipliers
  Wide besides() const { return besides_; }  // what is certain to come on top of the parts, times the leaf's scale
  bool fits() const { return fits_; }        // costs are still such

 private:
  void add_prices() {
    if (!n_.limit) return;
    for (const auto& [time, price] : dual_.priced_times()) {
      const Wide scaled = std::llround(price * static_cast<double>(leaf_.scale));
      if (scaled <= 0) continue;
      leaf_.multipliers.push_back({time, static_cast<int64_t>(scaled)});
      besides_ -= scaled * *n_.limit;
      for (const Network::Use& u : n_.uses)
        if (u.lower <= time && time < u.upper)
          for (size_t x = 0; x < u.amounts.size(); ++x) added_[u.variable][x] += scaled * u.amounts[x];
    }
  }

  // All that was added to costs, rounded down.
  void add_up() {
    for (size_t v = 0; v < costs_.size(); ++v)
      for (size_t x = 0; x < costs_[v].size(); ++x) {
        int64_t& cost = costs_[v][x];
        if (cost >= kForbidden) continue;
        const Wide sum = cost + rounded_down(added_[v][x], leaf_.scale);
        if (sum >= kForbidden || sum <= -kForbidden) fits_ = false;
        else cost = static_cast<int64_t>(sum);
      }
  }

  using Messages = std::array<std::vector<int64_t>, 2>;  // [end][value]

  // How an edge that lies across two parts is split: whatever it costs goes to one end or to the other, so that nothing
  // is less than 0 then. It begins with the dual's messages at one end, none of them farther from their median than
  // costs differ: where values have been left out of the folded network, what it says of them, and of others because of
  // that, means nothing here.
  Messages split(const Network::Edge& edge, int folded_edge) const {
    const std::array<size_t, 2> sizes = {n_.costs[edge.variables[0]].size(), n_.costs[edge.variables[1]].size()};
    const Table& table = *edge.table;
    auto cost_at = [&](int end, size_t own, size_t other) {
      return table[end == 0 ? own * sizes[1] + other : other * sizes[1] + own];
    };
    std::array<std::vector<double>, 2> finite;
    for (int end : {0, 1})
      if (const double* from = dual_.message(folded_edge, end))
        std::copy_if(from, from + sizes[end], std::back_inserter(finite[end]),
                     [](double m) { return std::isfinite(m); });
    const int given = sizes[0] - finite[0].size() < sizes[1] - finite[1].size() ? 0 : 1;
    Messages out;
    out[given].resize(sizes[given], 0);
    if (std::vector<double>& sorted = finite[given]; !sorted.empty()) {
      int64_t lowest = kForbidden, highest = -kForbidden;
      for (int64_t c : table)
        if (c < kForbidden) lowest = std::min(lowest, c), highest = std::max(highest, c);
      const auto range = static_cast<double>(std::max<int64_t>(highest - lowest, 0));
      std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
      const double middle = sorted[sorted.size() / 2];
      const double* from = dual_.message(folded_edge, given);
      for (size_t x = 0; x < sizes[given]; ++x)
        out[given][x] = std::llrint(std::isfinite(from[x]) ? std::clamp(from[x] - middle, -range, range) : range);
    }
    // Each end in turn takes all that the other one leaves of the edge.
    for (int end : {1 - given, given}) {
      out[end].resize(sizes[end], 0);
      for (size_t x = 0; x < sizes[end]; ++x) {
        int64_t least = kForbidden;
        for (size_t y = 0; y < sizes[1 - end]; ++y)
          if (const int64_t cost = cost_at(end, x, y); cost < kForbidden)
            least = std::min(least, cost - out[1 - end][y]);
        out[end][x] = least == kForbidden ? 0 : least;
      }
    }
    return out;
  }

  void split_edges() {
    using Kind = std::tuple<const Table*, int, int>;  // its ends' classes
    std::map<Kind, std::map<int, int>> folded;        // into what edges of a kind are folded, and how many
    auto kind_of = [&](const Network::Edge& e) {
      return Kind(e.table.get(), alike_[e.variables[0]], alike_[e.variables[1]]);
    };
    Wide least = 0;  // of edges that are not split
    for (size_t e = 0; e < n_.edges.size(); ++e)
      if (const Network::Edge& edge = n_.edges[e]; lies_across(edge, part_of_)) {
        if (edge.variables.size() == 2) ++folded[kind_of(edge)][dual_.folded().edge_of[edges_[e]]];
        else least += *std::min_element(edge.table->begin(), edge.table->end());
      }
    std::map<Kind, Messages> known;
    std::map<std::pair<int, int>, double> largest;  // by variables, of what edges over them say
    auto ends_of = [](const Network::Edge& e) {
      return std::pair<int, int>(std::minmax(e.variables[0], e.variables[1]));
    };
    for (const Network::Edge& edge : n_.edges) {
      if (edge.variables.size() != 2 || !lies_across(edge, part_of_)) continue;
      const auto [messages, fresh] = known.try_emplace(kind_of(edge));
      if (fresh) {
        const auto& counts = folded.at(messages->first);
        messages->second = split(edge, std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                                         return a.second < b.second;
                                       })->first);
      }
      largest[ends_of(edge)] +=
          static_cast<double>(std::max(magnitude(messages->second[0]), magnitude(messages->second[1])));
    }
    double most = 1;
    for (const auto& [ends, sum] : largest) most = std::max(most, sum);
    leaf_.scale = scale_for(most);
    besides_ = leaf_.scale * least;
    std::map<std::pair<int, int>, size_t> places;
    for (const Network::Edge& edge : n_.edges) {
      if (edge.variables.size() != 2 || !lies_across(edge, part_of_)) continue;
      const Messages& messages = known.at(kind_of(edge));
      const std::pair<int, int> ends = ends_of(edge);
      const auto [place, fresh] = places.try_emplace(ends, leaf_.messages.size());
      if (fresh)
        leaf_.messages.push_back({{ends.first, ends.second},
                                  {Table(n_.costs[ends.first].size(), 0), Table(n_.costs[ends.second].size(), 0)}});
      for (int end : {0, 1}) {
        const int v = edge.variables[end];
        std::vector<int64_t>& to = leaf_.messages[place->second].ends[v == ends.first ? 0 : 1];
        for (size_t x = 0; x < messages[end].size(); ++x) {
          to[x] += leaf_.scale * messages[end][x];
          added_[v][x] += Wide{leaf_.scale} * messages[end][x];
        }
      }
    }
  }

  void make_parts() {
    const std::vector<int> order = Looks(n_, costs_, part_of_).order();
    std::vector<int> number(n_.costs.size());
    std::vector<Part> all(1 + *std::max_element(part_of_.begin(), part_of_.end()));
    for (int v : order) {
      Part& part = all[part_of_[v]];
      if (part.variables.empty()) part.variables.emplace_back();
      part.variables[0].push_back(v);
      number[v] = part.network.variables();
      part.network.costs.push_back(std::move(costs_[v]));
    }
    for (size_t e = 0; e < n_.edges.size(); ++e) {
      const Network::Edge& edge = n_.edges[e];
      if (lies_across(edge, part_of_)) continue;
      Part& part = all[part_of_[edge.variables[0]]];
      part.edges.push_back(edges_[e]);
      for (int& v : part.network.edges.emplace_back(edge).variables) v = number[v];
    }
    using Key = std::pair<std::vector<Table>, std::vector<std::pair<std::vector<int>, const Table*>>>;
    std::map<Key, size_t> known;
    for (Part& part : all) {
      if (part.network.costs.empty()) continue;
      Key key{part.network.costs, {}};
      for (const Network::Edge& e : part.network.edges) key.second.push_back({e.variables, e.table.get()});
      std::sort(key.second.begin(), key.second.end());
      const auto [same, fresh] = known.try_emplace(std::move(key), parts_.size());
      if (fresh) parts_.push_back(std::move(part));
      else parts_[same->second].variables.push_back(std::move(part.variables[0]));
    }
    std::stable_sort(parts_.begin(), parts_.end(),
                     [](const Part& a, const Part& b) { return a.variables.size() > b.variables.size(); });
  }

  const Network& n_;
  const std::vector<int>& alike_;
  const std::vector<size_t>& edges_;
  const std::vector<int>& part_of_;
  const LiftedDual& dual_;
  std::vector<Table> costs_;              // [variable]: with prices, and messages from other parts
  std::vector<std::vector<Wide>> added_;  // [variable][value]: those, times the leaf's scale
  Certificate::Leaf leaf_;
  std::vector<Part> parts_;
  Wide besides_ = 0;
  bool fits_ = true;
};

}  // namespace

// Of each class of which there are as many as of most, every variable could be one that a part grows from: those of the
// class are that leave the least across.
std::vector<int> parts_of(const Network& network, const std::vector<int>& alike, double most_across, double largest) {
  constexpr size_t kLeast = 3, kSeeds = 16;
  constexpr size_t kVeryMany = 100;  // neighbours
  std::vector<std::vector<Neighbour>> beside(network.variables());
  std::map<const Table*, size_t> tables;  // numbered as they come
  for (const Network::Edge& e : network.edges) {
    const size_t table = tables.try_emplace(e.table.get(), tables.size()).first->second, ends = e.variables.size();
    for (size_t from = 0; from < ends; ++from)
      for (size_t to = 0; to < ends; ++to)
        if (e.variables[from] != e.variables[to])
          beside[e.variables[from]].push_back({e.variables[to], (table * ends + from) * ends + to});
  }
  std::vector<std::vector<int>> of_class(1 + *std::max_element(alike.begin(), alike.end()));
  for (int v = 0; v < network.variables(); ++v) of_class[alike[v]].push_back(v);
  std::map<size_t, size_t> by_copies;  // how many variables there are of which there are so many
  for (const auto& members : of_class)
    if (members.size() >= kLeast) by_copies[members.size()] += members.size();
  if (by_copies.empty()) return {};
  const size_t copies = std::max_element(by_copies.begin(), by_copies.end(), [](const auto& a, const auto& b) {
                          return a.second < b.second;
                        })->first;
  std::vector<char> passable;
  for (int v = 0; v < network.variables(); ++v)
    passable.push_back(of_class[alike[v]].size() >= kLeast || beside[v].size() <= kVeryMany);
  std::vector<const std::vector<int>*> seeds;
  for (const auto& members : of_class)
    if (members.size() == copies) seeds.push_back(&members);
  std::vector<int> best;
  double least = most_across * entries_of(network);
  for (size_t s = 0; s < seeds.size(); s += std::max<size_t>(1, seeds.size() / kSeeds)) {
    std::vector<int> part_of = nearest(*seeds[s], beside, passable);
    double across = 0;
    for (const Network::Edge& e : network.edges)
      if (lies_across(e, part_of)) across += static_cast<double>(e.table->size());
    if (across < least && !(largest_of(part_of) > largest * network.variables()))
      best = std::move(part_of), least = across;
  }
  return best;
}

namespace {

// What is solved apart.
class Apart {
 public:
  Apart(const LiftedDual& dual, const PairTables& made, double most_across, double largest)
      : dual_(dual), made_(made), most_across_(most_across), largest_(largest) {}

  // A part that is much larger than most is cut apart again; it is solved in one after all where the bound is not near
  // `enough` (of the cost) without that.
  SolvedApart solve(const Piece& piece, const std::vector<int>& part_of, const Assignment& solution,
                    const Options& options, double enough, int depth = 0) const {
    const Cut cut(piece, part_of, dual_);
    if (!cut.fits()) return {};
    const std::vector<Part>& parts = cut.parts();
    std::vector<Solved> solved = first_solved(parts, piece, solution, options, depth);
    SolvedApart out;
    out.different = parts.size();
    out.words = fmt::format("{} different parts, the first of {} variables and {} times there", parts.size(),
                            parts[0].network.variables(), parts[0].variables.size());
    const auto lacks = [&](size_t i) {
      return solved[i].apart ? static_cast<double>(parts[i].variables.size()) *
                                   static_cast<double>(solved[i].result.cost - *solved[i].result.bound)
                             : 0;
    };
    for (;;) {
      Wide bound = rounded_down(cut.besides(), cut.messages().scale);
      for (size_t i = 0; i < parts.size(); ++i) {
        if (!solved[i].result.bound) return {};
        bound += static_cast<Wide>(parts[i].variables.size()) * *solved[i].result.bound;
      }
      out.bound = bound;
      out.together = put_together(parts, solved, piece.network, solution);
      const auto cost = static_cast<double>(evaluate(piece.network, out.together ? *out.together : solution).cost),
                 gap = cost - static_cast<double>(bound);
      size_t worst = 0;
      for (size_t i = 1; i < parts.size(); ++i)
        if (lacks(i) > lacks(worst)) worst = i;
      constexpr double kLittle = 0.1;  // of the gap: what makes it up lies elsewhere
      if (gap <= enough * std::abs(cost) || !solved[worst].apart || lacks(worst) < kLittle * gap || stop(options))
        break;
      Solved& again = solved[worst];
      again.result = solve_in_one(parts[worst].network, *again.result.solution,
                                  dual_.of_part(parts[worst].network, parts[worst].edges), options, made_);
      again.apart = false;
    }
    if (options.certify) {
      for (size_t i = 0; i < parts.size(); ++i)
        out.certificate.parts.push_back({parts[i].variables, std::move(solved[i].result.certificate)});
      out.certificate.bound = out.bound;
      out.certificate.cut = cut.messages();
    }
    return out;
  }

 private:
  struct Solved {
    Result result;
    bool apart = false;  // in parts again
  };

  static bool stop(const Options& o) {
    return (o.stop && *o.stop) || (o.deadline && std::chrono::steady_clock::now() > *o.deadline);
  }

  std::vector<Solved> first_solved(const std::vector<Part>& parts, const Piece& piece, const Assignment& solution,
                                   const Options& options, int depth) const {
    constexpr double kLeastShare = 0.5;
    constexpr size_t kMuchLarger = 3;
    auto weight_of = [](const Part& part) {
      return static_cast<double>(part.variables.size() * part.network.costs.size());
    };
    double left = 0;  // of what there is to solve
    std::vector<size_t> sizes;
    for (const Part& part : parts) {
      left += weight_of(part);
      sizes.insert(sizes.end(), part.variables.size(), part.network.costs.size());
    }
    std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2), sizes.end());
    const size_t usual = sizes[sizes.size() / 2];
    std::vector<Solved> solved(parts.size());
    std::mutex lock;
    shared_out(options.threads, parts.size(), [&](size_t i, int) {
      const Part& part = parts[i];
      Options inside = options;
      {
        const std::lock_guard guard(lock);
        const double weight = weight_of(part), share = std::max(kLeastShare, weight / left);
        left -= weight;
        inside.deadline = share_of_time(options, share);
      }
      Assignment start;
      for (int v : part.variables[0]) start.push_back(solution[v]);
      if (part.network.costs.size() > kMuchLarger * usual && depth < Certificate::kDeepest)
        solved[i] = solved_apart(part, piece, start, inside, depth + 1);
      if (!solved[i].apart)
        solved[i].result = solve_in_one(part.network, start, dual_.of_part(part.network, part.edges), inside, made_);
    });
    return solved;
  }

  Solved solved_apart(const Part& part, const Piece& of, const Assignment& start, const Options& options,
                      int depth) const {
    Piece piece{part.network, {}, part.edges};
    for (int v : part.variables[0]) piece.alike.push_back(of.alike[v]);
    const std::vector<int> part_of = parts_of(piece.network, piece.alike, most_across_, largest_);
    if (part_of.empty()) return {};
    SolvedApart apart = solve(piece, part_of, start, options, std::numeric_limits<double>::infinity(), depth);
    if (!apart.bound) return {};
    Solved out;
    out.apart = true;
    out.result.solution = apart.together ? apart.together : start;
    out.result.cost = evaluate(part.network, *out.result.solution).cost;
    out.result.bound = apart.bound;
    out.result.certificate = std::move(apart.certificate);
    return out;
  }

  // The best of the parts' solutions and one of all; empty where that is no better.
  static std::optional<Assignment> put_together(const std::vector<Part>& parts, const std::vector<Solved>& solved,
                                                const Network& network, const Assignment& solution) {
    Assignment together = solution;
    for (size_t i = 0; i < parts.size(); ++i)
      if (solved[i].result.solution)
        for (const std::vector<int>& copy : parts[i].variables)
          for (size_t k = 0; k < copy.size(); ++k) together[copy[k]] = (*solved[i].result.solution)[k];
    std::optional<Assignment> best = fused(network, {solution, together});
    if (!best) best = std::move(together);
    const Evaluation now = evaluate(network, solution), then = evaluate(network, *best);
    if (!then.feasible || (now.feasible && then.cost >= now.cost)) return std::nullopt;
    return best;
  }

  const LiftedDual& dual_;
  const PairTables& made_;
  const double most_across_, largest_;
};

}  // namespace

SolvedApart solve_apart(const Network& network, const std::vector<int>& alike, const std::vector<int>& part_of,
                        const LiftedDual& dual, const Assignment& solution, const Options& options,
                        const PairTables& made, double most_across, double largest) {
  constexpr double kGap = 1e-5, kEnough = 1e-4;  // of each part; of all, for parts that are cut apart again
  Options inside = options;
  inside.gap = kGap;
  inside.start.reset();
  inside.messages = nullptr;
  inside.tell = nullptr;
  inside.progress = nullptr;
  Piece all{network, alike, std::vector<size_t>(network.edges.size())};
  std::iota(all.edges.begin(), all.edges.end(), 0);
  SolvedApart out =
      Apart(dual, made, most_across, largest).solve(all, part_of, solution, inside, std::max(options.gap, kEnough));
  if (options.tell && out.bound)
    options.tell(fmt::format("cut apart: {}; no solution costs less than {}", out.words, to_string(*out.bound)));
  return out;
}

}  // namespace partita::solver
