// How well the steps that are predicted for a device type are known, as its cluster file says.
//
// Example: `validation: {runs: 35, low: 0.99, high: 1.75}` of H100 says that 35 published steps were predicted for it,
// and that eight of ten took 0.99 to 1.75 times as long. With fewer than kEnoughRuns, low and high are of other
// devices' steps, each predicted by constants that were fitted without its own device.
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

// Of the types of the cluster's compute devices whose text says it, by name. With a profile none: it was measured.
std::vector<Validation> validations(const Cluster& cluster);

}  // namespace partita
