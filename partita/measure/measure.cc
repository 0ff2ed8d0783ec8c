// Measures kernels, collectives and overheads one after another, and keeps the results so far.
#include "partita/measure/measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/measure/probes.h"
#include "partita/measure/shared_cache.h"
#include "partita/runtime/affinity.h"

namespace partita {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSecondsBetweenKeeps = 5;
constexpr double kSecondsOfDrift = 0.02;  // of each kernel
// Kernels that are timed in turns: few enough to say how far the work is, small enough for memory.
constexpr size_t kGroup = 32;
constexpr double kLeastGroupBytes = 4 << 20, kMostGroupBytes = 256 << 20, kOfSharedCache = 0.5;

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown processor";
}

// Reports the progress, and keeps the profile now and then.
class Keeper {
 public:
  Keeper(const MeasureOptions& options, int all, Profile& profile) : options_(options), all_(all), profile_(profile) {}
  void did(const std::string& what) {
    ++done_;
    if (options_.progress) options_.progress(done_, all_, what);
    if (std::chrono::duration<double>(Clock::now() - kept_).count() < kSecondsBetweenKeeps) return;
    if (options_.keep) options_.keep(profile_);
    kept_ = Clock::now();
  }
  bool stopped() const { return options_.stop && options_.stop->load(); }
  bool done() const { return done_ == all_; }

 private:
  const MeasureOptions& options_;
  int all_, done_ = 0;
  Profile& profile_;
  Clock::time_point kept_ = Clock::now();
};

bool has_point(const Profile& profile, const Probe& probe) {
  const Curve* curve = profile.curve(probe.id.of, probe.id.devices);
  return curve && has_point(*curve, probe.bytes);
}

// Groups of several definitions each.
std::vector<std::vector<const KernelToTime*>> groups_of(std::vector<const KernelToTime*> kernels, double most_bytes) {
  Rng rng(1);
  for (size_t i = kernels.size(); i > 1; --i) std::swap(kernels[i - 1], kernels[rng.below(i)]);
  std::vector<std::vector<const KernelToTime*>> groups;
  double bytes = 0;
  for (const KernelToTime* kernel : kernels) {
    if (groups.empty() || groups.back().size() == kGroup || bytes + kernel->kernel.bytes > most_bytes) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(kernel);
    bytes += kernel->kernel.bytes;
  }
  return groups;
}

// The memory that a group's turns go over: a step's, so that cold operands lie where they do in a step. If far times
// are measured on their own, an amount that the shared cache holds easily.
double group_bytes(double step_bytes, const Machine& machine) {
  const double most = machine.shared_cache_bytes > 0 ? kOfSharedCache * machine.shared_cache_bytes : kMostGroupBytes;
  return std::clamp(step_bytes, kLeastGroupBytes, std::max(kLeastGroupBytes, most));
}

// Others of the kernels, to run in turns with a small group: a step's other work decides what is cold.
std::vector<const KernelToTime*> company_of(const std::vector<const KernelToTime*>& group, const KernelsToTime& kernels,
                                            double most_bytes) {
  double bytes = 0;
  for (const KernelToTime* kernel : group) bytes += kernel->kernel.bytes;
  std::vector<const KernelToTime*> all, company;
  for (const auto& [key, kernel] : kernels) all.push_back(&kernel);
  Rng rng(2);
  for (size_t tries = 4 * kGroup; tries > 0 && group.size() + company.size() < std::min(kGroup, all.size()); --tries) {
    const KernelToTime* one = all[rng.below(all.size())];
    const auto in = [&](const auto& list) { return std::find(list.begin(), list.end(), one) != list.end(); };
    if (in(group) || in(company) || bytes + one->kernel.bytes > most_bytes) continue;
    bytes += one->kernel.bytes;
    company.push_back(one);
  }
  return company;
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.name = processor_name();
  machine.cores = std::max(1, static_cast<int>(usable_cores().size()));
  machine.cache_bytes = static_cast<double>(std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE)));
  machine.engine = "partita, ATen";
  return machine;
}

