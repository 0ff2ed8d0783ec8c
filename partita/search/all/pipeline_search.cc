// `pipeline`: stages of whole layers, each planned by another search.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/search/all/search_text.h"
#include "partita/search/pipelines/pipeline.h"
#include "partita/search/pipelines/stages.h"

namespace partita {

namespace {

// The plan that another search makes for one stage's devices.
InnerPlan by_search(const std::string& name, const Problem& problem, const Budget& budget, Rng& rng) {
  return [&, name](const Cluster& cluster) {
    const SearchChoice choice = parse_search(name);
    const Problem part{
        .graph = problem.graph, .cluster = cluster, .objective = problem.objective, .options = choice.options};
    const SearchResult found = choice.entry->search(part, budget, rng);
    if (!found.plan)
      throw DoesNotApply(fmt::format("pipeline: '{}' has no plan for a stage's devices: {}", name, found.reason));
    return *found.plan;
  };
}

int stages_wanted(const Problem& problem) {
  const std::string& wanted = problem.options.at("stages");
  if (wanted != "most") return std::stoi(wanted);
  const int devices = problem.cluster.compute_count;
  int stages = std::clamp(layer_blocks_of(problem.graph, 1).layers, 1, devices);
  while (devices % stages != 0) --stages;
  return stages;
}

// As many replicas as the inner search makes of a rank's devices, or all of them where it does not say.
Sharing sharing(const Problem& problem) {
  const int stages = stages_wanted(problem);
  Sharing out{.stages = stages};
  if (pipeline_of(problem.options).schedule == Schedule::kInterleaved) out.multiple = stages;
  if (problem.cluster.compute_count % stages) return out;
  const Cluster rank = rank_of(problem.cluster, stages);
  const SearchChoice inner = parse_search(problem.options.at("inner"));
  out.replicas =
      inner.entry->sharing
          ? inner.entry->sharing({.graph = problem.graph, .cluster = rank, .options = inner.options}).replicas
          : rank.compute_count;
  return out;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  const int devices = problem.cluster.compute_count, stages = stages_wanted(problem);
  SearchResult result;
  result.plan = pipeline_plan(problem, stages, pipeline_of(problem.options),
                              by_search(problem.options.at("inner"), problem, budget, rng), budget);
  result.counters["stages"] = stages;
  result.notes.push_back(fmt::format("{} stages of {} devices", stages, devices / stages));
  return result;
}

// In bytes a pipeline is always cheap, however long its stages wait.
bool keeps_stages_busy(const Problem& problem, const Budget&) {
  return problem.in_time() && problem.graph.micro_batches() > 1;
}

}  // namespace

SearchEntry pipeline_search() {
  return {
      .name = "pipeline",
      .source = "GPipe; PipeDream-Flush",
      .summary = "stages of whole layers, as even in time as they can be, one behind the other on the micro-batches",
      .options = {{"stages", {"most", "N"}},
                  {"schedule", {"auto", "1f1b", "gpipe", "interleaved"}},
                  {"virtual", {"auto", "N"}},
                  {"inner", {"data-parallel", "megatron", "model-parallel", "soybean", "tofu", "zero", "exact"}}},
      .search = search,
      .offers = {.initial = {.work = rule_work, .every = {"stages"}, .applies = keeps_stages_busy}},
      .sharing = sharing};
}

}  // namespace partita
