// Chooses weights of loads and paths, and bounds the cost network that they define.
#include "partita/search/soap/bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/search/evaluate.h"
#include "partita/search/soap/bound_tables.h"
#include "partita/search/soap/unit_groups.h"
#include "partita/solver/solver.h"

namespace partita {

namespace {

using solver::Network;
using Step = SoapPath::Step;

constexpr size_t kPaths = 8, kColumns = 60;  // at most
constexpr double kShareOfTime = 0.1;         // for a quick bound
constexpr double kNear = 1.001;              // of the largest worth that weights can have

struct Weights {
  std::vector<int64_t> loads;  // by kind, of each queue
  std::vector<int64_t> paths;
};

// The units and shared tensors that a path meets.
struct PathParts {
  struct Inside {
    OpId op;
    int operand, result;
    bool edge;  // its input is made in the same unit
  };
  std::vector<std::vector<Inside>> units;          // by unit
  std::vector<std::pair<size_t, size_t>> between;  // shared, edge; ascending
};

struct Maker {
  const Problem& problem;
  const SoapSpace& space;
  SoapParts& parts;
  Watch watch = {};
  std::vector<SoapPath> paths = {};
  std::vector<PathParts> of_paths = {};
  std::map<std::pair<size_t, int>, std::vector<int64_t>> lengths = {};  // by path and unit: by configuration
};

PathParts parts_of(const Maker& maker, const SoapPath& path) {
  PathParts out;
  out.units.resize(maker.space.units.size());
  const Graph& graph = maker.problem.graph;
  const std::vector<SoapShared>& shared = maker.parts.shared_tensors();
  for (const Step& step : path.steps) {
    const int unit = maker.parts.unit_of(step.op);
    bool inside = false;
    if (step.operand >= 0) {
      const TensorId t = graph.op(step.op).operands[static_cast<size_t>(step.operand)];
      inside = maker.parts.producer_unit_of(t) == unit;
      for (size_t s = 0; s < shared.size() && !inside; ++s) {
        if (shared[s].tensor != t || shared[s].b != unit) continue;
        const auto edge = std::ranges::find(shared[s].edges, std::pair{step.op, step.operand});
        ensure(edge != shared[s].edges.end(), "a path goes where nothing is read");
        out.between.emplace_back(s, static_cast<size_t>(edge - shared[s].edges.begin()));
      }
    }
    out.units[static_cast<size_t>(unit)].push_back({step.op, step.operand, step.result, inside});
  }
  std::ranges::sort(out.between);
  return out;
}

void add_path(Maker& maker, SoapPath path) {
  maker.of_paths.push_back(parts_of(maker, path));
  maker.paths.push_back(std::move(path));
}

// The length of a path inside a unit in a configuration (ns).
int64_t length_in(Maker& maker, size_t path, int unit, int64_t number) {
  const auto& inside = maker.of_paths[path].units[static_cast<size_t>(unit)];
  if (inside.empty()) return 0;
  std::vector<int64_t>& known = maker.lengths[{path, unit}];
  if (known.empty()) known.assign(static_cast<size_t>(maker.space.sets[static_cast<size_t>(unit)].size()), -1);
  int64_t& ns = known[static_cast<size_t>(number)];
  if (ns >= 0) return ns;
  ns = 0;
  for (const PathParts::Inside& step : inside) {
    const int64_t through = maker.parts.step_ns(step.op, number, step.operand, step.result);
    const int64_t edge = step.edge ? maker.parts.edge_ns(step.op, number, step.operand) : 0;
    ensure(through >= 0 && edge >= 0, "a path through op '{}' has a gap", maker.problem.graph.op(step.op).name);
    ns += through + edge;
  }
  return ns;
}

// ---------------------------------------------------------------- the network

// The cost of a configuration, or of a piece, with the paths' weights on its edges.
int64_t unary_of(Maker& maker, const Weights& w, int unit, int64_t number) {
  const KindLoads& loads = maker.parts.own(unit, number);
  int64_t cost = 0;
  for (size_t k = 0; k < loads.size(); ++k) cost += w.loads[k] * loads[k];
  for (size_t p = 0; p < w.paths.size(); ++p)
    if (w.paths[p] > 0) cost += w.paths[p] * length_in(maker, p, unit, number);
  return cost;
}

int64_t best_number(Maker& maker, const Weights& w, int unit, const SoapClass& of) {
  int64_t best = of.numbers[0], least = INT64_MAX;
  for (const int64_t number : of.numbers)
    if (const int64_t cost = unary_of(maker, w, unit, number); cost < least) best = number, least = cost;
  return best;
}

// By shared: weights of its edges.
std::vector<std::vector<int64_t>> edge_weights(const Maker& maker, const Weights& w) {
  std::vector<std::vector<int64_t>> of;
  for (const SoapShared& s : maker.parts.shared_tensors()) of.emplace_back(s.edges.size(), 0);
  for (size_t p = 0; p < w.paths.size(); ++p)
    for (const auto& [s, e] : maker.of_paths[p].between) of[s][e] += w.paths[p];
  return of;
}

int64_t cost_of(const SoapShared& of, const SoapPiece& piece, const Weights& w, const std::vector<int64_t>& edges) {
  int64_t cost = 0;
  for (size_t k = 0; k < piece.loads.size(); ++k) cost += w.loads[k] * piece.loads[k];
  cost /= of.of;
  for (size_t e = 0; e < edges.size(); ++e) {
    if (edges[e] == 0) continue;
    ensure(piece.edges_ns[e] >= 0, "a path through a tensor has a gap");
    cost += edges[e] * piece.edges_ns[e];
  }
  return cost;
}

const SoapPiece& least_piece(const SoapShared& of, const std::vector<SoapPiece>& pieces, const Weights& w,
                             const std::vector<int64_t>& edges) {
  return *std::ranges::min_element(pieces, {}, [&](const SoapPiece& p) { return cost_of(of, p, w, edges); });
}

// Unknown pieces count as nothing; `all`: all are made.
Network network_of(Maker& maker, const Weights& w, bool all) {
  Network network;
  for (size_t u = 0; u < maker.space.units.size(); ++u) {
    maker.watch.poll("while plans were bounded");
    solver::Table& table = network.costs.emplace_back();
    for (const SoapClass& of : maker.parts.classes(static_cast<int>(u)))
      table.push_back(unary_of(maker, w, static_cast<int>(u), best_number(maker, w, static_cast<int>(u), of)));
  }
  const std::vector<std::vector<int64_t>> edges = edge_weights(maker, w);
  std::map<std::pair<int, int>, solver::Table> tables;
  for (size_t s = 0; s < maker.parts.shared_tensors().size(); ++s) {
    const SoapShared& of = maker.parts.shared_tensors()[s];
    const size_t rows = network.costs[static_cast<size_t>(of.a)].size(),
                 columns = network.costs[static_cast<size_t>(of.b)].size();
    solver::Table& table = tables[std::minmax(of.a, of.b)];
    table.resize(rows * columns, 0);
    for (size_t x = 0; x < rows; ++x)
      for (size_t y = 0; y < columns; ++y) {
        if (!all && !maker.parts.known(s, static_cast<int>(x), static_cast<int>(y))) continue;
        const auto& pieces = maker.parts.pieces(s, static_cast<int>(x), static_cast<int>(y));
        table[of.a < of.b ? x * columns + y : y * rows + x] +=
            cost_of(of, least_piece(of, pieces, w, edges[s]), w, edges[s]);
      }
  }
  for (auto& [units, table] : tables)
    if (std::ranges::any_of(table, [](int64_t c) { return c != 0; }))
      network.edges.push_back({{units.first, units.second}, std::make_shared<const solver::Table>(std::move(table))});
  return network;
}

// ---------------------------------------------------------------- paths

// The longest path of ops; each takes its time in this configuration, or with -1 its least time.
SoapPath longest_path(Maker& maker, const std::vector<int64_t>& numbers) {
  const Graph& graph = maker.problem.graph;
  struct End {
    int64_t ns = -1;
    Step step;
    bool begins = false;  // the path
  };
  const auto step_ns = [&](OpId op, int operand, int result) {
    const int unit = maker.parts.unit_of(op);
    const int64_t size = maker.space.sets[static_cast<size_t>(unit)].size();
    int64_t least = INT64_MAX;
    for (int64_t number = 0; number < size; ++number)
      least = std::min(least, maker.parts.step_ns(op, number, operand, result));
    const int64_t number = numbers[static_cast<size_t>(unit)];
    return least < 0 || number < 0 ? least : maker.parts.step_ns(op, number, operand, result);
  };
  std::vector<End> ends(graph.tensors.size());
  TensorId last;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    maker.watch.poll("while plans were bounded");
    for (size_t r = 0; r < op.results.size(); ++r) {
      End& end = ends[op.results[r].index()];
      for (int k = -1; k < static_cast<int>(op.operands.size()); ++k) {
        const TensorId read = k < 0 ? TensorId() : op.operands[static_cast<size_t>(k)];
        const bool begins = k < 0 || !graph.tensor(read).producer.valid();
        const int64_t before = begins ? 0 : ends[read.index()].ns;
        if (before < 0 || (k >= 0 && !maker.parts.waits(OpId(i), k))) continue;
        const int64_t step = step_ns(OpId(i), k, static_cast<int>(r));
        if (step >= 0 && before + step + (begins && k >= 0) > end.ns)
          end = {before + step, {OpId(i), k, static_cast<int>(r)}, begins};
      }
      if (end.ns >= 0 && (!last.valid() || end.ns > ends[last.index()].ns)) last = op.results[r];
    }
  }
  SoapPath path;
  while (last.valid()) {
    const Step step = ends[last.index()].step;
    path.steps.push_back(step);
    last = ends[last.index()].begins ? TensorId() : graph.op(step.op).operands[static_cast<size_t>(step.operand)];
  }
  std::ranges::reverse(path.steps);
  return path;
}

// ---------------------------------------------------------------- weights

// A plan by its classes, and the time it takes for certain: by kind the mean load of a queue, then paths.
struct Column {
  std::vector<int> classes;
  std::vector<double> ns = {};
};

void look_at(Maker& maker, const Weights& w, const std::vector<std::vector<int64_t>>& edges, Column& column) {
  const std::vector<LoadKind>& kinds = maker.parts.kinds();
  column.ns.assign(kinds.size() + maker.paths.size(), 0);
  for (size_t u = 0; u < column.classes.size(); ++u) {
    const int unit = static_cast<int>(u);
    const int64_t number =
        best_number(maker, w, unit, maker.parts.classes(unit)[static_cast<size_t>(column.classes[u])]);
    const KindLoads& loads = maker.parts.own(unit, number);
    for (size_t k = 0; k < kinds.size(); ++k) column.ns[k] += static_cast<double>(loads[k]) / kinds[k].queues;
    for (size_t p = 0; p < maker.paths.size(); ++p)
      column.ns[kinds.size() + p] += static_cast<double>(length_in(maker, p, unit, number));
  }
  for (size_t s = 0; s < maker.parts.shared_tensors().size(); ++s) {
    const SoapShared& of = maker.parts.shared_tensors()[s];
    const int x = column.classes[static_cast<size_t>(of.a)], y = column.classes[static_cast<size_t>(of.b)];
    if (!maker.parts.known(s, x, y)) continue;
    const SoapPiece& piece = least_piece(of, maker.parts.pieces(s, x, y), w, edges[s]);
    for (size_t k = 0; k < kinds.size(); ++k)
      column.ns[k] += static_cast<double>(piece.loads[k]) / of.of / kinds[k].queues;
    for (size_t p = 0; p < maker.paths.size(); ++p)
      for (const auto& [shared, edge] : maker.of_paths[p].between)
        if (shared == s) column.ns[kinds.size() + p] += static_cast<double>(piece.edges_ns[edge]);
  }
}

double worth_of(const Column& column, const std::vector<double>& weights) {
  return std::inner_product(weights.begin(), weights.end(), column.ns.begin(), 0.0);
}

// Returns weights, sum 1, at which the least column is largest, and that worth. As a linear program: with ns positive,
// w / v is the dual solution of max sum_j y_j, sum_j ns_ij y_j <= 1, y >= 0, where v is that worth. Solved by the
// simplex method from y = 0, with Bland's rule against cycles.
std::pair<std::vector<double>, double> best_weights(const std::vector<Column>& columns) {
  constexpr double kSmall = 1e-9;
  const size_t rows = columns.back().ns.size(), many = columns.size(), width = many + rows + 1;
  double scale = 1;
  for (const Column& c : columns) scale = std::max(scale, *std::ranges::max_element(c.ns));
  std::vector<std::vector<double>> table(rows + 1, std::vector<double>(width, 0));  // the last row is the objective's
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < many; ++j) table[i][j] = columns[j].ns[i] / scale + kSmall;
    table[i][many + i] = table[i][width - 1] = 1;
  }
  for (size_t j = 0; j < many; ++j) table[rows][j] = -1;
  for (int step = 0; step < 2000; ++step) {
    size_t enters = 0, leaves = rows;
    while (enters + 1 < width && table[rows][enters] >= -kSmall) ++enters;
    if (enters + 1 == width) break;
    double least = 0;
    for (size_t i = 0; i < rows; ++i) {
      if (table[i][enters] <= kSmall) continue;
      const double ratio = table[i][width - 1] / table[i][enters];
      if (leaves == rows || ratio < least) leaves = i, least = ratio;
    }
    if (leaves == rows) break;
    const double pivot = table[leaves][enters];
    for (double& x : table[leaves]) x /= pivot;
    for (size_t i = 0; i <= rows; ++i) {
      const double factor = table[i][enters];
      if (i == leaves || factor == 0) continue;
      for (size_t j = 0; j < width; ++j) table[i][j] -= factor * table[leaves][j];
    }
  }
  std::vector<double> weights;
  for (size_t i = 0; i < rows; ++i) weights.push_back(std::max(0.0, table[rows][many + i]));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight = total > 0 ? weight / total : 1 / static_cast<double>(rows);
  double worth = worth_of(columns[0], weights);
  for (const Column& c : columns) worth = std::min(worth, worth_of(c, weights));
  return {weights, worth};
}

