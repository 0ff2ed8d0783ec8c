// Watches the search for a plan, and prints its figures as text and as JSON.
#include "partita/cli/plan_figures.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "partita/base/attempt.h"
#include "partita/base/error.h"
#include "partita/base/interrupt.h"
#include "partita/base/tell.h"
#include "partita/base/units.h"
#include "partita/cli/progress.h"
#include "partita/cli/validation_figures.h"
#include "partita/cost/isolated_costs.h"
#include "partita/cost/unaligned.h"
#include "partita/graph/kept_gradients.h"
#include "partita/measure/measure.h"
#include "partita/physical/breakdown.h"
#include "partita/physical/shortage.h"
#include "partita/pipeline/idle_devices.h"
#include "partita/pipeline/mixed_devices.h"
#include "partita/pipeline/remedies.h"
#include "partita/pipeline/time_budget.h"
#include "partita/profile/profile.h"
#include "partita/search/all/search_text.h"
#include "partita/search/device_placement/placed_plan.h"
#include "partita/search/device_placement/placements.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

// If nothing fits, the error ends with remedies.
Planned planned_or_remedies(const Request& asked, Runner& runner, bool say_remedies) {
  Request request = asked;
  request.budget = with_deadline(request.budget);  // of both
  Attempt<Planned> planned = attempt([&] { return plan_model(request, runner); });
  if (planned.result) return std::move(*planned.result);
  if (planned.failure != Failure::kDoesNotFit || interrupted || !say_remedies) planned.rethrow();
  throw Error(ExitCode::kInfeasible, planned.message + remedies(request));
}

}  // namespace

Planned plan_watched(const Request& request, Runner& runner, bool say_remedies) {
  std::optional<CatchInterrupt> caught;  // while the model is loaded there is nothing to keep
  Request watched = request;
  StatusLines told;
  told.doing("makes the step");
  watched.before_search = [&] { caught.emplace(), told.doing("search"); };
  watched.tell = std::ref(told);
  watched.budget.stop = &interrupted;
  const bool steps = parse_search(request.search).entry->measure == Objective::kTime,
             in_time = steps || request.objective == Objective::kTime;
  auto text = [in_time](const solver::Wide& cost) {
    return in_time ? time_text(static_cast<double>(cost)) : megabytes(static_cast<double>(cost));
  };
  watched.progress = [lines = ProgressLines(steps     ? "step time"
                                            : in_time ? "serial time"
                                                      : "communication",
                                            text, &told)](const SearchProgress& p) mutable { lines(p.cost, p.bound); };
  return planned_or_remedies(watched, runner, say_remedies);
}

std::vector<std::string> representative_devices_of(const Planned& p) {
  std::vector<std::string> names;
  for (DeviceId d : p.representatives) names.push_back(p.cluster.device(d).name);
  return names;
}

std::string representative_devices_text(const Planned& p) {
  constexpr size_t kFew = 4;
  const std::vector<std::string> names = representative_devices_of(p);
  if (names.size() <= kFew) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, {} .. {}", names[0], names[1], names.back());
}

namespace {

// The time of a plan's parts one after another, if it was made for the objective `time`.
std::optional<int64_t> serial_time_ns(const Planned& p) {
  if (p.search.estimate || p.plan.objective != text_of(Objective::kTime)) return std::nullopt;
  return serial_ns(p.training, *p.resolved, p.cluster);
}

double us(int64_t ns) { return static_cast<double>(ns) / 1e3; }

void add_time(Json& json, const TimeParts& parts) {
  json["compute_time_us"] = us(parts.compute_ns);
  json["exposed_communication_us"] = Json::object();
  for (const auto& [kind, ns] : parts.exposed_ns) json["exposed_communication_us"][kind] = us(ns);
  json["bubble_us"] = us(parts.bubble_ns);
  json["waiting_us"] = us(parts.waiting_ns);
}

}  // namespace

void add_breakdown(Json& json, const Planned& p) {
  const StepBreakdown parts = p.breakdown();
  add_time(json, parts);
  json["stages"] = Json::array();
  for (const StageFigures& stage : parts.stages) {
    Json devices = Json::array();
    for (DeviceId d : stage.devices) devices.push_back(p.cluster.device(d).name);
    json["stages"].push_back(
        {{"devices", devices}, {"peak_memory_bytes", stage.peak_memory_bytes}, {"in_flight", stage.in_flight}});
    add_time(json["stages"].back(), stage.time);
  }
}

