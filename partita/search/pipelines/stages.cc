// Finds the places where a model can be cut into stages, and the even cuts.
#include "partita/search/pipelines/stages.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "partita/base/error.h"
#include "partita/graph/layers.h"
#include "partita/graph/repeats.h"
#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// By tensor: whether a tensor of this role lies behind it in the forward pass.
std::vector<bool> behind(const Graph& graph, Role role) {
  std::vector<bool> is(graph.tensors.size(), false);
  for (size_t t = 0; t < is.size(); ++t) is[t] = graph.tensors[t].role == role;
  for (const Op& op : graph.ops)
    for (TensorId t : op.operands)
      if (op.phase == Phase::kForward && is[t.index()])
        for (TensorId r : op.results) is[r.index()] = true;
  return is;
}

// By place, before op i: whether one activation alone crosses it. Activations depend on a parameter and on an input;
// numbers do not count.
std::vector<bool> crossed_by_one(const Graph& graph) {
  const int end = forward_end(graph);
  const std::vector<bool> trained = behind(graph, Role::kParameter), fed = behind(graph, Role::kInput);
  std::vector<int> last(graph.tensors.size(), -1), change(static_cast<size_t>(end) + 2, 0);
  for (int i = 0; i < end; ++i)
    for (TensorId t : graph.ops[static_cast<size_t>(i)].operands) last[t.index()] = i;
  for (int i = 0; i < end; ++i)
    for (TensorId t : graph.ops[static_cast<size_t>(i)].results)
      if (trained[t.index()] && fed[t.index()] && volume(graph.tensor(t).shape) > 1 && last[t.index()] > i)
        ++change[static_cast<size_t>(i) + 1], --change[static_cast<size_t>(last[t.index()]) + 1];
  std::vector<bool> one(static_cast<size_t>(end) + 1, false);
  int count = 0;
  for (size_t i = 0; i < one.size(); ++i) one[i] = (count += change[i]) == 1;
  return one;
}

// Places where layer blocks begin, ascending, 0 the first.
std::vector<int> beginnings(const Graph& graph, const std::vector<Repeat>& repeats, bool halves) {
  const std::vector<bool> one = halves ? crossed_by_one(graph) : std::vector<bool>();
  std::set<int> places{0};
  for (const Repeat& repeat : repeats)
    for (int copy = 0; copy <= repeat.copies; ++copy) {
      const int begin = repeat.first.value + copy * repeat.ops;
      places.insert(begin);
      for (int i = begin + 1; halves && copy < repeat.copies && i < begin + repeat.ops; ++i)
        if (one[static_cast<size_t>(i)] && !one[static_cast<size_t>(i) - 1]) places.insert(i);
    }
  if (*places.rbegin() >= forward_end(graph)) places.erase(std::prev(places.end()));
  return {places.begin(), places.end()};
}

// By op, its layer block. An op that no input reaches, such as a cast of weights, is with its first reader.
std::vector<int> by_place(const Graph& graph, const std::vector<int>& begins) {
  const std::vector<bool> fed = behind(graph, Role::kInput);
  const std::vector<std::vector<Reader>> read_by = readers_by_tensor(graph);
  std::vector<int> of(graph.ops.size(), -1);
  for (size_t i = graph.ops.size(); i-- > 0;) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward) continue;
    const auto next = std::upper_bound(begins.begin(), begins.end(), static_cast<int>(i));
    of[i] = static_cast<int>(next - begins.begin()) - 1;
    if (std::ranges::any_of(op.results, [&](TensorId r) { return fed[r.index()]; })) continue;
    int first = std::numeric_limits<int>::max();
    for (TensorId r : op.results)
      for (const Reader& reader : read_by[r.index()])
        if (graph.op(reader.op).phase == Phase::kForward) first = std::min(first, of[reader.op.index()]);
    if (first < std::numeric_limits<int>::max()) of[i] = first;
  }
  return of;
}

}  // namespace

LayerBlocks layer_blocks_of(const Graph& graph, int least) {
  const std::vector<Repeat> repeats = chained_layers(graph);
  LayerBlocks out;
  for (const Repeat& repeat : repeats) out.layers += repeat.copies;
  if (repeats.empty()) {
    out.of_op = layers_of(graph);
    out.layers = out.cuts = out.of_op.empty() ? 0 : 1 + *std::max_element(out.of_op.begin(), out.of_op.end());
    out.is_layer.assign(static_cast<size_t>(out.cuts), 1);
    return out;
  }
  const std::vector<int> begins = beginnings(graph, repeats, out.layers < least);
  out.of_op = with_their_forward_ops(graph, by_place(graph, begins));
  out.cuts = static_cast<int>(begins.size());
  if (out.layers < least) return out;
  for (const int begin : begins)
    out.is_layer.push_back(std::ranges::any_of(repeats, [&](const Repeat& repeat) {
      return begin >= repeat.first.value && begin < repeat.first.value + repeat.copies * repeat.ops;
    }));
  return out;
}

