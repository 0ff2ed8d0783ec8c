// Reads the kernel's counts of busy time.
#include "partita/base/cpu_use.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>

namespace partita {

namespace {

double wall_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Busy seconds of all cores since the machine started; below 0 if the system does not tell.
double all_busy_s() {
  std::ifstream stat("/proc/stat");
  std::string word;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
  if (!(stat >> word >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen)) return -1;
  return (user + nice + system + interrupts + soft + stolen) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double own_s() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

CpuUse::CpuUse() : begin_s_(wall_s()), busy_s_(all_busy_s()), own_s_(own_s()) {}

double CpuUse::others() const {
  const double passed = wall_s() - begin_s_, busy = all_busy_s();
  if (busy_s_ < 0 || busy < 0 || passed <= 0) return 0;
  return std::max(0.0, (busy - busy_s_ - (own_s() - own_s_)) / passed);
}

}  // namespace partita
