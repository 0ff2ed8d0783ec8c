// profile: what kernels, collectives and copies take on this machine, or a list of kernels to time on another.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/output_file.h"
#include "partita/cli/commands.h"
#include "partita/cli/interrupt.h"
#include "partita/measure/measure.h"
#include "partita/measure/worklist.h"
#include "partita/train/engine.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kLocalDevice = "core";  // the device type of local:N
constexpr int kMostByDefault = 8;             // devices of a work list: a node's

// A line each second on standard error.
struct MeasureLines {
  bool terminal = isatty(STDERR_FILENO);
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();

  void operator()(int done, int all, const std::string& what) {
    const auto now = std::chrono::steady_clock::now();
    const bool end = done == all;
    if (!end && now - last < std::chrono::milliseconds(terminal ? 200 : 2000)) return;
    last = now;
    fmt::print(stderr, "{}{}/{}  {:.60}{}", terminal ? "\r\x1b[K" : "", done, all, what, terminal && !end ? "" : "\n");
    std::fflush(stderr);
  }
};

struct Asked {
  KernelsToTime kernels;
  double step_bytes = 0;  // at most that are in memory at once on a device, about
};

Asked asked_of(const Arguments& a, const std::string& name, int devices) {
  Asked asked;
  Runner runner;
  if (is_plan_file(name)) {
    const PhysicalGraph physical = open_plan(name, runner, Follow::kWhole).physical;
    add_kernels(physical, asked.kernels);
    asked.step_bytes = static_cast<double>(*std::max_element(physical.peak_bytes.begin(), physical.peak_bytes.end()));
    return asked;
  }
  Request request = a.request;
  request.model = name;
  const Graph graph = step_graph(load_model(request, runner), request, runner).graph;
  add_kernels(graph, devices, asked.kernels);
  // Half of its tensors: about as many as are alive when the backward pass begins.
  for (const Tensor& tensor : graph.tensors) asked.step_bytes += static_cast<double>(tensor.bytes()) / 2;
  return asked;
}

// What the file has so far. Bad input where it is of another machine.
Profile profile_so_far(const std::string& file) {
  const Machine here = this_machine();
  Profile profile;
  if (!std::filesystem::exists(file)) {
    profile.device = kLocalDevice, profile.machine = here;
    return profile;
  }
  profile = parse_profile(read_file(file), file);
  const Machine& there = profile.machine;
  if (profile.device != kLocalDevice || there.name != here.name || there.cores != here.cores ||
      there.engine != here.engine)
    fail("{}: this is a profile of '{}' on {} ({} cores, {}); this machine is {} ({} cores, {}); write to another file",
         file, profile.device, there.name, there.cores, there.engine, here.name, here.cores, here.engine);
  return profile;
}

void print_report(const Arguments& a, const Profile& profile, const MeasureReport& report) {
  const HeldOut test = held_out(profile);
  if (a.json) {
    print_json({{"kernels", profile.kernels().size()},
                {"curves", profile.curves.size()},
                {"measured", report.measured},
                {"left_out", report.left_out},
                {"task_us", profile.machine.task_us},
                {"message_us", profile.machine.message_us},
                {"held_out",
                 {{"kernels", test.kernels},
                  {"median_error", test.median_error},
                  {"ninth_decile_error", test.ninth_decile_error}}},
                {"profile", a.output}});
    return;
  }
  fmt::print("machine        {}, {} cores\n", profile.machine.name, profile.machine.cores);
  fmt::print("measured       {} now; the profile has {} kernels and {} curves\n", report.measured,
             profile.kernels().size(), profile.curves.size());
  fmt::print("runtime        {:.1f} us a task, {:.1f} us more from another queue\n", profile.machine.task_us,
             profile.machine.message_us);
  for (const auto& [id, curve] : profile.curves)
    fmt::print("{:<14} {}{:.1f} us + bytes / {:.2f} GB/s (R2 {:.3f})\n", id.of,
               id.devices > 0 ? fmt::format("{} devices: ", id.devices) : "", curve.latency_us,
               1e-3 / curve.us_per_byte, curve.r2);
  if (test.kernels > 0)
    fmt::print("estimates      of {} kernels, each from all others: median error {:.0f}%, nine in ten below {:.0f}%\n",
               test.kernels, 100 * test.median_error, 100 * test.ninth_decile_error);
  for (const std::string& kernel : report.left_out) fmt::print("left out       {}\n", kernel);
  fmt::print("profile        {}\n", a.output);
}

void add(MeasureReport& all, const MeasureReport& one) {
  all.measured += one.measured;
  all.known += one.known;
  all.left_out.insert(all.left_out.end(), one.left_out.begin(), one.left_out.end());
  all.interrupted |= one.interrupted;
}

// Writes what to time for devices of the cluster, or of the plan's where none is named.
int write_worklist(const Arguments& a) {
  expect_writable(a.worklist);
  Runner runner;
  const Cluster cluster = a.request.cluster.empty() ? open_plan(a.targets.front(), runner, Follow::kCheck).cluster
                                                    : load_cluster(a.request.cluster);
  const int devices = a.request.devices > 0 ? a.request.devices : std::min(cluster.compute_count, kMostByDefault);
  const std::string& device = cluster.devices.front().model;
  KernelsToTime kernels;
  for (const std::string& name : a.targets) kernels.merge(asked_of(a, name, devices).kernels);
  write_file(a.worklist, print_worklist(kernels, device));
  if (a.json) {
    print_json({{"device", device}, {"devices", devices}, {"kernels", kernels.size()}, {"worklist", a.worklist}});
    return 0;
  }
  fmt::print("device         {}\n", device);
  fmt::print("kernels        {}, of plans for up to {} devices\n", kernels.size(), devices);
  fmt::print("work list      {}; on the machine to measure: python3 profile_torch.py {} -o profile.json\n", a.worklist,
             a.worklist);
  return 0;
}

}  // namespace

int profile_command(const Arguments& a) {
  if (!a.worklist.empty()) return write_worklist(a);
  expect_writable(a.output);
  Profile profile = profile_so_far(a.output);
  const int devices = a.request.devices > 0 ? a.request.devices : profile.machine.cores;
  MeasureOptions options;
  options.devices = devices;
  options.cores = profile.machine.cores;
  options.seconds = a.measure_seconds.value_or(options.seconds);
  options.progress = MeasureLines();
  options.keep = [&](const Profile& p) { write_file(a.output, print(p)); };
  options.stop = &interrupted;
  MeasureReport report;
  const CatchInterrupt caught;
  for (const std::string& name : a.targets) {
    const Asked asked = asked_of(a, name, devices);
    options.step_bytes = asked.step_bytes;
    if (a.targets.size() > 1) fmt::print(stderr, "{}\n", name);
    add(report, measure(asked.kernels, load_kernels(), options, profile));
    if (report.interrupted) break;
  }
  print_report(a, profile, report);
  if (!report.interrupted) return 0;
  fmt::print(stderr, "interrupted: {} has what was measured; the same command goes on from there\n", a.output);
  return static_cast<int>(ExitCode::kInterrupted);
}

}  // namespace partita
