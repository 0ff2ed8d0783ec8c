// Compares runs with the serial one, and their memory with the plan's, for end-to-end tests.
#include "tests/e2e/runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "partita/schedule/lower.h"
#include "partita/train/serial.h"

namespace partita {

Kernels& kernels() {
  static auto kernels = make_aten_kernels();
  return *kernels;
}

TrainReport train_as_serial(const Planned& planned, const std::string& text) {
  TrainOptions options;
  options.steps = 3;
  TrainReport report = train(planned, options, kernels());
  compare_with(train_serial(planned.training.whole_graph(), options, kernels()), report);
  std::printf("%s: weights %.1e, losses %.1e\n", text.c_str(), *report.max_error_vs_serial,
              *report.max_loss_error_vs_serial);
  EXPECT_LE(*report.max_error_vs_serial, 1e-10);
  EXPECT_LE(*report.max_loss_error_vs_serial, 1e-10);
  EXPECT_NE(report.losses.front(), report.losses.back());
  return report;
}

// Peaks in the order of least memory, by device; no more than in the order that runs.
std::vector<int64_t> least_peak_bytes(const Planned& planned) {
  Cluster tight = planned.cluster;
  for (Device& device : tight.devices) device.memory_bytes = 1;
  std::vector<int64_t> least =
      planned_memory(planned.training, resolve(planned.training, planned.plan, tight), tight).peak_bytes;
  for (std::size_t d = 0; d < least.size(); ++d) least[d] = std::min(least[d], planned.physical.peak_bytes[d]);
  return least;
}

void expect_planned_memory(const TrainReport& report, const Planned& planned, double part) {
  const std::vector<int64_t> least = least_peak_bytes(planned);
  for (std::size_t d = 0; d < static_cast<std::size_t>(planned.cluster.compute_count); ++d) {
    EXPECT_LE(report.peak_bytes[d], planned.physical.peak_bytes[d]) << "device " << d;
    EXPECT_GE(static_cast<double>(report.peak_bytes[d]), part * static_cast<double>(least[d])) << "device " << d;
  }
}

double relative_error(const Values& a, const Values& b) {
  EXPECT_EQ(a.shape, b.shape);
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < b.real.size(); ++i) {
    const double d = std::abs(a.real.at(i) - b.real[i]);
    difference = d == d ? std::max(difference, d) : INFINITY;
    scale = std::max(scale, std::abs(b.real[i]));
  }
  return difference / scale;
}

}  // namespace partita
