// What the end-to-end tests share.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "partita/graph/graph.h"
#include "partita/kernels/kernels.h"

namespace partita {

inline Kernels& kernels() {
  static auto kernels = make_aten_kernels();
  return *kernels;
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
