// Follows the work left of nodes that run, and their speed.
#include "partita/sim/running.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/cost/whole_ns.h"

namespace partita {

namespace {

double times_as_long(double together, int busy, int cores) {
  const double shared = cores > 1 ? 1 + (together - 1) * (std::min(busy, cores) - 1) / (cores - 1) : 1;
  return shared * std::max(1.0, static_cast<double>(busy) / cores);
}

}  // namespace

void validate_step_time(double step_ns) {
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

Running::SlowedKernel& Running::slowed_kernel(DeviceId device) {
  if (device.index() >= slowed_.size()) slowed_.resize(device.index() + 1);
  return slowed_[device.index()];
}

void Running::begin_slowed(int64_t run, const SimNode& node) {
  SlowedKernel& b = slowed_kernel(node.devices[0]);
  b.run = run, b.left_ns = static_cast<double>(node.duration_ns), b.overlapped_speed = node.overlapped_speed;
  b.end = now_ + whole_ns(b.left_ns / b.speed(), 0);
  b.since = now_;
  ends_.emplace(b.end, run);
}

void Running::count_collective(const std::vector<DeviceId>& devices, int more) {
  for (DeviceId device : devices) {
    SlowedKernel& b = slowed_kernel(device);
    const double before = b.speed();
    b.collectives += more;
    if (b.run < 0 || b.speed() == before) continue;
    b.left_ns = std::max(0.0, b.left_ns - static_cast<double>(now_ - b.since) * before);
    b.since = now_;
    ends_.erase({b.end, b.run});
    b.end = now_ + whole_ns(b.left_ns / b.speed(), 0);
    ends_.emplace(b.end, b.run);
  }
}

void Running::start(int64_t run, const SimNode& node, int64_t now) {
  now_ = now;
  if (cores_ > 0) {
    sharing_.push_back({run, static_cast<double>(node.duration_ns), node.threads, node.together});
    return;
  }
  if (!node.devices.empty()) slowing_.emplace(run, &node);
  if (!node.devices.empty() && !node.collective) {
    begin_slowed(run, node);
    return;
  }
  ends_.emplace(now + node.duration_ns, run);
  if (node.collective) count_collective(node.devices, 1);
}

int64_t Running::next_end() const {
  if (cores_ == 0) return ends_.begin()->first;
  const int all = busy();
  double least = INFINITY;
  for (const Sharing& s : sharing_) least = std::min(least, s.left_ns * slowdown(s, all));
  validate_step_time(least);
  return now_ + std::max<int64_t>(1, std::llround(least));
}

void Running::leave(const std::vector<int64_t>& runs) {
  if (slowing_.empty()) return;
  std::vector<const SimNode*> collectives;
  for (int64_t run : runs) {
    const auto found = slowing_.find(run);
    if (found == slowing_.end()) continue;
    if (found->second->collective) collectives.push_back(found->second);
    else slowed_kernel(found->second->devices[0]).run = -1;
    slowing_.erase(found);
  }
  for (const SimNode* node : collectives) count_collective(node->devices, -1);
}

std::vector<int64_t> Running::ended(int64_t now) {
  std::vector<int64_t> runs;
  while (!ends_.empty() && ends_.begin()->first == now) {
    runs.push_back(ends_.begin()->second);
    ends_.erase(ends_.begin());
  }
  if (cores_ == 0) {
    now_ = now;
    leave(runs);
    return runs;
  }
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