// Drops the columns of largest worth if there are many.
void keep_least(std::vector<Column>& columns, const std::vector<double>& weights) {
  if (columns.size() <= kColumns) return;
  std::ranges::stable_sort(columns, {}, [&](const Column& c) { return worth_of(c, weights); });
  columns.resize(kColumns);
}

Weights rounded(const Maker& maker, const std::vector<double>& weights) {
  Weights w;
  const std::vector<LoadKind>& kinds = maker.parts.kinds();
  for (size_t k = 0; k < kinds.size(); ++k)
    w.loads.push_back(static_cast<int64_t>(weights[k] * static_cast<double>(kSoapBoundParts)) / kinds[k].queues);
  for (size_t p = 0; p < maker.paths.size(); ++p)
    w.paths.push_back(kinds.size() + p < weights.size()
                          ? static_cast<int64_t>(weights[kinds.size() + p] * static_cast<double>(kSoapBoundParts))
                          : 0);
  return w;
}

// ---------------------------------------------------------------- rounds

solver::Result solved(const Network& network, bool certify, const Watch& watch) {
  solver::Options options;
  options.deadline = watch.deadline;
  options.stop = watch.stop;
  options.max_steps = certify ? 30 : 3;
  options.certify = certify;
  options.gap = 1e-3;
  options.threads = 1;
  return solver::solve(network, options);
}

