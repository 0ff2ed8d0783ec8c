// Measures the entries that a profile lacks, on this machine.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "partita/measure/kernels.h"
#include "partita/profile/profile.h"
#include "partita/runtime/kernel.h"

namespace partita {

struct MeasureOptions {
  int devices = 1;        // collectives of 2 to so many
  int cores = 1;          // of this machine, which the devices share
  double seconds = 0.02;  // of each kernel; of overheads and curves a few times as long
  double step_bytes = 0;  // that a step of these kernels goes over, on one device
  // After each measurement; `done` of `all`.
  std::function<void(int done, int all, const std::string& what)> progress;
  // Every few seconds, and at the end if there is something new. It may add the measurements of others meanwhile.
  std::function<void(Profile&)> keep;
  const std::atomic<bool>* stop = nullptr;
};

// Returns the machine on which this program runs: its processor's name, and how many cores the program may use.
Machine this_machine();

// Returns how many times as long the kernels of a plan take now as when they were profiled. Other programs on the
// machine, or other tenants of its processor, make them slower. It looks at measured ones that take most of its step,
// each as often as it runs; 1 without any.
double drift_of(const PhysicalGraph& graph, const Profile& profile, Kernels& engine);

// Adds overheads, collectives, copies and kernels that the profile lacks. Its entries stay as they are. A kernel that
// cannot run by itself is left out, and named in `left_out`. Returns early if `stop` is set: interrupted says whether
// anything is left to measure.
struct MeasureReport {
  int kernels = 0, points = 0;  // measured ones; points of curves
  std::vector<std::string> left_out;
  bool interrupted = false;
};
MeasureReport measure(const KernelsToTime& kernels, Kernels& engine, const MeasureOptions& options, Profile& profile);

}  // namespace partita
