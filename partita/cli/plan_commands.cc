// plan, simulate: make a plan, or simulate one.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/interrupt.h"
#include "partita/base/output_file.h"
#include "partita/base/tell.h"
#include "partita/base/writes.h"
#include "partita/cli/commands.h"
#include "partita/cli/configuration_figures.h"
#include "partita/network/problem.h"
#include "partita/pipeline/in_file.h"
#include "partita/search/joint/bound_proof.h"

namespace partita {

int plan_command(const Arguments& a) {
  for (const std::string& path : {a.output, a.write_bound}) validate_writable(path);
  Runner runner(true, a.dump);
  Planned p = plan_watched(a.request, runner);
  if (interrupted) tell("interrupted: this is the best plan so far");
  for (const std::string& note : p.search.notes) tell("{}", note);
  print_training_notes(p.findings);
  warn_of_profile(p.cluster);
  Writes writes;
  if (!a.output.empty()) writes.add([&] { write_file(a.output, print(p.plan, p.training)); });
  if (!a.write_bound.empty()) {
    if (!p.search.proof) {
      tell("no bound was proved: {} is not written", a.write_bound);
    } else {
      p.search.proof->model_sha256 = p.plan.model.sha256;
      writes.add([&] { solver::write_text(a.write_bound, print_proof(*p.search.proof)); });
    }
  }
  writes.end();
  if (a.json) {
    nlohmann::ordered_json json = plan_json(p, a.output);
    add_configurations(json, p);
    print_json(std::move(json));
  } else {
    print_plan(p);
    print_configurations(p);
    if (!a.output.empty()) fmt::print("plan           {}\n", a.output);
  }
  print_timings(runner, a);
  return 0;
}

namespace {

// Runs of operations in a step, each on each of its devices.
int64_t invocations_of(const Planned& p) {
  int64_t count = 0;
  for (size_t i = 0; i < p.training.ops.size(); ++i)
    count += p.training.firings(p.training.ops[i]) * static_cast<int64_t>(p.plan.ops[i].mesh.devices.size());
  return count;
}

// Writes the trace of the whole step, or of the representatives of its figures: on request, or if the whole trace would
// be too large and there is no request.
void write_trace(Planned& p, const Arguments& a, Runner& runner) {
  constexpr int64_t kMost = 2'000'000;  // invocations: a file of about 300 MB
  const int64_t count = invocations_of(p);
  if (count > kMost && a.trace_devices == "all")
    throw Error(ExitCode::kUsage,
                fmt::format("--trace-devices all: a step of this plan is {} invocations of operations, more than the "
                            "{} that a trace may have; representatives stand for all",
                            count, kMost));
  const bool few = a.trace_devices == "representatives" || count > kMost;
  if (!few) follow_whole(p, runner);
  write_file(a.trace, chrome_trace(p.predicted, p.physical, p.cluster));
}

// " of 8 of 1024 devices and the first 6 of 64 micro-batches"; empty: the trace is of all.
std::string part_traced(const Planned& p) {
  std::vector<std::string> parts;
  if (!p.representatives.empty())
    parts.push_back(fmt::format("{} of {} devices", p.representatives.size(), p.cluster.compute_count));
  if (p.of_all_micro_batches)
    parts.push_back(
        fmt::format("the first {} of {} micro-batches", p.lowered_micro_batches, p.training.micro_batches()));
  return parts.empty() ? "" : fmt::format(" of {}", fmt::join(parts, " and "));
}

// By queue: the share of the step in which it is busy.
std::map<std::string, double> busy_queues(const Planned& p) {
  std::map<std::string, double> busy;
  for (const Event& e : p.predicted.events)
    busy[p.physical.queues[p.physical.task(e.task).queue.index()].name] += static_cast<double>(e.end_ns - e.start_ns);
  for (auto& [queue, ns] : busy) ns /= static_cast<double>(std::max<int64_t>(1, p.predicted.step_time_ns));
  return busy;
}

// The figures of each device in a step that was simulated whole.
struct DeviceFigures {
  std::string name;
  double busy = 0;  // the share of the step in which its compute queue is
  int64_t peak_memory_bytes = 0;
};
std::vector<DeviceFigures> device_figures(const Planned& p) {
  const std::map<std::string, double> busy = busy_queues(p);
  std::vector<DeviceFigures> devices;
  for (int d = 0; d < p.cluster.compute_count; ++d) {
    const std::string& name = p.cluster.devices[static_cast<size_t>(d)].name;
    const auto of = busy.find(name + ".compute");
    devices.push_back({name, of == busy.end() ? 0 : of->second, p.physical.peak_bytes[static_cast<size_t>(d)]});
  }
  return devices;
}

// A line for each, or for the busiest and those least busy of very many.
void print_devices(std::vector<DeviceFigures> devices) {
  constexpr size_t kMostLines = 64, kEnds = 8;
  const size_t count = devices.size();
  if (count > kMostLines) {
    std::ranges::stable_sort(devices, [](const auto& a, const auto& b) { return a.busy > b.busy; });
    devices.erase(devices.begin() + kEnds, devices.end() - kEnds);
    fmt::print("devices        the busiest and the least busy {} of {}\n", kEnds, count);
  }
  for (const DeviceFigures& device : devices)
    fmt::print("  {:<18} computes {:>3.0f}% of the step, peak memory {}\n", device.name, 100 * device.busy,
               megabytes(static_cast<double>(device.peak_memory_bytes)));
}

}  // namespace

int simulate_command(const Arguments& a) {
  validate_writable(a.trace);
  Runner runner(true, a.dump);
  Planned p = open_plan(a.target, runner, Follow::kAll, hardware_of(a));
  warn_of_profile(p.cluster);
  if (!a.trace.empty()) in_file(a.target, [&] { write_trace(p, a, runner); });
  std::vector<DeviceFigures> devices;
  if (p.is_whole()) devices = device_figures(p);
  double compute = 0;
  for (const DeviceFigures& device : devices) compute += device.busy / static_cast<double>(devices.size());
  double seconds = 0;
  for (const Runner::Timing& t : runner.timings())
    if (t.name == "simulate") seconds = t.seconds;
  if (a.json) {
    nlohmann::ordered_json json = {{"step_time_us", static_cast<double>(p.step_time_ns()) / 1e3}};
    add_source_of_times(json, p);
    add_utilization(json, p);
    add_breakdown(json, p);
    json.update({{"comm_bytes", p.report.comm_bytes},
                 {"comm_bytes_per_device", comm_bytes_per_device(p)},
                 {"peak_memory_bytes", p.peak_memory_bytes()},
                 {"least_memory_bytes", p.least_memory_bytes()}});
    add_memory(json, p);
    if (p.is_whole()) json.update({{"utilization", compute}, {"tasks", p.physical.tasks.size()}});
    for (const DeviceFigures& device : devices)
      json["devices"].push_back(
          {{"name", device.name}, {"utilization", device.busy}, {"peak_memory_bytes", device.peak_memory_bytes}});
    json["simulate_seconds"] = seconds;
    print_json(json);
  } else {
    print_plan(p);
    if (p.is_whole())
      fmt::print("tasks          {}, compute queues busy {:.0f}% of the step\n", p.physical.tasks.size(),
                 100 * compute);
    print_devices(std::move(devices));
    if (!a.trace.empty()) fmt::print("trace          {}{}\n", a.trace, part_traced(p));
  }
  print_timings(runner, a);
  return 0;
}

}  // namespace partita