int64_t ns_of(solver::Wide value) {
  return value <= 0 ? 0 : static_cast<int64_t>((value + kSoapBoundParts - 1) / kSoapBoundParts);
}

// Makes the pieces that units share in this plan, up to the limit. Returns whether any was new.
bool make_pieces(Maker& maker, const std::vector<int>& classes, int64_t fragments) {
  bool made = false;
  for (size_t s = 0; s < maker.parts.shared_tensors().size(); ++s) {
    const SoapShared& of = maker.parts.shared_tensors()[s];
    const int x = classes[static_cast<size_t>(of.a)], y = classes[static_cast<size_t>(of.b)];
    if (maker.parts.known(s, x, y) || maker.parts.between() >= fragments) continue;
    maker.watch.poll("while plans were bounded");
    maker.parts.pieces(s, x, y);
    made = true;
  }
  return made;
}

// Adds the longest path in this plan, if it is longer than the bound.
bool add_longer_path(Maker& maker, const Weights& w, const Column& plan, int64_t bound_ns) {
  if (maker.paths.size() >= kPaths) return false;
  std::vector<int64_t> numbers;
  for (size_t u = 0; u < plan.classes.size(); ++u) {
    const int unit = static_cast<int>(u);
    numbers.push_back(best_number(maker, w, unit, maker.parts.classes(unit)[static_cast<size_t>(plan.classes[u])]));
  }
  SoapPath path = longest_path(maker, numbers);
  if (std::ranges::any_of(maker.paths, [&](const SoapPath& p) { return p.steps == path.steps; })) return false;
  add_path(maker, std::move(path));
  int64_t ns = 0;
  for (size_t u = 0; u < numbers.size(); ++u)
    ns += length_in(maker, maker.paths.size() - 1, static_cast<int>(u), numbers[u]);
  if (ns > bound_ns) return true;
  maker.paths.pop_back();
  maker.of_paths.pop_back();
  std::erase_if(maker.lengths, [&](const auto& of) { return of.first.first == maker.paths.size(); });
  return false;
}

