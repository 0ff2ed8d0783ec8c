// Computes a SOAP plan's cost as a sum over its units and pairs of units that share tensors. It is the cost that OptCNN
// minimises (Jia, Lin, Qi, Aiken, ICML 2018, equation 1). Every term is an isolated cost, one after another
// (cost/isolated_costs.h):
//   own    kernels of forward and backward pass and update, each on its slowest device (t_C), and conversions inside
//          the unit: what synchronises its weights (t_S)
//   pair   conversions of what one unit makes, or keeps, for the ops of the other, both ways (t_X)
// Ops of one unit that need a tensor in the same layout share a conversion, those of two units do not: there the sum is
// more than serial_ns(). Inputs from hosts and outputs to them are left out.
//
// Worked example: fc1 and fc2 on 2 devices, each with the configurations {n:1, o:1}, {n:1, o:2}, {n:2, o:1}. Their pair
// has 3 x 3 costs. If both are n:2 it costs nothing. If fc1 is n:2 and fc2 is o:2, fc1's result is gathered for fc2,
// and its gradient, partial over o, is added up for fc1.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "partita/search/soap/soap_plan.h"

namespace partita {

struct UnitCosts {
  struct Pair {
    int a = 0, b = 0;                                // units, a < b; one for two units
    std::shared_ptr<const std::vector<int64_t>> ns;  // [configuration of a][of b]; equal pairs share it
  };
  std::vector<std::vector<int64_t>> own;  // by unit, configuration
  std::vector<Pair> pairs;

  int64_t of(const std::vector<int>& values) const;  // one configuration for each unit
};

// Returns the costs. `configurations`: by unit, those that it can have, all with pins kept. Throws if the watch ends;
// `tell` hears now and then how far it is.
UnitCosts unit_costs(const Graph& graph, const Cluster& cluster, const std::vector<SoapUnit>& units,
                     const std::vector<std::vector<SoapConfiguration>>& configurations,
                     const Constraints& constraints = {}, const Watch& watch = {},
                     const std::function<void(const std::string&)>& tell = nullptr);

}  // namespace partita