namespace {

// The same for a reader: a line for the step, and one for each stage if there are several.
void print_breakdown(const Planned& p) {
  const StepBreakdown parts = p.breakdown();
  std::vector<std::string> exposed;
  for (const auto& [kind, ns] : parts.exposed_ns)
    exposed.push_back(fmt::format("{} {}", kind, time_text(static_cast<double>(ns))));
  fmt::print("of it          {} computing on {}, {} in the open, {} bubble, {} waiting\n",
             time_text(static_cast<double>(parts.compute_ns)), p.cluster.device(parts.device).name,
             exposed.empty() ? std::string("no communication") : fmt::format("{}", fmt::join(exposed, " + ")),
             time_text(static_cast<double>(parts.bubble_ns)), time_text(static_cast<double>(parts.waiting_ns)));
  for (size_t s = 0; parts.stages.size() > 1 && s < parts.stages.size(); ++s) {
    const StageFigures& stage = parts.stages[s];
    fmt::print(
        "stage {:<8} {}{}: {}, {} {} in flight, {} computing\n", s, p.cluster.device(stage.devices.front()).name,
        stage.devices.size() == 1 ? std::string() : fmt::format(" .. {}", p.cluster.device(stage.devices.back()).name),
        megabytes(static_cast<double>(stage.peak_memory_bytes)), stage.in_flight,
        p.plan.pipeline.virtual_stages > 1 ? fmt::format("chunks (of {})", p.plan.pipeline.virtual_stages)
                                           : "micro-batches",
        time_text(static_cast<double>(stage.time.compute_ns)));
  }
}

// Kernels of the predicted step, and how many of them have times that its profile only estimates.
struct KernelCounts {
  size_t all = 0, estimated = 0;
};
KernelCounts kernel_counts(const Planned& p) {
  KernelCounts counts;
  for (size_t t = 0; t < p.physical.tasks.size(); ++t) {
    if (!std::holds_alternative<KernelWork>(p.physical.tasks[t].work)) continue;
    ++counts.all;
    counts.estimated += p.predicted.estimated.contains(TaskId(t));
  }
  return counts;
}

// local:N stands for any machine.
bool is_nominal(const Cluster& cluster) { return !cluster.profile && cluster.name.starts_with("local:"); }

// A plan that was made with a profile, and has none now.
bool lacks_its_profile(const Planned& p) { return !p.cluster.profile && !p.plan.measured_on.empty(); }

}  // namespace

std::string source_of_times(const Planned& p) {
  if (lacks_its_profile(p))
    return fmt::format("predicted, {}: the plan was made with a profile of {}, which --profile FILE gives",
                       is_nominal(p.cluster) ? "nominal" : "by the cluster's figures", p.plan.measured_on);
  if (is_nominal(p.cluster)) return "predicted, nominal: without a profile of this machine";
  if (!p.cluster.profile || p.search.estimate) return "predicted";
  const KernelCounts counts = kernel_counts(p);
  const std::string on = p.cluster.profile->measured_on();
  if (counts.estimated == 0) return fmt::format("predicted, all {} kernels measured on {}", counts.all, on);
  return fmt::format("predicted, {} of {} kernels estimated from what was measured on {}", counts.estimated, counts.all,
                     on);
}

namespace {

// " (7,090 tokens/s, 886 a device)", for a model of text.
std::string tokens_text(const Planned& p) {
  const std::optional<double> rate = tokens_per_second(p);
  if (!rate) return "";
  return fmt::format(" ({:.0f} tokens/s, {:.0f} a device)", *rate, *rate / p.cluster.compute_count);
}

// The lifetime of gradients, on request, or if the first setting of language models that changes the memory is missing,
// which is often forgotten; empty: nothing to say.
std::string gradients_text(const Planned& p) {
  if (!p.search.estimate &&
      std::ranges::any_of(p.training.ops, [](const Op& op) { return keeps_gradient(op.attributes); }))
    return "all are kept until the last update of the step (keep_gradients)";
  const bool keeps = p.plan.model.optimizer.clip_norm || p.plan.model.micro_batches > 1;
  if (keeps || p.search.estimate || !p.tokens_per_sample() || p.plan.model.loss.empty()) return "";
  return "each is freed when its weight is updated; --clip-norm 1, which language models train with, keeps all until "
         "the last is there";
}

}  // namespace