std::vector<int> stages_of_layers(const LayerBlocks& blocks, const std::vector<int>& layers) {
  if (const int sum = std::accumulate(layers.begin(), layers.end(), 0); sum != blocks.layers)
    throw DoesNotApply(
        fmt::format("pipeline: layers={} are {} layers, and the model has {}; give numbers that add up to it",
                    fmt::join(layers, "-"), sum, blocks.layers));
  std::vector<int> stages;
  size_t stage = 0;
  int left = layers[0];
  for (const char is_layer : blocks.is_layer) {
    while (left == 0 && stage + 1 < layers.size()) left = layers[++stage];
    stages.push_back(static_cast<int>(stage));
    if (is_layer) --left;
  }
  return stages;
}

std::vector<int> even_layers(int layers, int stages) {
  if (layers < stages) return {};
  std::vector<int> out(static_cast<size_t>(stages), layers / stages);
  if (layers % stages == 0) return out;
  if (stages > 1 && (layers + 2) % stages == 0 && layers + 2 >= 2 * stages) {
    out.assign(out.size(), (layers + 2) / stages);
    --out.front(), --out.back();
    return out;
  }
  const int more = layers % stages, first = (stages - more + 1) / 2;
  for (int s = first; s < first + more; ++s) ++out[static_cast<size_t>(s)];
  return out;
}

namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// By run and by its end: the beginnings to look at, the nearest first, as long as the run fits.
class Runs {
 public:
  Runs(const std::vector<std::vector<double>>& costs, int parts, const RunFits& fits)
      : n_(costs[0].size()), parts_(static_cast<size_t>(parts)), fits_(fits) {
    for (const std::vector<double>& of_rank : costs) {
      ensure(of_rank.size() == n_, "{} costs on one rank, {} on another", n_, of_rank.size());
      sums_.emplace_back(n_ + 1, 0);
      for (size_t i = 0; i < n_; ++i) sums_.back()[i + 1] = sums_.back()[i] + of_rank[i];
    }
  }
  size_t size() const { return n_; }
  size_t parts() const { return parts_; }
  // `look(k, begin, end, cost)`: false if longer runs are no better.
  void each(const std::function<bool(size_t k, size_t begin, size_t end, double cost)>& look) const {
    for (size_t k = 1; k <= parts_; ++k) {
      const std::vector<double>& sum = sums_[(k - 1) % sums_.size()];
      for (size_t end = k; end <= n_; ++end)
        for (size_t begin = end; begin-- > k - 1;) {
          if (fits_ && !fits_(static_cast<int>(k) - 1, static_cast<int>(begin), static_cast<int>(end))) break;
          if (!look(k, begin, end, sum[end] - sum[begin])) break;
        }
    }
  }

 private:
  size_t n_, parts_;
  const RunFits& fits_;
  std::vector<std::vector<double>> sums_;  // by rank: of the first so many elements
};

// By number of runs and by element: for the first so many elements.
std::vector<std::vector<double>> of_none(const Runs& runs) {
  std::vector<std::vector<double>> out(runs.parts() + 1, std::vector<double>(runs.size() + 1, kNone));
  out[0][0] = 0;
  return out;
}

// The least largest run.
double least_longest(const Runs& runs) {
  std::vector<std::vector<double>> worst = of_none(runs);
  runs.each([&](size_t k, size_t begin, size_t end, double cost) {
    if (cost >= worst[k][end]) return false;
    worst[k][end] = std::min(worst[k][end], std::max(worst[k - 1][begin], cost));
    return true;
  });
  return worst[runs.parts()][runs.size()];
}

}  // namespace

std::vector<int> even_parts(const std::vector<std::vector<double>>& costs, int parts, const RunFits& fits) {
  const size_t n = costs.at(0).size(), p = static_cast<size_t>(parts);
  ensure(p > 0 && p <= n, "{} costs in {} parts", n, parts);
  const Runs runs(costs, parts, fits);
  const double longest = least_longest(runs);
  if (longest == kNone) return {};
  // The least sum of squares with no run above `longest`, and the begin of its last run.
  std::vector<std::vector<double>> squares = of_none(runs);
  std::vector<std::vector<size_t>> from(p + 1, std::vector<size_t>(n + 1, 0));
  runs.each([&](size_t k, size_t begin, size_t end, double cost) {
    if (cost > longest * (1 + 1e-9)) return false;
    const double all = squares[k - 1][begin] + cost * cost;
    if (all < squares[k][end] * (1 + 1e-9)) squares[k][end] = std::min(all, squares[k][end]), from[k][end] = begin;
    return true;
  });
  std::vector<int> run(n, 0);
  for (size_t k = p, end = n; k > 0; end = from[k][end], --k)
    for (size_t i = from[k][end]; i < end; ++i) run[i] = static_cast<int>(k) - 1;
  return run;
}

}  // namespace partita
