// plan, simulate, compare, check.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/output_file.h"
#include "partita/cli/commands.h"
#include "partita/cli/interrupt.h"
#include "partita/cli/progress.h"
#include "partita/cost/alone.h"
#include "partita/network/problem.h"
#include "partita/remedies.h"
#include "partita/runtime/array_file.h"
#include "partita/search/bound_proof.h"

namespace partita {

using Json = nlohmann::ordered_json;

Json without_missing(Json json) {
  if (json.is_object()) {
    for (auto field = json.begin(); field != json.end();) {
      if (field->is_number_float() && !std::isfinite(field->get<double>())) field = json.erase(field);
      else ++field;
    }
  }
  if (json.is_structured())
    for (Json& inner : json) inner = without_missing(std::move(inner));
  return json;
}

void print_json(Json json) {
  Json out = {{"schema_version", 1}};
  out.update(without_missing(std::move(json)));
  fmt::print("{}\n", out.dump(2));
}

void print_timings(const Runner& runner, const Arguments& a) {
  if (!a.verbose) return;
  for (const Runner::Timing& t : runner.timings())
    fmt::print(stderr, "{:<12} {:9.3f} ms, verified in {:.3f} ms\n", t.name, t.seconds * 1e3, t.verify_seconds * 1e3);
}

void print_training_notes(const OnnxFindings& findings) {
  for (const std::string& note : training_notes(findings)) fmt::print(stderr, "{}\n", note);
}

// Of a plan made for the objective `time`: its parts one after another.
std::optional<int64_t> serial_time_ns(const Planned& p) {
  if (p.search.estimate || p.plan.objective != "time") return std::nullopt;
  return serial_ns(p.training, p.plan, p.cluster);
}

namespace {

// Of a request that nothing fits: with what it would.
Planned planned_or_remedies(const Request& request, Runner& runner, bool say_remedies) try {
  return plan_model(request, runner);
} catch (const DoesNotApply&) {
  throw;
} catch (const Error& error) {
  if (error.code() != ExitCode::kInfeasible || interrupted || !say_remedies) throw;
  throw Error(error.code(), error.what() + remedies(request));
}

}  // namespace

Planned plan_watched(const Request& request, Runner& runner, bool say_remedies) {
  std::optional<CatchInterrupt> caught;  // while the model is loaded there is nothing to keep
  Request watched = request;
  watched.before_search = [&] { caught.emplace(); };
  ToldLines told;
  watched.tell = std::ref(told);
  watched.budget.stop = &interrupted;
  const bool in_time = request.objective == "time";
  auto text = [in_time](const solver::Wide& cost) {
    return in_time ? time_text(static_cast<double>(cost)) : megabytes(static_cast<double>(cost));
  };
  watched.progress = [lines = ProgressLines(in_time ? "serial time" : "communication", text)](
                         const SearchProgress& p) mutable { lines(p.cost, p.bound); };
  Planned p = planned_or_remedies(watched, runner, say_remedies);
  if (interrupted) fmt::print(stderr, "interrupted: this is the best plan so far\n");
  return p;
}

// The names of those that stand for all.
std::vector<std::string> typical_devices_of(const Planned& p) {
  std::vector<std::string> names;
  for (DeviceId d : p.typical) names.push_back(p.cluster.device(d).name);
  return names;
}

Json plan_json(const Planned& p, const std::string& plan_file) {
  Json json = {{"model", p.plan.model.model},
               {"cluster", p.cluster.name},
               {"devices", p.cluster.compute_count},
               {"search", p.plan.search},
               {"objective", p.plan.objective},
               {"comm_bytes", p.report.comm_bytes},
               {"peak_memory_bytes", p.peak_memory_bytes()},
               {"search_seconds", p.search_seconds}};
  if (p.is_timed()) json["step_time_us"] = static_cast<double>(p.step_time_ns()) / 1e3;
  else json["typical_devices"] = typical_devices_of(p);
  if (const auto batch = p.batch()) json["batch"] = *batch;
  if (const auto rate = p.samples_per_second()) json["samples_per_second"] = *rate;
  if (p.search.estimate) json["host_bytes"] = p.search.estimate->host_bytes;
  else if (p.is_timed()) json["compute_time_us"] = static_cast<double>(p.compute_time_ns()) / 1e3;
  if (const auto bound = p.search.lower_bound_comm_bytes) {
    json["lower_bound_comm_bytes"] = *bound;
    json["gap"] = gap_of(p.report.comm_bytes, *bound);
  }
  if (const auto serial = serial_time_ns(p)) json["serial_time_us"] = static_cast<double>(*serial) / 1e3;
  if (const auto bound = p.search.lower_bound_serial_ns)
    json["lower_bound_serial_time_us"] = static_cast<double>(*bound) / 1e3;
  if (p.plan.paper_cost) json["paper_cost"] = *p.plan.paper_cost;
  if (!p.search.counters.empty()) json["counters"] = p.search.counters;
  if (!plan_file.empty()) json["plan"] = plan_file;
  return json;
}

namespace {

template <typename T>
std::string or_dash(fmt::format_string<const T&> format, const std::optional<T>& value) {
  return value ? fmt::format(format, *value) : "-";
}

void print_plan(const Planned& p) {
  fmt::print("model          {} ({} ops, {} parameters)\n", p.plan.model.model, p.training.ops.size(),
             std::count_if(p.training.tensors.begin(), p.training.tensors.end(),
                           [](const Tensor& t) { return t.role == Role::kParameter; }));
  fmt::print("cluster        {}, {} devices\n", p.cluster.name, p.cluster.compute_count);
  fmt::print("search         {} ({:.3f} s)\n", p.plan.search, p.search_seconds);
  if (const auto& estimate = p.search.estimate)
    fmt::print("communication  none between devices, {} a step with host memory; estimated, there is no plan to run\n",
               megabytes(static_cast<double>(estimate->host_bytes)));
  else
    fmt::print("communication  {} a step, {} of it inside operations, {} conversions\n",
               megabytes(static_cast<double>(p.report.comm_bytes)),
               megabytes(static_cast<double>(p.report.inner_bytes)), p.report.conversions);
  if (const auto bound = p.search.lower_bound_comm_bytes)
    fmt::print("lower bound    {} (gap {:.2f}%)\n", megabytes(static_cast<double>(*bound)),
               100 * gap_of(p.report.comm_bytes, *bound));
  if (p.is_timed()) fmt::print("step time      {} (predicted)", time_text(static_cast<double>(p.step_time_ns())));
  else fmt::print("step time      not predicted: too many tasks to simulate");
  if (p.is_timed() && !p.search.estimate)
    fmt::print("; {} of it the busiest device computes", time_text(static_cast<double>(p.compute_time_ns())));
  fmt::print("\n");
  if (const auto serial = serial_time_ns(p)) {
    fmt::print("serial time    {} if nothing overlapped", time_text(static_cast<double>(*serial)));
    if (const auto bound = p.search.lower_bound_serial_ns)
      fmt::print("; lower bound {} (gap {:.2f}%)", time_text(static_cast<double>(*bound)),
                 100 * gap_of(*serial, *bound));
    fmt::print("\n");
  }
  if (const auto rate = p.samples_per_second())
    fmt::print("throughput     {:.1f} samples/s, {} samples a step\n", *rate, *p.batch());
  fmt::print("peak memory    {} on {}\n", megabytes(static_cast<double>(p.peak_memory_bytes())),
             p.typical.empty() ? "the device that needs most"
                               : fmt::format("the one of {} that needs most", fmt::join(typical_devices_of(p), ", ")));
}

}  // namespace

int plan_command(const Arguments& a) {
  for (const std::string& path : {a.output, a.write_bound}) expect_writable(path);
  Runner runner;
  Planned p = plan_watched(a.request, runner);
  for (const std::string& note : p.search.notes) fmt::print(stderr, "{}\n", note);
  print_training_notes(p.findings);
  if (!a.output.empty()) write_file(a.output, print(p.plan, p.training));
  if (!a.write_bound.empty()) {
    if (!p.search.proof) {
      fmt::print(stderr, "no bound was proved: {} is not written\n", a.write_bound);
    } else {
      p.search.proof->model_sha256 = p.plan.model.sha256;
      solver::write_text(a.write_bound, print_proof(*p.search.proof));
    }
  }
  if (a.json) print_json(plan_json(p, a.output));
  else {
    print_plan(p);
    if (!a.output.empty()) fmt::print("plan           {}\n", a.output);
  }
  print_timings(runner, a);
  return 0;
}

int simulate_command(const Arguments& a) {
  expect_writable(a.trace);
  Runner runner;
  Planned p = open_plan(a.target, runner);
  if (!p.is_timed()) fail("{}: too many tasks to simulate; `partita check` counts what it moves and needs", a.target);
  if (!a.trace.empty()) write_file(a.trace, chrome_trace(p.predicted, p.physical, p.cluster));
  std::map<std::string, double> busy;  // by queue: share of the step
  for (const Event& e : p.predicted.events)
    busy[p.physical.queues[p.physical.task(e.task).queue.index()].name] += static_cast<double>(e.end_ns - e.start_ns);
  for (auto& [queue, ns] : busy) ns /= static_cast<double>(std::max<int64_t>(1, p.predicted.step_time_ns));
  double compute = 0;
  for (int d = 0; d < p.cluster.compute_count; ++d)
    compute += busy[p.cluster.devices[d].name + ".compute"] / p.cluster.compute_count;
  double seconds = 0;
  for (const Runner::Timing& t : runner.timings())
    if (t.name == "simulate") seconds = t.seconds;
  if (a.json) {
    print_json({{"step_time_us", static_cast<double>(p.predicted.step_time_ns) / 1e3},
                {"compute_time_us", static_cast<double>(p.compute_time_ns()) / 1e3},
                {"comm_bytes", p.report.comm_bytes},
                {"peak_memory_bytes", p.peak_memory_bytes()},
                {"utilization", compute},
                {"tasks", p.physical.tasks.size()},
                {"simulate_seconds", seconds}});
  } else {
    print_plan(p);
    fmt::print("tasks          {}, compute queues busy {:.0f}% of the step\n", p.physical.tasks.size(), 100 * compute);
    if (!a.trace.empty()) fmt::print("trace          {}\n", a.trace);
  }
  print_timings(runner, a);
  return 0;
}

int compare_command(const Arguments& a) {
  const CatchInterrupt caught;  // the rows so far are kept
  Json rows = Json::array();
  bool any = false;
  std::optional<Error> without;
  if (!a.json)
    fmt::print("{:<24} {:>7} {:>14} {:>10} {:>10} {:>14} {:>10}\n", "search", "batch", "communication", "step time",
               "samples/s", "peak memory", "seconds");
  for (const std::string& search : a.searches) {
    Request request = a.request;
    request.search = search;
    request.budget.deadline.reset();  // each has its own time
    if (!request.from_file.empty() && !parse_search(search).entry->warm) {
      fmt::print(stderr, "{} cannot begin with a plan: it makes its own without {}\n", search, request.from_file);
      request.from_file.clear();
    }
    Runner runner;
    Planned p;
    try {
      if (interrupted) throw Error(ExitCode::kInterrupted, "interrupted before this search began");
      p = plan_watched(request, runner, false);
    } catch (const Error& e) {
      // One search without a plan that fits is a row that says so; the others still count.
      if (e.code() == ExitCode::kBug || e.code() == ExitCode::kUsage || e.code() == ExitCode::kBadInput) throw;
      without = e;
      if (a.json) rows.push_back({{"search", search}, {"reason", e.what()}});
      else fmt::print("{:<24} no plan: {}\n", search, e.what());
      continue;
    }
    any = true;
    if (a.json) rows.push_back(plan_json(p, ""));
    else
      fmt::print("{:<24} {:>7} {:>14} {:>10} {:>10} {:>14} {:>10.3f}\n", search, or_dash("{}", p.batch()),
                 megabytes(static_cast<double>(p.report.comm_bytes)),
                 p.is_timed() ? time_text(static_cast<double>(p.step_time_ns())) : "-",
                 or_dash("{:.2f}", p.samples_per_second()), megabytes(static_cast<double>(p.peak_memory_bytes())),
                 p.search_seconds);
    std::fflush(stdout);
  }
  if (a.json) print_json({{"rows", rows}});
  return !without || (any && !interrupted) ? 0 : static_cast<int>(without->code());
}

namespace {

// Plan files begin with their version; problems have none.
bool is_plan(const std::string& file) {
  return solver::read_text(file).substr(0, 4096).find("\"schema_version\"") != std::string::npos;
}

int check_plan_bound(const Arguments& a) {
  Runner runner;
  const Planned p = open_plan(a.target, runner);
  const BoundProof proof = parse_proof(solver::read_text(a.bound), a.bound);
  int64_t bound = 0;
  try {
    bound = check_proof(proof, p.training, p.cluster, p.plan);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    fail("{}: {}", a.bound, error.what());
  }
  const bool in_time = proof.objective == "time";
  const int64_t cost = in_time ? serial_ns(p.training, p.plan, p.cluster) : p.report.comm_bytes;
  const bool inside = bound <= cost;
  if (a.json) {
    Json json = in_time ? Json{{"serial_time_us", static_cast<double>(cost) / 1e3},
                               {"lower_bound_serial_time_us", static_cast<double>(bound) / 1e3}}
                        : Json{{"comm_bytes", cost}, {"lower_bound_comm_bytes", bound}};
    if (inside) json["gap"] = gap_of(cost, bound);
    json["search"] = proof.search;
    json["mesh"] = proof.mesh.extents;
    json["memory_limit_bytes"] = proof.memory_limit_bytes;
    print_json(std::move(json));
    return 0;
  }
  const size_t pins = proof.pinned_ops.size() + proof.pinned_tensors.size();
  auto text = [&](int64_t x) {
    return in_time ? time_text(static_cast<double>(x)) : megabytes(static_cast<double>(x));
  };
  fmt::print("{}: proved; no plan of {}'s space on mesh {} within {} a device{} {}\n", a.bound, proof.search,
             fmt::join(proof.mesh.extents, "x"), megabytes(static_cast<double>(proof.memory_limit_bytes)),
             pins > 0 ? fmt::format(" (pins: {})", pins) : "",
             in_time ? fmt::format("takes less than {} if nothing overlapped", text(bound))
                     : fmt::format("moves less than {} ({} bytes)", text(bound), bound));
  const char* does = in_time ? "takes" : "moves";
  if (inside) fmt::print("{}: sound; it {} {}, gap {:.4f}%\n", a.target, does, text(cost), 100 * gap_of(cost, bound));
  else fmt::print("{}: sound; it {} {}, less than that: it lies outside of this space\n", a.target, does, text(cost));
  return 0;
}

}  // namespace

int check_command(const Arguments& a) {
  if (!a.bound.empty()) return is_plan(a.target) ? check_plan_bound(a) : check_bound_command(a);
  Runner runner;
  Planned p = open_plan(a.target, runner);
  if (a.json) {
    Json json = {{"comm_bytes", p.report.comm_bytes},
                 {"inner_bytes", p.report.inner_bytes},
                 {"conversions", p.report.conversions},
                 {"peak_memory_bytes", p.peak_memory_bytes()}};
    if (!p.typical.empty()) json["typical_devices"] = typical_devices_of(p);
    print_json(std::move(json));
  } else
    fmt::print("{}: sound; it moves {} a step in {} conversions, and needs {} on {}\n", a.target,
               megabytes(static_cast<double>(p.report.comm_bytes)), p.report.conversions,
               megabytes(static_cast<double>(p.peak_memory_bytes())),
               p.typical.empty() ? "one device" : fmt::format("one of {}", fmt::join(typical_devices_of(p), ", ")));
  return 0;
}

}  // namespace partita
