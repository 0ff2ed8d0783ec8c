// Times kernels on this machine: warm and cold, by themselves and with one on each core (FlexFlow section 5.1).
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "partita/measure/kernels.h"
#include "partita/runtime/kernel.h"

namespace partita {

struct TimingOptions {
  double seconds = 0.02;  // of each kernel or curve's point
  int least_runs = 5;
  int cores = 2;                  // that run it together; 1: that is not measured
  double cache_bytes = 0;         // of a core; 0: cold times are not measured
  double shared_cache_bytes = 0;  // of all cores; 0: far times are not measured
  const std::atomic<bool>* stop = nullptr;
  // Times in progress when it was set are of too few runs.
  bool stopped() const { return stop && stop->load(); }
};

// Returns median and quartiles of some times in us, at least one.
Measured measured_of(std::vector<double> us);

// Returns median and quartiles of the times of `run` in each of several threads. run(thread) is called at least
// `least_runs` times in each, and for as long as the options say.
Measured time_in_threads(const std::function<void(int thread)>& run, int threads, const TimingOptions& options);

// Small kernels, which run between those that are timed.
class SmallKernels {
 public:
  // Some of these, of different definitions, that are quick.
  SmallKernels(const KernelsToTime& kernels, Kernels& engine);
  ~SmallKernels();
  void run() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// Times kernels of a group in turns. So each finds the processor as in a step: other code in its caches, other branches
// in mind. In each turn a kernel runs twice. The first run, after all others, is its cold time. The second, after a few
// small ones, is its time with its operands in the cache. In a few turns more they run after a sweep through much other
// memory, which is their far time. A kernel that throws is left out, and named.
struct GroupTimes {
  std::map<std::string, Measured> times;        // by key
  std::map<std::string, std::string> left_out;  // key and why; if `stop` was set, some are in neither
};
// `company` runs in the turns too, and is not timed.
GroupTimes time_group(const std::vector<const KernelToTime*>& group, const std::vector<const KernelToTime*>& company,
                      const SmallKernels& others, Kernels& kernels, const TimingOptions& options);

}  // namespace partita
