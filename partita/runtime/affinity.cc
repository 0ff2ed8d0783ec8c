// Deals out cores, and binds threads to them.
#include "partita/runtime/affinity.h"

#include <pthread.h>
#include <sched.h>

#include "partita/base/box.h"

namespace partita {

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) cores.push_back(c);
  return cores;
}

std::vector<int> cores_of(const std::vector<int>& usable, int device, int devices) {
  const auto count = static_cast<int64_t>(usable.size());
  if (device >= devices || devices > count) return {};
  const Interval mine = cut(count, devices, device);
  return {usable.begin() + mine.lo, usable.begin() + mine.hi};
}

void set_affinity(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cores) CPU_SET(c, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace partita
