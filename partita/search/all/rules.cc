// The rules of partita/plan/rules.h as searches: each makes one plan.
#include "partita/plan/rules.h"

#include "partita/base/error.h"
#include "partita/graph/places.h"
#include "partita/search/all/searches.h"
#include "partita/search/pipelines/pipeline.h"

namespace partita {

namespace {

SearchResult with_plan(Plan plan) {
  SearchResult result;
  result.plan = std::move(plan);
  return result;
}

// A rule without options.
template <Plan (*rule)(const Graph&, const Cluster&, const Constraints&, const Watch&)>
SearchResult by_rule(const Problem& problem, const Budget& budget, Rng&) {
  return with_plan(rule(problem.graph, problem.cluster, problem.constraints, budget.watch()));
}

int number(const Problem& problem, const char* option) { return std::stoi(problem.options.at(option)); }

SearchResult by_megatron(const Problem& problem, const Budget& budget, Rng&) {
  const std::string& tensor = problem.options.at("tensor");
  GroupsOf groups{.context = number(problem, "context"),
                  .expert = number(problem, "expert"),
                  .sequence = problem.options.at("sequence") == "1",
                  .zero = number(problem, "zero"),
                  .gathers_once = problem.options.at("gather") == "step"};
  const auto on = [&](const Cluster& cluster, const Constraints& constraints) {
    groups.tensor = tensor == "node" ? tensor_degree(problem.graph, cluster) : std::stoi(tensor);
    return groups_plan("megatron", problem.graph, cluster, groups, constraints, budget.watch());
  };
  const int stages = number(problem, "pipeline");
  const std::string& layers = problem.options.at("layers");
  if (stages == 1 && counts_of(layers).size() > 1)
    throw DoesNotApply(
        fmt::format("megatron: layers={}: with pipeline=1 there is one stage; leave layers out", layers));
  if (stages == 1) return with_plan(on(problem.cluster, problem.constraints));
  const int devices = problem.cluster.compute_count, degree = tensor == "node" ? 1 : std::stoi(tensor);
  if (!divide(devices, {stages, degree, groups.context, groups.expert}))
    throw DoesNotApply(fmt::format(
        "megatron: {} devices are not a multiple of tensor={}{} x expert={} x pipeline={}; choose degrees whose "
        "product divides {}",
        devices, tensor, groups.context > 1 ? fmt::format(" x context={}", groups.context) : "", groups.expert, stages,
        devices));
  const InnerPlan inner = [&](const Cluster& stage) { return on(stage, {}); };
  const Pipeline pipeline = pipeline_of(problem.options);
  return with_plan(layers == "auto" ? pipeline_plan(problem, stages, pipeline, inner, budget)
                                    : pipeline_plan_of_layers(problem, stages, pipeline, inner, layers));
}

std::vector<std::string> further_of_megatron(const Problem& problem) {
  if (has_experts(problem.graph)) return {"expert", "zero"};
  return {"zero"};
}
std::vector<std::string> further_of_zero(const Problem&) { return {"tensor"}; }

Sharing of_all(const Problem& problem) { return {.replicas = problem.cluster.compute_count}; }
Sharing of_tensor_groups(const Problem& problem) {
  return {.replicas =
              std::max(1, problem.cluster.compute_count / number(problem, "tensor") / number(problem, "context"))};
}

Sharing of_megatron(const Problem& problem) {
  const Pipeline pipeline = pipeline_of(problem.options);
  Sharing sharing{.stages = number(problem, "pipeline")};
  if (pipeline.schedule == Schedule::kInterleaved) sharing.multiple = sharing.stages;
  if (problem.cluster.compute_count % sharing.stages) return sharing;
  const Cluster rank = rank_of(problem.cluster, sharing.stages);
  const std::string& tensor = problem.options.at("tensor");
  const int degree = tensor == "node" ? tensor_degree(problem.graph, rank) : std::stoi(tensor);
  sharing.replicas = std::max(1, rank.compute_count / degree / number(problem, "context"));
  return sharing;
}

SearchResult by_zero(const Problem& problem, const Budget& budget, Rng&) {
  const GroupsOf groups{.tensor = number(problem, "tensor"),
                        .context = number(problem, "context"),
                        .zero = number(problem, "stage"),
                        .gathers_once = problem.options.at("gather") == "step"};
  return with_plan(groups_plan("zero", problem.graph, problem.cluster, groups, problem.constraints, budget.watch()));
}

}  // namespace

SearchEntry data_parallel_search() {
  return {.name = "data-parallel",
          .source = "rule",
          .summary = "every op that sees samples is split along them, parameters are whole everywhere",
          .search = by_rule<data_parallel_plan>,
          .offers = {.is_fallback = true, .initial = {.work = rule_work}},
          .sharing = of_all,
          .rule = true};
}

SearchEntry megatron_search() {
  return {
      .name = "megatron",
      .source = "Megatron-LM",
      .summary =
          "tensor parallelism of transformers in groups of devices, the sequence, experts and samples over the groups, "
          "stages of layers outermost; recurrent cells are not split",
      .options = {{"tensor", {"node", "N"}},
                  {"pipeline", {"1", "N"}},
                  {"schedule", {"auto", "1f1b", "gpipe", "interleaved"}},
                  {"virtual", {"auto", "N"}},
                  {"layers", {"auto", "even", "A-B"}},
                  {"sequence", {"0", "1"}},
                  {"context", {"1", "N"}},
                  {"expert", {"1", "N"}},
                  {"zero", {"0", "1", "2", "3"}},
                  {"gather", {"pass", "step"}}},
      .search = by_megatron,
      .offers = {.initial = {.work = groups_work, .every = {"tensor"}, .further = further_of_megatron}},
      .sharing = of_megatron,
      .rule = true};
}

SearchEntry model_parallel_search() {
  return {.name = "model-parallel",
          .source = "SoyBean section 4.1",
          .summary = "every parameter is split along its contracted dimension",
          .search = by_rule<model_parallel_plan>,
          .offers = {.initial = {.work = groups_work}},
          .sharing = one_replica,
          .rule = true};
}

SearchEntry owt_search() {
  return {.name = "owt",
          .source = "Krizhevsky 2014",
          .summary = "one weird trick: convolutions are split along samples, fully connected layers along their units",
          .search = by_rule<owt_plan>,
          .offers = {.initial = {.work = groups_work}},
          .sharing = of_all,
          .rule = true};
}

SearchEntry single_search() {
  return {.name = "single",
          .source = "rule",
          .summary = "everything on the first device",
          .search = by_rule<single_plan>,
          .offers = {.takes_over = [](const Problem& problem) { return problem.cluster.compute_count == 1; },
                     .initial = {.work = rule_work, .applies = counts_time}},
          .sharing = one_replica,
          .rule = true};
}

SearchEntry zero_search() {
  return {.name = "zero",
          .source = "ZeRO",
          .summary =
              "data parallelism; states (stage 1), gradients (2) and parameters (3) are kept split, those "
              "without an axis long enough whole; tensor parallelism in groups of devices inside it, and the sequence "
              "over such groups",
          .options = {{"stage", {"1", "2", "3"}},
                      {"tensor", {"1", "N"}},
                      {"context", {"1", "N"}},
                      {"gather", {"pass", "step"}}},
          .aliases = {{"fsdp", "stage=3"}},
          .search = by_zero,
          .offers = {.initial = {.work = rule_work, .every = {"stage"}, .further = further_of_zero}},
          .sharing = of_tensor_groups,
          .rule = true};
}

}  // namespace partita
