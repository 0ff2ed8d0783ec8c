// Measures one thing after another, and keeps what it has.
#include "partita/measure/measure.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>

#include "partita/base/error.h"
#include "partita/measure/probes.h"

namespace partita {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSecondsBetweenKeeps = 5;

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown processor";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// Says how far the work is, and keeps the profile now and then.
class Keeper {
 public:
  Keeper(const MeasureOptions& options, int all, const Profile& profile)
      : options_(options), all_(all), profile_(profile) {}
  ~Keeper() = default;
  void did(const std::string& what) {
    ++done_;
    if (options_.progress) options_.progress(done_, all_, what);
    if (std::chrono::duration<double>(Clock::now() - kept_).count() < kSecondsBetweenKeeps) return;
    kept_ = Clock::now();
    if (options_.keep) options_.keep(profile_);
  }
  bool stopped() const { return options_.stop && options_.stop->load(); }

 private:
  const MeasureOptions& options_;
  int all_, done_ = 0;
  const Profile& profile_;
  Clock::time_point kept_ = Clock::now();
};

bool has_point(const Profile& profile, const Probe& probe) {
  const Curve* curve = profile.curve(probe.id.of, probe.id.devices);
  return curve && std::any_of(curve->points.begin(), curve->points.end(),
                              [&](const Curve::Point& p) { return p.bytes == probe.bytes; });
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.name = processor_name();
  machine.cores = usable_cores();
  machine.engine = "partita, ATen";
  return machine;
}

MeasureReport measure(const KernelsToTime& kernels, Kernels& engine, const MeasureOptions& options, Profile& profile) {
  MeasureReport report;
  const TimingOptions timing{.cores = options.cores};
  std::vector<Probe> missing;
  for (Probe& probe : probes(options.devices, timing))
    if (!has_point(profile, probe)) missing.push_back(std::move(probe));
  std::vector<const KernelToTime*> unknown;
  for (const auto& [key, kernel] : kernels)
    if (!profile.find(kernel.kernel.id)) unknown.push_back(&kernel);
  report.known = static_cast<int>(kernels.size() - unknown.size());
  Keeper keeper(options, static_cast<int>(missing.size() + unknown.size()), profile);
  if (!(profile.machine.task_us > 0)) {
    const Overheads overheads = measure_overheads();
    profile.machine.task_us = overheads.task_us, profile.machine.message_us = overheads.message_us;
  }
  for (const Probe& probe : missing) {
    if (keeper.stopped()) break;
    Curve& curve = profile.curves[probe.id];
    curve.points.push_back({probe.bytes, probe.measure()});
    curve = fitted(std::move(curve.points));
    ++report.measured;
    keeper.did(probe.id.devices > 0 ? fmt::format("{} of {} devices", probe.id.of, probe.id.devices) : probe.id.of);
  }
  for (const KernelToTime* kernel : unknown) {
    if (keeper.stopped()) break;
    MeasuredKernel measured = kernel->kernel;
    try {
      measured.time = time_kernel(*kernel, engine, timing);
      profile.add(std::move(measured));
      ++report.measured;
    } catch (const Error& error) {
      report.left_out.push_back(fmt::format("{}: {}", kernel->kernel.id.text(), error.what()));
    }
    keeper.did(kernel->kernel.id.text());
  }
  report.interrupted = keeper.stopped();
  if (options.keep) options.keep(profile);
  return report;
}

}  // namespace partita
