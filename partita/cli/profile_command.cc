// profile: measures kernels, collectives and copies on this machine, or lists the kernels to time on another.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "partita/base/cpu_use.h"
#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/interrupt.h"
#include "partita/base/output_file.h"
#include "partita/base/tell.h"
#include "partita/base/units.h"
#include "partita/cli/commands.h"
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
    tell_raw(fmt::format("{}{}/{}  {:.60}{}", terminal ? "\r\x1b[K" : "", done, all, readable(what),
                         terminal && !end ? "" : "\n"));
  }
};

struct Asked {
  KernelsToTime kernels;
  double step_bytes = 0;  // at most that are in memory at once on a device, about
};

// `measured`: on this machine, which a plan has to be for.
Asked asked_of(const Arguments& a, const std::string& name, int devices, bool measured) {
  Asked asked;
  Runner runner;
  if (is_plan_file(name)) {
    const Planned p = open_plan(name, runner, Follow::kWhole);
    if (const std::string& model = p.cluster.devices.front().model; measured && model != kLocalDevice)
      fail(
          "{}: a plan for devices of type '{}', and -o measures those of local:N on this machine; --worklist FILE "
          "writes what to measure on that type",
          name, model);
    add_kernels(p.physical, asked.kernels);
    const std::vector<int64_t>& peaks = p.physical.peak_bytes;
    asked.step_bytes = static_cast<double>(*std::max_element(peaks.begin(), peaks.end()));
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

// Tells whether there is anything in a file that write_file() would replace.
bool has_content(const std::string& file) {
  std::error_code error;
  return is_replaced(file) && std::filesystem::file_size(file, error) > 0 && !error;
}

// The profile in the file so far. Bad input if it is of another machine.
Profile profile_so_far(const std::string& file) {
  const Machine here = this_machine();
  Profile profile;
  if (!has_content(file)) {
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

// Writes the profile, with the entries that others have added to the file meanwhile.
void keep(const std::string& file, Profile& profile) {
  const WriteLock lock(file);
  if (has_content(file)) merge(profile, profile_so_far(file));
  write_file(file, print(profile));
}

void print_report(const Arguments& a, const Profile& profile, const MeasureReport& report) {
  const HeldOut test = held_out(profile);
  if (a.json) {
    print_json({{"kernels", profile.kernels().size()},
                {"curves", profile.curves.size()},
                {"measured", report.kernels + report.points},
                {"left_out", report.left_out},
                {"task_us", profile.machine.task_us},
                {"message_us", profile.machine.message_us},
                {"shared_cache_bytes", profile.machine.shared_cache_bytes},
                {"held_out",
                 {{"kernels", test.kernels},
                  {"median_error", test.median_error},
                  {"ninth_decile_error", test.ninth_decile_error}}},
                {"profile", a.output}});
    return;
  }
  fmt::print("machine        {}, {} cores\n", profile.machine.name, profile.machine.cores);
  size_t points = 0;
  for (const auto& [id, curve] : profile.curves) points += curve.points.size();
  fmt::print(
      "measured       {} kernels and {} points of curves now; the profile has {} kernels, and {} points of {} curves\n",
      report.kernels, report.points, profile.kernels().size(), points, profile.curves.size());
  fmt::print("runtime        {:.1f} us a task, {:.1f} us more from another queue\n", profile.machine.task_us,
             profile.machine.message_us);
  if (const double shared = profile.machine.shared_cache_bytes; shared > 0)
    fmt::print("caches         {} a core, {} that the cores share\n", megabytes(profile.machine.cache_bytes),
               megabytes(shared));
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
  all.kernels += one.kernels;
  all.points += one.points;
  all.left_out.insert(all.left_out.end(), one.left_out.begin(), one.left_out.end());
  all.interrupted |= one.interrupted;
}

// Bad input if there is a file that is no work list: a profile of hours may be meant.
void validate_worklist_path(const std::string& file) {
  if (!has_content(file)) return;
  const Json known = Json::parse(read_file(file), nullptr, false);
  if (!known.is_object() || known.value("kind", Json()) != "worklist")
    fail("{}: is there already, and no work list; name another file, or remove it", file);
}

// Writes a work list for devices of the cluster, or of the plan's if none is named.
int write_worklist(const Arguments& a) {
  validate_writable(a.worklist);
  validate_worklist_path(a.worklist);
  Runner runner;
  const Cluster cluster = a.request.cluster.empty() ? open_plan(a.targets.front(), runner, Follow::kCheck).cluster
                                                    : load_cluster(a.request.cluster);
  const int devices = a.request.devices > 0 ? a.request.devices : std::min(cluster.compute_count, kMostByDefault);
  const Device& device = cluster.devices.front();
  KernelsToTime kernels;
  for (const std::string& name : a.targets) kernels.merge(asked_of(a, name, devices, false).kernels);
  write_file(a.worklist, print_worklist(kernels, device.model, device.kind));
  if (a.json) {
    print_json({{"device", device.model}, {"devices", devices}, {"kernels", kernels.size()}, {"worklist", a.worklist}});
    return 0;
  }
  const bool plans = std::all_of(a.targets.begin(), a.targets.end(), is_plan_file);
  fmt::print("device         {}\n", device.model);
  fmt::print("kernels        {}{}\n", kernels.size(),
             plans ? std::string(" different ones") : fmt::format(", of plans for up to {} devices", devices));
  fmt::print("work list      {}; on the machine to measure: python3 profile_torch.py {} -o profile.json\n", a.worklist,
             a.worklist);
  return 0;
}

// Each device is a thread, and collectives are measured for every number of them.
void validate_device_count(int devices, int cores) {
  constexpr int kMostDevicesHere = 64;
  if (const int most = std::max(kMostDevicesHere, cores); devices > most)
    throw Error(ExitCode::kUsage,
                fmt::format("profile: --devices is {}; on this machine it is at most {}", devices, most));
}

}  // namespace

int profile_command(const Arguments& a) {
  if (!a.worklist.empty()) return write_worklist(a);
  validate_writable(a.output);
  Profile profile = profile_so_far(a.output);
  const int devices = a.request.devices > 0 ? a.request.devices : profile.machine.cores;
  validate_device_count(devices, profile.machine.cores);
  std::vector<Asked> asked;  // all names are looked at before anything is measured
  for (const std::string& name : a.targets) asked.push_back(asked_of(a, name, devices, true));
  MeasureOptions options;
  options.devices = devices;
  options.cores = profile.machine.cores;
  options.seconds = a.measure_seconds.value_or(options.seconds);
  options.progress = MeasureLines();
  const bool replaced = is_replaced(a.output);
  if (replaced) options.keep = [&](Profile& p) { keep(a.output, p); };
  options.stop = &interrupted;
  std::optional<CatchInterrupt> caught(std::in_place);
  if (replaced && !has_content(a.output)) keep(a.output, profile);  // another machine is refused from now on
  MeasureReport report;
  const CpuUse use;
  for (size_t i = 0; i < asked.size() && !report.interrupted; ++i) {
    options.step_bytes = asked[i].step_bytes;
    if (asked.size() > 1) tell("{}", a.targets[i]);
    add(report, measure(asked[i].kernels, load_kernels(), options, profile));
    report.interrupted |= interrupted && i + 1 < asked.size();
  }
  if (const double others = use.others(); others > kManyOfOthers)
    tell("other programs used {:.1f} cores meanwhile; alone it would be faster", others);
  constexpr double kOftenInterrupted = 1.3;
  if (const double times = profile.mean_over_median(); times > kOftenInterrupted)
    tell(
        "kernels were often interrupted: their runs took {:.1f} times their medians in all, and so do predicted "
        "steps; profile again when nothing else runs",
        times);
  if (!replaced) write_file(a.output, print(profile));
  caught.reset();
  print_report(a, profile, report);
  if (!report.interrupted) return 0;
  tell("interrupted: {} has what was measured; the same command goes on from there", a.output);
  return static_cast<int>(ExitCode::kInterrupted);
}

}  // namespace partita
