// Runs the steps of a lowered training graph on a dataset.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/train/dataset.h"
#include "partita/train/train.h"

namespace partita {

struct StepsReport {
  std::vector<double> losses;             // of the steps that were made
  std::map<std::string, Values> weights;  // after them: parameters and states
  std::vector<int64_t> peak_bytes;        // by device
  Trace trace;                            // of the first steps, on request
  double seconds = 0;
  std::vector<double> step_seconds;  // of each set of steps that ran together, a step
  bool interrupted = false;
};

// Runs the steps of `options` from the weights `start`. `observed`: progress, stop and trace of the options are heeded;
// a serial run beside the user's own leaves them out. Bad input if a gradient is not finite.
StepsReport run_steps(const Graph& graph, const PhysicalGraph& physical, const Dataset& data,
                      const std::map<std::string, Values>& start, const TrainOptions& options, Kernels& kernels,
                      bool observed);

}  // namespace partita
