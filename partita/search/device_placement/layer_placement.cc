// Implements operator placement by whole layers.
#include "partita/search/device_placement/layer_placement.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/layers.h"
#include "partita/plan/rule_planner.h"
#include "partita/search/idle_devices.h"
#include "partita/search/pipelines/contiguous_runs.h"

namespace partita {

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
    place = contiguous_runs(flops, p);
  }
  const Watch watch = budget.watch();
  RulePlanner planner(graph, problem.cluster, problem.constraints, Mesh{{}, {devices[0]}});
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
          .offers = {.initial = {.work = placed_work, .every = {"assign"}, .applies = counts_time}},
          .sharing = one_replica};
}

}  // namespace partita
