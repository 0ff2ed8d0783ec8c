// Measures how busy other programs keep the machine, for measurements.
#pragma once

namespace partita {

// If others use more cores than this, measured work takes longer than it would alone.
constexpr double kManyOfOthers = 0.2;

class CpuUse {
 public:
  CpuUse();
  // The mean number of cores that others have used since then: other programs, and other machines on the same
  // processors (stolen time). 0 if the system does not tell.
  double others() const;

 private:
  double begin_s_, busy_s_, own_s_;
};

}  // namespace partita