namespace {

// The meaning of gaps, if they are more than a part of the peak.
std::string gaps_text(const Planned& p) {
  constexpr double kPart = 0.05;
  for (const auto& [kind, bytes] : p.peak_memory_contents())
    if (kind == kGaps && static_cast<double>(bytes) > kPart * static_cast<double>(p.peak_memory_bytes()))
      return fmt::format(
          "{} of it hold nothing at that moment: no buffer of then fits there, or they are not given to "
          "others yet, so that communication need not wait",
          megabytes(static_cast<double>(bytes)));
  return "";
}

}  // namespace

double comm_bytes_per_device(const Planned& p) {
  return static_cast<double>(p.report.comm_bytes) / p.cluster.compute_count;
}

std::optional<double> tokens_per_second(const Planned& p) {
  const std::optional<int64_t> tokens = p.tokens_per_sample();
  const std::optional<double> samples = p.samples_per_second();
  if (!tokens || !samples) return std::nullopt;
  return *samples * static_cast<double>(*tokens);
}

std::string memory_text(const Planned& p) {
  std::vector<std::string> kinds;
  for (const auto& [kind, bytes] : p.peak_memory_contents())
    kinds.push_back(fmt::format("{} {}", kind, megabytes(static_cast<double>(bytes))));
  return fmt::format("{}", fmt::join(kinds, ", "));
}

void add_memory(Json& json, const Planned& p) {
  json["peak_memory_by_kind"] = Json::object();
  for (const auto& [kind, bytes] : p.peak_memory_contents()) json["peak_memory_by_kind"][kind] = bytes;
}

std::string least_memory_text(const Planned& p) {
  if (p.search.estimate || p.least_memory_bytes() == p.peak_memory_bytes()) return "";
  return fmt::format("; the plan needs at least {}", enough_megabytes(static_cast<double>(p.least_memory_bytes())));
}

void warn_of_profile(const Cluster& cluster) {
  if (!cluster.profile) return;
  const Profile& profile = *cluster.profile;
  const Machine &there = profile.machine, here = this_machine();
  const auto is_gpu = [&](const Device& d) { return d.model == profile.device && d.kind == DeviceKind::kGpu; };
  if (there.engine.ends_with("cpu") && std::any_of(cluster.devices.begin(), cluster.devices.end(), is_gpu))
    tell("the profile of '{}' was measured on a CPU, {}: step times are not a GPU's", profile.device, there.name);
  if (cluster.name.starts_with("local:") && (there.name != here.name || there.cores != here.cores))
    tell("the profile is of {} ({} cores), and this machine is {} ({} cores)", there.name, there.cores, here.name,
         here.cores);
}

std::string batch_norm_groups_text(const Planned& p) {
  const int64_t groups = p.plan.model.batch_norm_groups;
  const std::optional<int64_t> batch = p.batch();
  if (groups == 1 || !batch) return "";
  return fmt::format("statistics of {} groups of {} samples", groups, *batch / groups);
}

void add_source_of_times(Json& json, const Planned& p) {
  json["nominal"] = is_nominal(p.cluster);
  add_validation(json, p);
  if (lacks_its_profile(p)) json["made_with_profile_of"] = p.plan.measured_on;
  if (!p.cluster.profile || p.search.estimate) return;
  const KernelCounts counts = kernel_counts(p);
  json["kernels"] = counts.all;
  json["estimated_kernels"] = counts.estimated;
  json["measured_on"] = p.cluster.profile->measured_on();
}

void add_utilization(Json& json, const Planned& p) {
  const std::optional<Planned::Utilization> used = p.utilization();
  if (!used) return;
  json["model_flops"] = used->model_flops;
  json["model_flops_utilization"] = used->part;
}

