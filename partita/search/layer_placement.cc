// Whole layers on devices, and what a layer is.
#include "partita/search/layer_placement.h"

#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// By forward op; -1 elsewhere, and where nothing before it is in a layer.
std::vector<int> forward_layers(const Graph& graph) {
  const bool cells = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.cell >= 0; });
  const std::vector<bool> weight = weights(graph);
  std::map<int, int> rank;  // of cells, by first appearance
  std::vector<int> layer(graph.ops.size(), -1);
  int products = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase != Phase::kForward) continue;
    for (TensorId t : op.operands)
      if (const OpId producer = graph.tensor(t).producer; producer.valid())
        layer[i] = std::max(layer[i], layer[producer.index()]);
    if (cells && op.cell >= 0) layer[i] = rank.try_emplace(op.cell, static_cast<int>(rank.size())).first->second;
    if (!cells && weight_product(graph, weight, op)) layer[i] = products++;
  }
  return layer;
}

// The layer of the largest operand that an op makes: a clipped gradient is where the gradient is, not where the number
// that it is multiplied with was. Of equals the first, for updates the last: a sum over all gradients' norms goes from
// layer to layer.
int with_its_operands(const Graph& graph, const std::vector<int>& layer, const Op& op) {
  int at = -1;
  int64_t largest = 0;
  for (TensorId t : op.operands) {
    const Tensor& tensor = graph.tensor(t);
    if (!tensor.producer.valid()) continue;
    const int of_it = layer[tensor.producer.index()];
    const bool better = op.phase == Phase::kUpdate ? of_it > at : of_it < at;
    if (at < 0 || tensor.bytes() > largest || (tensor.bytes() == largest && better)) at = of_it;
    largest = std::max(largest, tensor.bytes());
  }
  return std::max(at, 0);
}

}  // namespace

std::vector<int> with_their_forward_ops(const Graph& graph, std::vector<int> layer) {
  const std::vector<std::vector<Reader>> read_by = readers(graph);
  constexpr int kNone = std::numeric_limits<int>::max();
  auto first_reader = [&](TensorId t) {  // the lowest layer of the forward ops that read it
    int first = kNone;
    for (const Reader& r : read_by[t.index()])
      if (graph.op(r.op).phase == Phase::kForward && layer[r.op.index()] >= 0)
        first = std::min(first, layer[r.op.index()]);
    return first;
  };
  for (size_t i = graph.ops.size(); i-- > 0;) {
    if (graph.ops[i].phase != Phase::kForward || layer[i] >= 0) continue;
    int first = kNone;
    for (TensorId t : graph.ops[i].results) first = std::min(first, first_reader(t));
    layer[i] = first == kNone ? 0 : first;
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.phase == Phase::kForward) continue;
    if (op.phase == Phase::kBackward && op.forward.valid()) {
      layer[i] = layer[op.forward.index()];
      continue;
    }
    int at = kNone;  // an update is where its parameter is
    for (TensorId r : op.results)
      if (graph.tensor(r).replaces.valid()) at = std::min(at, first_reader(graph.tensor(r).replaces));
    layer[i] = at == kNone ? with_its_operands(graph, layer, op) : at;
  }
  return layer;
}

std::vector<int> layers_of(const Graph& graph) { return with_their_forward_ops(graph, forward_layers(graph)); }

std::vector<int> contiguous_parts(const std::vector<double>& costs, int parts) {
  const size_t n = costs.size();
  parts = std::min(parts, std::max(1, static_cast<int>(n)));
  std::vector<double> sum(n + 1, 0);
  for (size_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + costs[i];
  // best[k][i]: the largest run of the first i > k in k + 1 runs; from[k][i]: where the last of them begins.
  std::vector<std::vector<double>> best(parts, std::vector<double>(n + 1, 0));
  std::vector<std::vector<size_t>> from(parts, std::vector<size_t>(n + 1, 0));
  for (size_t i = 0; i <= n; ++i) best[0][i] = sum[i];
  for (int k = 1; k < parts; ++k)
    for (size_t i = static_cast<size_t>(k) + 1; i <= n; ++i) {
      best[k][i] = std::numeric_limits<double>::infinity();
      for (size_t j = static_cast<size_t>(k); j < i; ++j) {
        const double largest = std::max(best[k - 1][j], sum[i] - sum[j]);
        if (largest < best[k][i]) best[k][i] = largest, from[k][i] = j;
      }
    }
  std::vector<int> run(n, 0);
  size_t end = n;
  for (int k = parts - 1; k > 0; --k) {
    for (size_t i = from[k][end]; i < end; ++i) run[i] = k;
    end = from[k][end];
  }
  return run;
}

void note_idle(const Cluster& cluster, const std::set<int>& used, std::string_view search, const std::string& why,
               SearchResult& result) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> idle;
  for (int d = 0; d < cluster.compute_count; ++d)
    if (!used.contains(d)) idle.push_back(cluster.devices[static_cast<size_t>(d)].name);
  if (idle.empty()) return;
  const size_t count = idle.size();
  if (count > kNamed) idle.resize(kNamed), idle.emplace_back("..");
  result.notes.push_back(
      fmt::format("{}: {}, so {} of {} devices {} nothing ({}); placement and baechi-metf place operations one by one, "
                  "auto divides them",
                  search, why, count, cluster.compute_count, count == 1 ? "runs" : "run", fmt::join(idle, ", ")));
}

std::string only(size_t count, const char* one, const char* many) {
  return count == 1 ? fmt::format("one {} only", one) : fmt::format("{} {} only", count, many);
}

namespace {

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  const Graph& graph = problem.graph;
  const std::vector<DeviceId> devices = slowest_link_first(problem.cluster);
  const int p = static_cast<int>(devices.size());
  const std::vector<int> layer = layers_of(graph);
  const int layers = graph.ops.empty() ? 0 : 1 + *std::max_element(layer.begin(), layer.end());
  std::vector<int> place(layers);
  std::set<int> used;
  for (int l = 0; l < layers; ++l) place[l] = l % p;
  if (problem.options.at("assign") == "contiguous") {
    std::vector<double> flops(layers, 0);
    for (size_t i = 0; i < graph.ops.size(); ++i)
      flops[layer[i]] += op_flops(graph.registry->find(graph.ops[i].definition), *graph.ops[i].bound);
    place = contiguous_parts(flops, p);
  }
  const Watch watch = budget.watch();
  RulePlanner planner(graph, problem.cluster, problem.pins, Mesh{{}, {devices[0]}});
  for (size_t i = 0; i < graph.ops.size(); ++i)
    watch.poll("while layers were placed"), planner.place(OpId(i), {Mesh{{}, {devices[place[layer[i]]]}}, {}});
  SearchResult result;
  result.plan = planner.finish("layer-placement");
  result.counters["layers"] = layers;
  result.notes.push_back(fmt::format("{} layers on {} devices", layers, std::min(layers, p)));
  for (int at : place) used.insert(devices[static_cast<size_t>(at)].value);
  note_idle(problem.cluster, used, "layer-placement", only(used.size(), "layer", "layers"), result);
  return result;
}

}  // namespace

SearchEntry layer_placement_search() {
  return {.name = "layer-placement",
          .source = "Tofu section 7.1",
          .summary =
              "whole layers on devices, time steps as a pipeline; nothing is split, so one layer must fit on a device",
          .options = {{"assign", {"round-robin", "contiguous"}}},
          .search = search,
          .begins_auto = {.work = placed_work, .every = {"assign"}, .quick = counts_time},
          .sharing = [](const Problem&) { return Sharing{}; }};
}

}  // namespace partita
