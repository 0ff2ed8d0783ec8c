// Measures what a profile lacks, on this machine.
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
  // After each thing that was measured; `done` of `all`.
  std::function<void(int done, int all, const std::string& what)> progress;
  // Every few seconds, and at the end where there is something new. It may add what others have measured meanwhile.
  std::function<void(Profile&)> keep;
  const std::atomic<bool>* stop = nullptr;
};

// The machine on which this program runs: its processor's name, and how many cores the program may use.
Machine this_machine();

// How many times as long the kernels of a plan take now as when they were profiled: other programs on the machine, or
// other tenants of its processor, make them slower. Of those that take most of its step and were measured, each as
// often as it runs; 1 without any.
double drift_of(const PhysicalGraph& graph, const Profile& profile, Kernels& engine);

// The profile with overheads, collectives, copies and kernels that it lacked. What it has is left as it is. A kernel
// that cannot be run by itself is left out, and told of in `left_out`. Returns early where `stop` is set: interrupted
// is whether anything is left to measure.
struct MeasureReport {
  int kernels = 0, points = 0;  // that were measured; points of curves
  std::vector<std::string> left_out;
  bool interrupted = false;
};
MeasureReport measure(const KernelsToTime& kernels, Kernels& engine, const MeasureOptions& options, Profile& profile);

}  // namespace partita
