// Groups alike units of the SOAP space, and finds units that share tensors, for moves of several units at once.
//
// Worked example: a network of two LSTM layers over 40 steps has 80 units of cells in two groups of 40, one a layer.
// Each cell is beside the one a step later and the one a layer up.
#pragma once
#include <vector>

#include "partita/search/soap/unit_tasks.h"

namespace partita {

struct SoapNeighbourhood {
  std::vector<int> unit_of;              // by OpId
  std::vector<int> group_of;             // by unit
  std::vector<std::vector<int>> groups;  // units, ascending; of equal sets
  std::vector<std::vector<int>> beside;  // by unit: the producers of its inputs and the readers of its results;
                                         // ascending
};
// Alike units are the time steps of a cell, and units with equal formulas of their leaders, equal numbers of ops and
// equal sets.
SoapNeighbourhood soap_neighbourhood(const Graph& graph, const SoapSpace& space);

// Returns the configuration of a unit's set that is most like another unit's. It is on the same devices, then has the
// same degrees for samples, attributes and parameters, as far as its extents allow. -1: none is on these devices.
int64_t most_alike(const SoapSpace& space, int unit, int other, int64_t configuration);

}  // namespace partita