namespace {

// A rule's plan whose step is shorter by more than a part of it; null: there is none.
const Alternative* faster_rule(const Planned& p) {
  constexpr double kPart = 0.01;
  const std::optional<Alternative>& rule = p.search.fastest_rule;
  if (!rule || static_cast<double>(rule->step_time_ns) >= (1 - kPart) * static_cast<double>(p.step_time_ns()))
    return nullptr;
  return &*rule;
}

// Tells whether auto begins with it, and so finds no longer step if its objective is time.
bool is_of_auto(const SearchChoice& rule, const Cluster& cluster) {
  const auto asked = options_for_auto(*rule.entry, cluster);
  return std::ranges::find(asked, rule.options) != asked.end();
}

std::string faster_text(const Planned& p, const Alternative& rule) {
  const int64_t comm_bytes = p.report.comm_bytes;
  const auto bytes = static_cast<double>(rule.comm_bytes);
  const std::string moves = comm_bytes > 0
                                ? fmt::format("{:.2g} x as many bytes", bytes / static_cast<double>(comm_bytes))
                                : megabytes(bytes);
  return fmt::format("{} takes {} a step and moves {}; {}", rule.search,
                     time_text(static_cast<double>(rule.step_time_ns)), moves,
                     is_of_auto(parse_search(rule.search), p.cluster) ? "--objective time"
                                                                      : fmt::format("--search '{}'", rule.search));
}

// The slow products of the representative of the step's time; empty if they take less than a hundredth of it.
UnalignedProducts slow_products(const Planned& p) {
  constexpr double kPart = 0.01;
  if (p.search.estimate) return {};
  UnalignedProducts slow = unaligned_products(p.physical, p.cluster, p.breakdown().device);
  if (static_cast<double>(slow.lost_ns) < kPart * static_cast<double>(p.step_time_ns())) return {};
  return slow;
}

std::string slow_products_text(const Planned& p, const UnalignedProducts& slow) {
  const std::string& first = p.training.op(slow.ops[0]).name;
  const std::string others = slow.ops.size() > 1 ? fmt::format(" and {} more", slow.ops.size() - 1) : "";
  return fmt::format("{} of it is lost in {}{}: rows of {} {}; of a multiple of 8, nothing would be",
                     time_text(static_cast<double>(slow.lost_ns)), first, others, slow.row,
                     slow.row == 1 ? "element" : "elements");
}

Json trail_json(const std::vector<SearchPoint>& trail) {
  Json points = Json::array();
  for (const SearchPoint& point : trail)
    points.push_back(
        {{"proposals", point.proposals}, {"cpu_seconds", point.cpu_seconds}, {"local_step_time_us", us(point.cost)}});
  return points;
}

void add_idle_devices(Json& json, const Planned& p) {
  const IdleDevices idle = idle_devices(p);
  if (idle.count == 0) return;
  json["idle_devices"] = {{"count", idle.count}, {"holding", idle.holding}, {"types", Json::array()}};
  for (const IdleDevices::Type& of : idle.types)
    json["idle_devices"]["types"].push_back({{"type", of.type}, {"idle", of.idle}, {"devices", of.all}});
}

// The objective of the plan's search: a search by time has that one whatever the request.
std::string objective_of(const Planned& p) {
  const SearchEntry* entry = find_search(p.plan.search.substr(0, p.plan.search.find('?')));
  return entry && entry->measure == Objective::kTime ? text_of(Objective::kTime) : p.plan.objective;
}

}  // namespace

std::optional<double> gap_of_placement(const Planned& p) {
  const auto bound = p.search.lower_bound_step_ns;
  if (!bound) return std::nullopt;
  return gap_of(p.step_time_ns(), *bound);
}

