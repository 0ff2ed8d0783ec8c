// How busy the machine is with other programs, while something is measured.
#pragma once

namespace partita {

// More than so many cores, and what is measured takes longer than it would alone.
constexpr double kManyOfOthers = 0.2;

class CpuUse {
 public:
  CpuUse();
  // Cores that others than this process have used since then, in the mean: other programs, and other machines on the
  // same processors (stolen time). 0 where the system does not tell.
  double others() const;

 private:
  double begin_s_, busy_s_, own_s_;
};

}  // namespace partita
