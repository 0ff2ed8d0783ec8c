// The piece of work that tells how fast the machine is now.
#include <algorithm>
#include <cmath>
#include <vector>

#include "partita/measure/measure.h"
#include "partita/measure/timing.h"

namespace partita {

namespace {

struct Exercise {
  std::vector<float> a = std::vector<float>(1 << 14, 1.0F), b = std::vector<float>(1 << 14, 2.0F);
  std::vector<float> from = std::vector<float>(1 << 17, 1.0F), to = std::vector<float>(1 << 17);
  uint32_t random = 12345;
  double sum = 0;  // so that nothing is left out

  void vectors() {
    for (int r = 0; r < 16; ++r) {
      for (size_t i = 0; i < a.size(); ++i) a[i] = a[i] * 0.999F + b[i];
      sum += a[static_cast<size_t>(r)];
    }
  }
  void branches() {
    for (int r = 0; r < 8000; ++r) {
      random = random * 1664525u + 1013904223u;
      if (random & 0x10000u) sum += random >> 20;
      else sum -= std::sqrt(random >> 19);
    }
  }
  void copy() {
    std::copy(from.begin(), from.end(), to.begin());
    sum += to[random % to.size()];
  }
};

}  // namespace

double reference_us(double seconds) {
  Exercise exercise;
  const double us = timed(
                        [&](int) {
                          exercise.vectors();
                          exercise.branches();
                          exercise.copy();
                        },
                        1, {.seconds = seconds, .least_runs = 20, .cores = 1})
                        .us;
  return std::isfinite(exercise.sum) ? us : 0;
}

}  // namespace partita