// The number of configurations of the units' ops together, each kind of unit once.
int64_t work_of(const Problem& problem, const SoapSpace& space) {
  int64_t work = 0;
  for (const std::vector<int>& group : soap_neighbourhood(problem.graph, space).groups) {
    const size_t unit = static_cast<size_t>(group[0]);
    work += space.sets[unit].size() * static_cast<int64_t>(space.units[unit].ops.size());
  }
  return work;
}

struct Round {
  int64_t ns = 0;
  std::vector<double> weights;
};

// Proves the best round's bound, with all that has become certain since.
void finish(Maker& maker, const Round& best, SoapBound& out) {
  maker.watch = {};
  const Weights w = rounded(maker, best.weights);
  const Network network = network_of(maker, w, false);
  out.certificate = solved(network, true, maker.watch).certificate;
  if (out.certificate.empty()) return;
  const auto proved = solver::check(network, out.certificate);
  if (!proved) return;
  out.ns = ns_of(*proved);
  for (size_t k = 0; k < w.loads.size(); ++k)
    if (w.loads[k] > 0) out.loads.push_back({maker.parts.kinds()[k].name, maker.parts.kinds()[k].queues, w.loads[k]});
  for (size_t p = 0; p < w.paths.size(); ++p) {
    if (w.paths[p] == 0) continue;
    out.paths.push_back(maker.paths[p]);
    out.paths.back().weight = w.paths[p];
  }
}