Json plan_json(const Planned& p, const std::string& plan_file) {
  Json json = {{"model", p.plan.model.model},
               {"cluster", p.cluster.name},
               {"devices", p.cluster.compute_count},
               {"search", p.plan.search},
               {"objective", objective_of(p)},
               {"comm_bytes", p.report.comm_bytes},
               {"comm_bytes_per_device", comm_bytes_per_device(p)},
               {"peak_memory_bytes", p.peak_memory_bytes()},
               {"search_seconds", p.search_seconds}};
  if (!p.search.estimate) {
    json["least_memory_bytes"] = p.least_memory_bytes();
    add_memory(json, p);
  }
  json["step_time_us"] = us(p.step_time_ns());
  add_source_of_times(json, p);
  if (!p.representatives.empty()) json["typical_devices"] = representative_devices_of(p);
  if (const auto batch = p.batch()) json["batch"] = *batch;
  if (p.plan.model.micro_batches > 1) json["micro_batches"] = p.plan.model.micro_batches;
  if (p.plan.model.batch_norm_groups > 1) json["batch_norm_groups"] = p.plan.model.batch_norm_groups;
  if (const auto rate = p.samples_per_second()) json["samples_per_second"] = *rate;
  if (const auto rate = tokens_per_second(p)) json["tokens_per_second"] = *rate;
  add_utilization(json, p);
  if (const UnalignedProducts slow = slow_products(p); !slow.ops.empty()) {
    json["slow_products"] = {{"time_us", us(slow.lost_ns)}, {"row", slow.row}, {"ops", Json::array()}};
    for (OpId op : slow.ops) json["slow_products"]["ops"].push_back(p.training.op(op).name);
  }
  if (p.search.estimate) json["host_bytes"] = p.search.estimate->host_bytes;
  else add_breakdown(json, p);
  for (const TypeTime& of : times_of_mixed_devices(p))
    json["mixed_devices"].push_back(
        {{"type", of.type}, {"compute_time_us", us(of.compute_ns)}, {"waits_for_slower_us", us(of.waits_ns)}});
  add_idle_devices(json, p);
  if (const auto bound = p.search.lower_bound_comm_bytes) {
    json["lower_bound_comm_bytes"] = *bound;
    json["gap"] = gap_of(p.report.comm_bytes, *bound);
  }
  if (const auto gap = gap_of_placement(p)) {
    json["lower_bound_step_time_us"] = us(*p.search.lower_bound_step_ns);
    json["gap"] = *gap;
  }
  if (const auto serial = serial_time_ns(p)) json["serial_time_us"] = static_cast<double>(*serial) / 1e3;
  if (const auto bound = p.search.lower_bound_serial_ns)
    json["lower_bound_serial_time_us"] = static_cast<double>(*bound) / 1e3;
  if (const Alternative* rule = faster_rule(p))
    json["faster"] = {
        {"search", rule->search}, {"step_time_us", us(rule->step_time_ns)}, {"comm_bytes", rule->comm_bytes}};
  if (p.plan.paper_cost) json["paper_cost"] = *p.plan.paper_cost;
  if (const auto ns = p.search.local_ns) json["local_step_time_us"] = us(*ns);
  if (const auto ns = p.search.local_lower_bound_ns) json["local_lower_bound_us"] = us(*ns);
  if (!p.search.counters.empty()) json["counters"] = p.search.counters;
  if (!p.search.trail.empty()) json["search_trail"] = trail_json(p.search.trail);
  if (!plan_file.empty()) json["plan"] = plan_file;
  return json;
}

