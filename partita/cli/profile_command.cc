// profile: what kernels, collectives and copies take on this machine.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/output_file.h"
#include "partita/cli/commands.h"
#include "partita/cli/interrupt.h"
#include "partita/measure/measure.h"
#include "partita/train/engine.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

constexpr const char* kLocalDevice = "core";  // the device type of local:N

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

KernelsToTime kernels_of(const Arguments& a, int devices) {
  KernelsToTime kernels;
  for (const std::string& target : a.targets) {
    Runner runner;
    if (is_plan_file(target)) {
      add_kernels(open_plan(target, runner, Follow::kWhole).physical, kernels);
      continue;
    }
    Request request = a.request;
    request.model = target;
    add_kernels(step_graph(load_model(request, runner), request, runner).graph, devices, kernels);
  }
  return kernels;
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

}  // namespace

int profile_command(const Arguments& a) {
  expect_writable(a.output);
  Profile profile = profile_so_far(a.output);
  const int devices = a.request.devices > 0 ? a.request.devices : profile.machine.cores;
  const KernelsToTime kernels = kernels_of(a, devices);
  MeasureOptions options;
  options.devices = devices;
  options.cores = profile.machine.cores;
  options.progress = MeasureLines();
  options.keep = [&](const Profile& p) { write_file(a.output, print(p)); };
  options.stop = &interrupted;
  MeasureReport report;
  {
    const CatchInterrupt caught;
    report = measure(kernels, load_kernels(), options, profile);
  }
  print_report(a, profile, report);
  if (!report.interrupted) return 0;
  fmt::print(stderr, "interrupted: {} has what was measured; the same command goes on from there\n", a.output);
  return static_cast<int>(ExitCode::kInterrupted);
}

}  // namespace partita