namespace {

void measure_probes(const std::vector<Probe>& probes, Profile& profile, Keeper& keeper, MeasureReport& report) {
  for (const Probe& probe : probes) {
    if (keeper.stopped()) return;
    const Measured time = probe.measure();
    if (keeper.stopped()) return;
    Curve& curve = profile.curves[probe.id];
    std::vector<Curve::Point> points = curve.points;
    if (!has_point(curve, probe.bytes)) points.push_back({probe.bytes, time, 0});  // another program may have had it
    curve = fit_curve(std::move(points));
    ++report.points;
    keeper.did(probe.id.devices > 0 ? fmt::format("{} of {} devices", probe.id.of, probe.id.devices) : probe.id.of);
  }
}

void measure_kernels(std::vector<const KernelToTime*> unknown, const KernelsToTime& kernels, Kernels& engine,
                     const MeasureOptions& options, const TimingOptions& timing, Profile& profile, Keeper& keeper,
                     MeasureReport& report) {
  if (keeper.stopped() || unknown.empty()) return;
  const SmallKernels others(kernels, engine);
  const double bytes = group_bytes(options.step_bytes, profile.machine);
  for (const std::vector<const KernelToTime*>& group : groups_of(std::move(unknown), bytes)) {
    if (keeper.stopped()) return;
    const GroupTimes times = time_group(group, company_of(group, kernels, bytes), others, engine, timing);
    for (const KernelToTime* kernel : group) {
      const std::string key = kernel->kernel.id.key();
      if (const auto time = times.times.find(key); time != times.times.end()) {
        MeasuredKernel measured = kernel->kernel;
        measured.time = time->second;
        profile.add(std::move(measured));
        ++report.kernels;
      } else if (const auto why = times.left_out.find(key); why != times.left_out.end()) {
        report.left_out.push_back(fmt::format("{}: {}", kernel->kernel.id.text(), why->second));
      } else {
        continue;
      }
      keeper.did(kernel->kernel.id.text());
    }
  }
}

// Measures the unknown facts of the machine. Returns whether there were any.
bool measure_machine(const MeasureOptions& options, Machine& machine) {
  bool found = false;
  if (!(machine.task_us > 0)) {
    const Overheads overheads = measure_overheads();
    machine.task_us = overheads.task_us, machine.message_us = overheads.message_us;
    found = true;
  }
  if (machine.shared_cache_bytes == 0 && machine.cache_bytes > 0) {
    machine.shared_cache_bytes = measure_shared_cache(options.cores, options.stop);
    found = found || machine.shared_cache_bytes > 0;
  }
  return found;
}

}  // namespace

MeasureReport measure(const KernelsToTime& kernels, Kernels& engine, const MeasureOptions& options, Profile& profile) {
  MeasureReport report;
  const bool machine_is_new = measure_machine(options, profile.machine);
  const TimingOptions timing{.seconds = options.seconds,
                             .cores = options.cores,
                             .cache_bytes = profile.machine.cache_bytes,
                             .shared_cache_bytes = profile.machine.shared_cache_bytes,
                             .stop = options.stop};
  std::vector<Probe> missing;
  for (Probe& probe : runtime_probes(options.devices, profile.machine.message_us, timing))
    if (!has_point(profile, probe)) missing.push_back(std::move(probe));
  std::vector<const KernelToTime*> unknown;
  for (const auto& [key, kernel] : kernels)
    if (!profile.find(kernel.kernel.id)) unknown.push_back(&kernel);
  Keeper keeper(options, static_cast<int>(missing.size() + unknown.size()), profile);
  measure_probes(missing, profile, keeper, report);
  measure_kernels(std::move(unknown), kernels, engine, options, timing, profile, keeper, report);
  report.interrupted = keeper.stopped() && !keeper.done();
  if (options.keep && (machine_is_new || report.points + report.kernels > 0)) options.keep(profile);
  return report;
}

double drift_of(const PhysicalGraph& graph, const Profile& profile, Kernels& engine) {
  KernelsToTime kernels;
  std::map<std::string, int> times;  // by key: how often it runs
  add_kernels(graph, kernels, &times);
  const auto weight = [&](const KernelToTime* k) {
    return times.at(k->kernel.id.key()) * profile.find(k->kernel.id)->time.us;
  };
  std::vector<const KernelToTime*> group;
  for (const auto& [key, kernel] : kernels)
    if (profile.find(kernel.kernel.id)) group.push_back(&kernel);
  std::sort(group.begin(), group.end(), [&](const auto* a, const auto* b) { return weight(a) > weight(b); });
  const double bytes =
      group_bytes(graph.peak_bytes.empty() ? 0 : static_cast<double>(graph.peak_bytes[0]), profile.machine);
  double taken = 0;
  size_t most = 0;
  while (most < std::min(group.size(), kGroup) && (most == 0 || taken + group[most]->kernel.bytes <= bytes))
    taken += group[most++]->kernel.bytes;
  group.resize(most);
  const GroupTimes now =
      time_group(group, company_of(group, kernels, bytes), SmallKernels(kernels, engine), engine,
                 {.seconds = kSecondsOfDrift, .cores = 1, .cache_bytes = profile.machine.cache_bytes});
  double now_us = 0, then_us = 0;
  for (const KernelToTime* k : group) {
    const auto found = now.times.find(k->kernel.id.key());
    if (found == now.times.end()) continue;
    const Measured& then = profile.find(k->kernel.id)->time;
    const double runs = times.at(found->first);
    now_us += runs * (found->second.us + found->second.cold_us);
    then_us += runs * (then.us + then.cold_us);
  }
  return then_us > 0 ? now_us / then_us : 1;
}

}  // namespace partita
