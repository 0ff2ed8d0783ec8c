// What the end-to-end tests share.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/kernels/kernels.h"
#include "partita/physical/lower.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"

namespace partita {

inline Kernels& kernels() {
  static auto kernels = make_aten_kernels();
  return *kernels;
}

// Trains three steps; losses and weights are those of the whole batch on one device.
inline TrainReport train_as_serial(const Planned& planned, const std::string& text) {
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

// What a plan needs in its tightest order, by device: without room beside communication.
inline std::vector<int64_t> least_peak_bytes(const Planned& planned) {
  Cluster tight = planned.cluster;
  for (Device& device : tight.devices) device.memory_bytes = 1;
  return planned_peak_bytes(planned.training, planned.plan, tight);
}

// Measured peaks are at most what was planned, and at least `part` of what the tightest order needs: room is not always
// filled.
inline void expect_planned_memory(const TrainReport& report, const Planned& planned, double part) {
  const std::vector<int64_t> least = least_peak_bytes(planned);
  for (std::size_t d = 0; d < static_cast<std::size_t>(planned.cluster.compute_count); ++d) {
    EXPECT_LE(report.peak_bytes[d], planned.physical.peak_bytes[d]) << "device " << d;
    EXPECT_GE(static_cast<double>(report.peak_bytes[d]), part * static_cast<double>(least[d])) << "device " << d;
  }
}

// max|a - b| / max|b|.
inline double relative_error(const Values& a, const Values& b) {
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