namespace {

void print_placement_bound(const Planned& p) {
  const auto gap = gap_of_placement(p);
  if (!gap) return;
  const int64_t bound = *p.search.lower_bound_step_ns;
  fmt::print("lower bound    {} for whole operations{} (gap {:.1f}%){}\n", time_text(static_cast<double>(bound)),
             has_cold_times(p.cluster) ? ", each kernel as long as on one device" : "", 100 * *gap,
             p.step_time_ns() < bound ? "; the lowered step is shorter" : "");
}

// "213 ops on node0.gpu0, 202 on node0.gpu1", for plans that have whole operations on different devices.
std::string ops_of_devices(const Planned& p) {
  if (!places_whole_ops(p.plan)) return "";
  constexpr size_t kFew = 8;
  std::map<DeviceId, int> ops;
  for (const OpChoice& choice : p.plan.ops) ++ops[choice.mesh.devices[0]];
  if (ops.size() > kFew) return fmt::format("whole ops on {} devices", ops.size());
  std::vector<std::string> texts;
  for (const auto& [device, count] : ops)
    texts.push_back(fmt::format("{}{} on {}", count, texts.empty() ? " ops" : "", p.cluster.device(device).name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

void print_memory(const Planned& p) {
  fmt::print("of it          {}\n", memory_text(p));
  if (const std::string gaps = gaps_text(p); !gaps.empty()) fmt::print("gaps           {}\n", gaps);
}

// "A100 computes 40.0 ms, V100 computes 100 ms; operations are split evenly, so A100 waits 60.0 ms a step ..".
void print_mixed_devices(const Planned& p) {
  std::vector<std::string> times, waits;
  for (const TypeTime& of : times_of_mixed_devices(p)) {
    times.push_back(fmt::format("{} computes {}", of.type, time_text(static_cast<double>(of.compute_ns))));
    if (of.waits_ns > 0)
      waits.push_back(fmt::format("{} waits {}", of.type, time_text(static_cast<double>(of.waits_ns))));
  }
  if (times.empty()) return;
  fmt::print("mixed devices  {}{}\n", fmt::join(times, ", "),
             waits.empty()
                 ? std::string()
                 : fmt::format("; operations are split evenly, so {} a step for the slower", fmt::join(waits, ", ")));
}

}  // namespace

void print_plan(const Planned& p) {
  fmt::print("model          {} ({} ops, {} parameters)\n", p.plan.model.model, p.training.ops.size(),
             std::count_if(p.training.tensors.begin(), p.training.tensors.end(),
                           [](const Tensor& t) { return t.role == Role::kParameter; }));
  if (!p.plan.model.loss.empty())
    fmt::print("training       {}, {}, {}\n", name_of(p.plan.model.dtype), p.plan.model.loss,
               p.plan.model.optimizer.kind);
  fmt::print("cluster        {}, {} devices\n", p.cluster.name, p.cluster.compute_count);
  fmt::print("search         {} ({:.3f} s)\n", p.plan.search, p.search_seconds);
  if (const auto& estimate = p.search.estimate)
    fmt::print("communication  none between devices, {} a step with host memory; estimated, there is no plan to run\n",
               megabytes(static_cast<double>(estimate->host_bytes)));
  else
    fmt::print("communication  {} a step, {} a device; {} of it inside operations, {} conversions\n",
               megabytes(static_cast<double>(p.report.comm_bytes)), megabytes(comm_bytes_per_device(p)),
               megabytes(static_cast<double>(p.report.inner_bytes)), p.report.conversions);
  if (const auto bound = p.search.lower_bound_comm_bytes)
    fmt::print("lower bound    {} (gap {:.2f}%)\n", megabytes(static_cast<double>(*bound)),
               100 * gap_of(p.report.comm_bytes, *bound));
  fmt::print("step time      {} ({})\n", time_text(static_cast<double>(p.step_time_ns())), source_of_times(p));
  print_validation(p);
  print_placement_bound(p);
  if (!p.search.estimate) print_breakdown(p);
  print_mixed_devices(p);
  if (const std::string idle = idle_text(p); !idle.empty()) fmt::print("idle           {}\n", idle);
  if (const std::string ops = ops_of_devices(p); !ops.empty())
    fmt::print("placement      {}; `partita explain PLAN` shows layers, devices and times\n", ops);
  if (const auto serial = serial_time_ns(p)) {
    fmt::print("serial time    {} if nothing overlapped", time_text(static_cast<double>(*serial)));
    if (const auto bound = p.search.lower_bound_serial_ns)
      fmt::print("; lower bound {} (gap {:.2f}%)", time_text(static_cast<double>(*bound)),
                 100 * gap_of(*serial, *bound));
    fmt::print("\n");
  }
  if (const std::string groups = batch_norm_groups_text(p); !groups.empty()) fmt::print("batch norm     {}\n", groups);
  if (p.plan.model.micro_batches > 1) fmt::print("micro-batches  {}\n", p.plan.model.micro_batches);
  if (const auto rate = p.samples_per_second())
    fmt::print("throughput     {:.1f} samples/s{}, {} samples a step\n", *rate, tokens_text(p), *p.batch());
  if (const auto used = p.utilization())
    fmt::print("utilization    {:.1f}% of the devices' peak in {}: {:.4g} model FLOPs a step\n", 100 * used->part,
               name_of(p.plan.model.dtype), used->model_flops);
  if (const UnalignedProducts slow = slow_products(p); !slow.ops.empty())
    fmt::print("slow products  {}\n", slow_products_text(p, slow));
  fmt::print("peak memory    {} on {}{}\n", megabytes(static_cast<double>(p.peak_memory_bytes())),
             p.representatives.empty() ? "the device that needs most"
                                       : fmt::format("the one of {} that needs most", representative_devices_text(p)),
             least_memory_text(p));
  if (!p.search.estimate) print_memory(p);
  if (const std::string text = gradients_text(p); !text.empty()) fmt::print("gradients      {}\n", text);
  if (const Alternative* rule = faster_rule(p)) fmt::print("faster         {}\n", faster_text(p, *rule));
}

}  // namespace partita
