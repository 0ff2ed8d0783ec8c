// What the end-to-end tests share.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "partita/graph/graph.h"
#include "partita/kernels/kernels.h"
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
