// How busy the machine is with other programs, while something is measured.
#pragma once

namespace partita {

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
