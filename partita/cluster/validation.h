// Tells how accurate predicted step times of a device type are, as its cluster file says.
//
// Example: `validation: {runs: 35, low: 0.99, high: 1.75}` of H100 says that 35 published steps were predicted for it.
// Eight of ten took 0.99 to 1.75 times as long. With fewer than kEnoughRuns, low and high come from other devices'
// steps. Constants fitted without a step's own device predict it.
#pragma once
#include <string>
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

inline constexpr int kEnoughRuns = 10;

struct Validation {
  std::string device;  // the type: "H100"
  int runs = 0;
  double low = 1, high = 1;  // of the predicted time
  bool operator==(const Validation&) const = default;
};

// Lists, by name, the types of the cluster's compute devices whose text says it. Empty with a profile, which was
// measured.
std::vector<Validation> validations(const Cluster& cluster);

}  // namespace partita
