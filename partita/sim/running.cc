// Work that shares cores: how much is left of each, and how fast it goes.
#include "partita/sim/running.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"

namespace partita {

namespace {

double times_as_long(double together, int busy, int cores) {
  const double shared = cores > 1 ? 1 + (together - 1) * (std::min(busy, cores) - 1) / (cores - 1) : 1;
  return shared * std::max(1.0, static_cast<double>(busy) / cores);
}

}  // namespace

void expect_short(double step_ns) {
  constexpr double kMostStepNs = 1e17;
  if (!(step_ns < kMostStepNs))
    fail("the predicted step takes more than 3 years: a time or a rate in the cluster file or the profile is wrong");
}

double Running::slowdown(const Sharing& s, int busy) const {
  return times_as_long(s.together, busy, cores_) / times_as_long(s.together, s.threads, cores_);
}

int Running::busy() const {
  int threads = 0;
  for (const Sharing& s : sharing_) threads += s.threads;
  return threads;
}

void Running::start(int64_t run, const SimNode& node, int64_t now) {
  if (cores_ == 0) {
    ends_.push({now + node.duration_ns, run});
    return;
  }
  now_ = now;
  sharing_.push_back({run, static_cast<double>(node.duration_ns), node.threads, node.together});
}

int64_t Running::next_end() const {
  if (cores_ == 0) return ends_.top().first;
  const int all = busy();
  double least = INFINITY;
  for (const Sharing& s : sharing_) least = std::min(least, s.left_ns * slowdown(s, all));
  expect_short(least);
  return now_ + std::max<int64_t>(1, std::llround(least));
}

std::vector<int64_t> Running::ended(int64_t now) {
  std::vector<int64_t> runs;
  while (!ends_.empty() && ends_.top().first == now) {
    runs.push_back(ends_.top().second);
    ends_.pop();
  }
  if (sharing_.empty()) return runs;
  const int all = busy();
  const auto passed = static_cast<double>(now - now_);
  now_ = now;
  std::erase_if(sharing_, [&](Sharing& s) {
    const double slow = slowdown(s, all);
    s.left_ns -= passed / slow;
    if (s.left_ns * slow >= 0.5) return false;  // less than half a nanosecond is none
    runs.push_back(s.run);
    return true;
  });
  std::sort(runs.begin(), runs.end());
  return runs;
}

}  // namespace partita