// Throws if the watch ends.
void run_rounds(Maker& maker, const SoapBoundLimits& limits, const Watch& watch, Round& best, SoapBound& out) {
  add_path(maker, longest_path(maker, std::vector<int64_t>(maker.space.units.size(), -1)));
  std::vector<Column> columns;
  std::vector<double> weights(maker.parts.kinds().size() + 1, 0);
  weights[0] = 1;
  for (; out.rounds < limits.rounds; ++out.rounds) {
    const Weights w = rounded(maker, weights);
    const solver::Result result = solved(network_of(maker, w, false), false, watch);
    watch.poll("while plans were bounded");
    if (!result.bound || !result.solution) break;
    if (const int64_t ns = ns_of(*result.bound); ns > best.ns) best = {ns, weights};
    const bool made = make_pieces(maker, *result.solution, limits.fragments);
    columns.push_back({*result.solution});
    const bool longer = !made && add_longer_path(maker, w, columns.back(), best.ns);
    const Weights now = rounded(maker, weights);
    const std::vector<std::vector<int64_t>> edges = edge_weights(maker, now);
    for (Column& column : columns) look_at(maker, now, edges, column);
    const auto [next, worth] = best_weights(columns);
    if (!made && !longer && worth <= kNear * static_cast<double>(best.ns)) break;
    weights = next;
    for (size_t i = 0; i < weights.size() && out.rounds > 0; ++i)
      weights[i] = (weights[i] + (i < best.weights.size() ? best.weights[i] : 0)) / 2;
    keep_least(columns, next);
  }
}

}  // namespace

