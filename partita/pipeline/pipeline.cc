// Calls the steps of Partita in their order, from a model to a plan and its prediction: the table of contents.
#include "partita/pipeline/pipeline.h"

#include <algorithm>

#include "partita/base/attempt.h"
#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/graph/batch.h"
#include "partita/graph/factors.h"
#include "partita/graph/micro_batches.h"
#include "partita/graph/places.h"
#include "partita/graph/recompute.h"
#include "partita/models/huggingface.h"
#include "partita/physical/for_stages.h"
#include "partita/physical/shortage.h"
#include "partita/pipeline/best_configuration.h"
#include "partita/pipeline/fingerprint.h"
#include "partita/pipeline/in_file.h"
#include "partita/pipeline/local_time.h"
#include "partita/pipeline/out_of_memory.h"
#include "partita/pipeline/printed.h"
#include "partita/pipeline/time_budget.h"
#include "partita/plan/pin_error.h"
#include "partita/plan/pins_kept.h"
#include "partita/schedule/representatives.h"
#include "partita/sim/simulate.h"

namespace partita {

namespace {

constexpr auto kVerified = [](const auto& made) { verify(made); };
constexpr auto kPrinted = [](const auto& made) { return printed(made); };

}  // namespace

// ---------------------------------------------------------------- the model

LoadedModel load_model(const Request& request, Runner& runner) {
  LoadedModel model = runner.step(
      "load", [&] { return read_model(request); }, kVerified, kPrinted);
  if (!request.batch_norm_groups.empty()) {
    LoadedModel whole = std::move(model);
    model = runner.step(
        "batch norm groups", [&] { return in_batch_norm_groups(whole, batch_norm_groups_of(request)); }, kVerified,
        kPrinted);
  }
  if (request.dtype == DType::kFloat32) return model;
  return runner.step(
      "dtype", [&] { return in_dtype(model, request.dtype); }, kVerified, kPrinted);
}

namespace {

// One step on the whole batch, as a plan's fingerprint knows it.
Graph whole_step(const LoadedModel& model, const Request& request, Runner& runner) {
  if (!model.findings.why_not_trained.empty()) fail("{}", model.findings.why_not_trained);
  Graph graph = runner.step(
      "autodiff",
      [&] { return add_backward(cut_parts_alike(model.forward, may_factor), model.loss, request.optimizer); },
      kVerified, kPrinted);
  return runner.step(
      "factor", [&] { return carry_factors(std::move(graph), may_factor); }, kVerified, kPrinted);
}

// Rewrites the step for the plan: results are recomputed, the batch is divided into micro-batches. `chosen_on`: the
// same step with other extents, by which the results to recompute are chosen; none: by its own.
Graph rewritten(Graph graph, const Request& request, Runner& runner, const Graph* chosen_on = nullptr) {
  const int micro_batches = request.micro_batches.value_or(1);
  if (request.recompute != "none")
    graph = runner.step(
        "recompute",
        [&] { return recomputed_as_on(chosen_on ? *chosen_on : graph, graph, request.recompute, micro_batches != 1); },
        kVerified, kPrinted);
  if (micro_batches != 1)
    graph = runner.step(
        "parts", [&] { return in_micro_batches(graph, micro_batches, may_factor); }, kVerified, kPrinted);
  return graph;
}

}  // namespace

Graph training_graph(const LoadedModel& model, const Request& request, Runner& runner) {
  return rewritten(whole_step(model, request, runner), request, runner);
}

StepGraph step_graph(const LoadedModel& model, const Request& request, Runner& runner) {
  Attempt<Graph> training = attempt([&] { return training_graph(model, request, runner); });
  if (training.result) return {std::move(*training.result), ""};
  if (training.failure != Failure::kBadInput) training.rethrow();
  return {runner.step(
              "evaluation", [&] { return evaluation_of(model.forward); }, kVerified, kPrinted),
          training.message};
}

namespace {

// The step that is planned, and its fingerprint.
struct PlannedStep {
  Graph graph;
  std::string sha256;
};
// Makes the step on the whole batch, before it is rewritten.
PlannedStep whole_planned_step(const LoadedModel& model, const Request& request, Runner& runner) {
  Request whole = request;
  whole.micro_batches.reset();
  whole.recompute = "none";
  Graph graph = request.inference_only ? step_graph(model, whole, runner).graph : whole_step(model, request, runner);
  std::string sha256 = fingerprint(graph);
  return {std::move(graph), std::move(sha256)};
}
PlannedStep rewritten(PlannedStep step, const Request& request, Runner& runner) {
  step.graph = rewritten(std::move(step.graph), request, runner);
  return step;
}
PlannedStep planned_step(const LoadedModel& model, const Request& request, Runner& runner) {
  return rewritten(whole_planned_step(model, request, runner), request, runner);
}

Planned of_model(LoadedModel model, PlannedStep step) {
  Planned p;
  p.forward = std::move(model.forward);
  p.loss = std::move(model.loss);
  p.training = std::move(step.graph);
  p.sha256 = std::move(step.sha256);
  p.weight_names = std::move(model.weight_names);
  p.other_batch = std::move(model.other_batch);
  p.findings = std::move(model.findings);
  return p;
}

// ---------------------------------------------------------------- the plan

using WithBatch = decltype(Problem::with_batch);
using WithBatchOf = std::function<WithBatch(const Request&)>;

// Makes the request's training graph for another number of samples.
WithBatch with_batch(const Request& request) {
  return [request](int64_t samples) {
    Request other = request;
    other.bindings["batch"] = std::to_string(samples);
    Runner runner;
    return planned_step(load_model(other, runner), other, runner).graph;
  };
}

Planned plan_step(LoadedModel model, PlannedStep step, const Cluster& cluster, const Request& request,
                  const Budget& budget, WithBatch with_batch, Runner& runner) {
  const Loss loss = model.loss;
  Planned p = of_model(std::move(model), std::move(step));
  p.cluster = cluster;
  const SearchChoice choice = search_of(request);
  if (request.reads_for_all) request.reads_for_all(true);
  Constrained fixed = constrained(request, std::move(p.training), p.cluster);
  p.training = std::move(fixed.graph);
  const std::optional<Plan> from = plan_to_begin_with(request, p.training, p.sha256, p.cluster);
  if (request.reads_for_all) request.reads_for_all(false);
  if (has_device_types(p.training)) validate_device_placement(choice);
  in_file(request.pin_file, [&] { validate_stages(choice, fixed.constraints, p.training, p.cluster); });
  const Problem problem{p.training,
                        p.cluster,
                        request.objective,
                        std::move(fixed.constraints),
                        choice.options,
                        from ? &*from : nullptr,
                        request.prove,
                        request.progress,
                        std::move(with_batch),
                        request.tell,
                        request.bucket_bytes.value_or(kBucketBytes)};
  const auto as_asked = [&](Plan plan) { return made_for(std::move(plan), request, loss, p.sha256, p.cluster); };
  Rng rng(request.seed);
  if (request.before_search) request.before_search();
  Budget search_budget = for_search(budget, runner, p.cluster);
  if (choice.entry->rule) search_budget.deadline = budget.deadline;  // stopped early it would have no plan
  p.search = runner.step(
      "search",
      [&] {
        return in_file<PinError>(request.pin_file, [&] { return choice.entry->search(problem, search_budget, rng); });
      },
      [&](const SearchResult& found) {
        return found.plan ? printed(as_asked(*found.plan), p.training) : printed(found);
      });
  p.search_seconds = runner.timings().back().seconds;
  if (!p.search.plan && !p.search.estimate)
    throw Error(ExitCode::kInfeasible, fmt::format("search '{}' found no plan: {}", request.search, p.search.reason));
  p.plan = as_asked(p.search.plan.value_or(Plan{}));
  p.training = for_stages(p.training, p.plan);
  if (request.tell) request.tell("lowers the plan and simulates its step");
  if (p.search.plan) {
    finish(p, runner, Follow::kAll, {budget.watch().deadline, nullptr},
           request.bucket_bytes ? Buckets::kStay : Buckets::kMayBeLeftOut);
    const std::string lost = first_pin_not_kept(p.training, *p.resolved, problem.constraints);
    ensure(lost.empty(), "the plan of '{}' does not keep the pin of {}", request.search, lost);
  }
  if (std::string note = local_time_note(p); !note.empty()) p.search.notes.push_back(std::move(note));
  return p;
}

Planned plan_loaded(const LoadedModel& model, const Request& request, const Budget& budget,
                    const WithBatchOf& with_batch, Runner& runner) {
  const PlannedStep whole = whole_planned_step(model, request, runner);
  const Cluster cluster = runner.step(
      "cluster", [&] { return cluster_of(request); }, kPrinted);
  if (request.reads_for_all) request.reads_for_all(false);
  MicroBatchChoice choice = micro_batches_to_try(request, whole.graph, cluster);
  if (request.inference_only && !request.micro_batches) choice = {{1}, false, ""};
  validate_batch_norm_groups(request, choice);
  const auto plan = [&](int count) {
    Request counted = request;
    counted.micro_batches = count;
    return attempt([&] {
      return plan_step(model, rewritten(whole, counted, runner), cluster, counted, budget, with_batch(counted), runner);
    });
  };
  return plan_in_micro_batches(request, choice, plan, budget.watch());
}

// Configurations divide the batch evenly. Rules also give some devices a sample more than others: the fastest counts.
void try_uneven_rules(const Request& request, const Budget& budget, const PlanOne& plan, std::optional<Planned>& best) {
  for (const char* rule : {"data-parallel", "zero?stage=1", "zero?stage=3"}) {
    if (budget.watch().ended()) return;
    Request one = request;
    one.search = rule;
    Attempt<Planned> tried = attempt([&] { return plan(one, budget); });
    if (!tried.result || tried.result->step_time_ns() >= best->step_time_ns()) continue;
    tried.result->configurations = best->configurations;
    best = std::move(tried.result);
  }
}

// Makes the plan of the best configuration, if the request leaves it open; then that of the search, if it takes seconds
// or a time limit leaves time for it. The shorter step counts.
Planned plan_openly(const Request& request, const LoadedModel& model, const Budget& budget, const PlanOne& plan,
                    Runner& runner) {
  constexpr size_t kSmall = 2000;  // forward ops on all devices
  if (!leaves_configuration_open(request) || !model.findings.why_not_trained.empty()) return plan(request, budget);
  const Cluster cluster = cluster_of(request);
  std::optional<Planned> best;
  if (has_configurations(cluster)) best = plan_best_configuration(request, model, cluster, budget, plan, runner);
  if (!best) return plan(request, budget);
  if (find_batch(model.forward).value_or(1) % cluster.compute_count != 0) try_uneven_rules(request, budget, plan, best);
  const bool small = model.forward.ops.size() * static_cast<size_t>(cluster.compute_count) <= kSmall;
  if (budget.watch().ended() || !(small || budget.deadline)) return std::move(*best);
  Attempt<Planned> further = attempt([&] { return plan(request, budget); });
  if (!further.result || further.result->step_time_ns() >= best->step_time_ns()) return std::move(*best);
  further.result->configurations = best->configurations;
  return std::move(*further.result);
}

// Chooses the number of micro-batches that would be tried first for the model without groups.
MicroBatchChoice for_groups(const Request& request) {
  Request plain = request;
  plain.batch_norm_groups.clear();
  Runner quiet(false);
  const LoadedModel model = load_model(plain, quiet);
  return micro_batches_to_try(plain, whole_planned_step(model, plain, quiet).graph, cluster_of(plain));
}

}  // namespace

Planned plan_model(const Request& asked, Runner& runner) {
  Request request = with_config(with_search_options(asked));
  const Budget budget = with_deadline(request.budget);
  std::string note;
  if (groups_by_micro_batches(request)) {
    const MicroBatchChoice choice = for_groups(request);
    request.micro_batches = choice.counts.front();
    request.micro_batch_size.reset();
    note = note_of(choice, 0, "");
  }
  const LoadedModel model = load_model(request, runner);
  const auto plan = [&](const Request& one, const Budget& within) {
    return plan_loaded(model, one, within, with_batch, runner);
  };
  Planned p = plan_openly(request, model, budget, plan, runner);
  if (!note.empty()) p.search.notes.insert(p.search.notes.begin(), note);
  return p;
}

Planned plan_graph(const LoadedModel& model, const Request& asked, Runner& runner) {
  const Request request = with_search_options(asked);
  return plan_loaded(
      model, request, with_deadline(request.budget), [](const Request&) { return WithBatch(); }, runner);
}

Planned open_plan(const std::string& path, Runner& runner, Follow follow, const Hardware& hardware) {
  const std::string text = read_file(path);
  if (is_huggingface_config(text))
    fail("{}: a model's configuration, not a plan; `partita plan {} -o plan.json` makes one", path, path);
  return in_file(path, [&] {
    const Request request = request_of(parse_model_reference(text));
    LoadedModel model = load_model(request, runner);
    PlannedStep step = planned_step(model, request, runner);
    Planned p = of_model(std::move(model), std::move(step));
    p.plan = runner.step(
        "read plan", [&] { return parse_plan(text, p.training); },
        [&](const Plan& plan) { return printed(plan, p.training); });
    p.training = for_stages(p.training, p.plan);
    // A plan of schema 1 has the fingerprint of the step after recomputation.
    if (p.sha256 != p.plan.model.sha256 && fingerprint(p.training.whole_graph()) != p.plan.model.sha256)
      fail("model '{}' is not the one that this plan was made for (its SHA-256 differs); plan again", request.model);
    p.cluster = runner.step(
        "cluster", [&] { return cluster_of(p.plan, hardware); }, kPrinted);
    finish(p, runner, follow);
    return p;
  });
}

void follow_whole(Planned& p, Runner& runner) {
  if (!p.is_whole()) finish(p, runner, Follow::kWhole);
}

Planned runnable(Planned p, Runner& runner) {
  if (!has_planned_places(p.forward)) {
    follow_whole(p, runner);
    return p;
  }
  Request request = request_of(p.plan.model);
  request.inference_only = true;
  LoadedModel model{runner.step(
                        "places", [&] { return with_all_places(p.forward); }, kVerified, kPrinted),
                    p.loss, p.weight_names, p.other_batch, p.findings};
  PlannedStep step = whole_planned_step(model, request, runner);
  std::optional<PlannedStep> planned;
  if (request.recompute != "none")
    planned = whole_planned_step({p.forward, p.loss, p.weight_names, p.other_batch, p.findings}, request, runner);
  step.graph = rewritten(std::move(step.graph), request, runner, planned ? &planned->graph : nullptr);
  Planned run = of_model(std::move(model), std::move(step));
  run.plan = p.plan;
  for (size_t i = 0; i < p.training.ops.size(); ++i) {
    run.training.ops[i].device_type = p.training.ops[i].device_type;
    run.training.ops[i].colocation = p.training.ops[i].colocation;
  }
  run.training = for_stages(run.training, run.plan);
  run.plan = for_other_extents(std::move(p.plan), p.training, run.training);
  run.cluster = std::move(p.cluster);
  run.search = std::move(p.search);
  run.search_seconds = p.search_seconds;
  const auto finished = attempt([&] { return finish(run, runner, Follow::kWhole), true; });
  if (finished.failure == Failure::kDoesNotFit)
    throw Error(ExitCode::kInfeasible,
                fmt::format("{}\nthe plan counts on an even load of its experts; while it runs each has a place for "
                            "every token, which takes more",
                            finished.message));
  if (finished.failure) finished.rethrow();
  return run;
}

// ---------------------------------------------------------------- the steps after the plan

namespace {

// Checks the plan, and resolves it between the rules about its choices and the count of its bytes. If only
// representatives are lowered, its steps list only their shards, and the checker resolves by itself. `from`: the
// devices and micro-batches to simulate, which only a plan that keeps the rules can say.
CheckReport checked(Planned& p, Follow follow, const Watch& patience, const Runner& runner, Representatives& from) {
  check_choices(p.training, p.plan, p.cluster);
  if (follow == Follow::kAll)
    from =
        choose_representatives_within(p.training, p.plan, p.cluster, patience, firings_per_second(runner, p.training));
  p.representatives = from.devices;
  const DeviceMask device_mask = mask_with_hosts(p.representatives, p.cluster);
  p.resolved = std::make_shared<const Resolved>(resolve(p.training, p.plan, p.cluster, device_mask));
  return device_mask ? check(p.training, p.plan, p.cluster) : check(p.training, p.plan, *p.resolved, p.cluster);
}

}  // namespace

void finish(Planned& p, Runner& runner, Follow follow, const Watch& patience, Buckets buckets) {
  Representatives from{{}, p.training.micro_batches()};
  p.report = runner.step(
      "check", [&] { return checked(p, follow, patience, runner, from); }, kPrinted);
  if (follow == Follow::kCheck) return;
  // Sums over the batch are not whole after the first few micro-batches, nor are tensors on other devices.
  const bool whole = from.devices.empty() && from.micro_batches == p.training.micro_batches();
  const ChooseOrderOptions choosing{
      .out_of_memory = OutOfMemoryPolicy::kKeepTightest, .watch = {}, .patience = patience, .known = p.order};
  ChosenOrder chosen = runner.step(
      "lower", [&] { return choose_order_within_memory(p, from, buckets, choosing); },
      [&](const ChosenOrder& made) {
        if (whole && made.fits) verify(made.graph);  // a plan that does not fit gets no edges
      },
      [](const ChosenOrder& made) { return printed(made.graph); });
  p.physical = std::move(chosen.graph);
  p.physical.peak_bytes = chosen.peak_bytes;
  p.extrapolated_bytes = std::move(chosen.extrapolated_bytes);
  check_capacity(p.training, p.physical, p.cluster, {p.representatives, p.extrapolated_bytes});
  p.predicted = runner.step(
      "simulate", [&] { return simulate(p.physical, CostModel(p.cluster)); },
      [&](const Trace& trace) { return printed(trace, p.physical, p.cluster); });
  p.order = chosen.order;
  p.least_bytes = std::move(chosen.least_bytes);
  p.lowered_micro_batches = from.micro_batches;
  p.of_all_micro_batches.reset();
  if (from.micro_batches < p.training.micro_batches()) p.of_all_micro_batches = std::move(chosen.breakdown);
}

Evaluation evaluation(const Planned& planned, Runner& runner) {
  if (has_planned_places(planned.forward)) return evaluation(runnable(planned, runner), runner);
  Evaluation e;
  e.graph = runner.step(
      "evaluation", [&] { return evaluation_in_micro_batches(planned); }, kVerified, kPrinted);
  e.plan = runner.step(
      "evaluation plan", [&] { return evaluation_plan(e.graph, planned); },
      [&](const Plan& plan) { return printed(plan, e.graph); });
  runner.step(
      "check", [&] { return check(e.graph, e.plan, planned.cluster); }, kPrinted);
  return e;
}

}  // namespace partita