SoapBound soap_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost,
                     const SoapBoundLimits& limits, const Watch& watch) {
  const Watch::Clock::time_point begun = Watch::Clock::now();
  SoapBound out;
  SoapParts parts(problem, cost, space);
  Maker maker{problem, space, parts, watch};
  Round best;
  const int64_t work = work_of(problem, space);
  if (work > limits.work)
    out.why_not = fmt::format("the ops of different units have {} configurations, over {}", work, limits.work);
  try {
    if (work <= limits.work) run_rounds(maker, limits, watch, best, out);
  } catch (const Error& error) {
    if (!is_end(error)) throw;
    out.why_not = "the time that it had has passed";
  }
  if (best.ns > 0) finish(maker, best, out);
  if (out.ns > 0) out.why_not.clear();
  else if (out.why_not.empty()) out.why_not = "no weights were found that prove one";
  out.fragments = parts.between();
  out.seconds = std::chrono::duration<double>(Watch::Clock::now() - begun).count();
  return out;
}

int64_t check_soap_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost,
                         const SoapBound& bound) {
  SoapParts parts(problem, cost, space);
  Maker maker{problem, space, parts};
  Weights w;
  int64_t sum = 0;
  for (const LoadKind& kind : parts.kinds()) {
    const auto of = std::ranges::find(bound.loads, kind.name, &SoapBound::Load::kind);
    w.loads.push_back(of == bound.loads.end() ? 0 : of->weight);
    if (w.loads.back() < 0) fail("the bound has a weight of {} for {}", w.loads.back(), kind.name);
    sum += kind.queues * w.loads.back();
  }
  for (const SoapPath& path : bound.paths) {
    if (path.weight < 0) fail("the bound has a path of weight {}", path.weight);
    w.paths.push_back(path.weight);
    sum += path.weight;
    add_path(maker, path);
  }
  if (sum > kSoapBoundParts) fail("the weights of the bound are {}, more than {}", sum, kSoapBoundParts);
  const auto proved = solver::check(network_of(maker, w, true), bound.certificate);
  const int64_t ns = proved ? ns_of(*proved) : INT64_MAX;
  if (ns < bound.ns) fail("the bound is {} ns, but {} ns are proved", bound.ns, ns);
  return ns;
}

SoapBound asked_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost, const Watch& watch) {
  const auto asked = problem.options.find("bound");
  if (asked == problem.options.end() || asked->second == "no") return {};
  if (problem.tell) problem.tell("a lower bound");
  if (asked->second == "full") return soap_bound(problem, space, cost, kFullSoapBound, watch);
  SoapBound bound = soap_bound(problem, space, cost, {}, watch.share(kShareOfTime));
  if (bound.ns <= 0) bound.why_not += "; bound=full takes what time it needs";
  return bound;
}

void add_bound(const SoapBound& bound, int64_t best_ns, SearchResult& result) {
  if (bound.seconds == 0 || best_ns == INT64_MAX) return;
  result.notes.push_back(to_string(bound, best_ns));
  if (bound.ns <= 0) return;
  result.local_lower_bound_ns = bound.ns;
  result.local_lower_bound_note = result.notes.back();
}

namespace {

// 9,648,123 -> 9,640,000: with the three digits that time_text() prints.
int64_t rounded_down(int64_t ns) {
  int64_t digit = 1;
  while (ns / digit >= 1000) digit *= 10;
  return ns - ns % digit;
}

}  // namespace

int64_t near_enough_ns(const SoapBound& bound, double gap) {
  return gap > 0 && bound.ns > 0 ? static_cast<int64_t>(static_cast<double>(bound.ns) / (1 - gap)) : 0;
}

std::string to_string(const SoapBound& bound, int64_t best_ns) {
  if (bound.ns <= 0) return "no lower bound: " + bound.why_not;
  double paths = 0;
  for (const SoapPath& path : bound.paths) paths += static_cast<double>(path.weight) / kSoapBoundParts;
  std::vector<std::string> weights;
  for (const SoapBound::Load& load : bound.loads)
    weights.push_back(
        fmt::format("{} {:.2f}", load.kind, static_cast<double>(load.weight * load.queues) / kSoapBoundParts));
  if (paths > 0) weights.push_back(fmt::format("paths {:.2f}", paths));
  const double times = static_cast<double>(best_ns) / static_cast<double>(bound.ns);
  return fmt::format(
      "lower bound {} for every plan of the space (equal parts), by the local task graph: the best found is within "
      "{:.2f} x; weights: {}; {:.1f} s",
      time_text(static_cast<double>(rounded_down(bound.ns))), std::ceil(100 * times) / 100, fmt::join(weights, ", "),
      bound.seconds);
}

}  // namespace partita
