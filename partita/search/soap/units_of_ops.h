// Makes the SOAP space in which every op is a unit of its own: `granularity=op` of its searches. Forward ops, backward
// ops, updates, copies and selections choose by themselves.
//
// An op is split along the indices that it splits in its unit (soap_plan.h), and along every other index of its
// results. If its unit has an index that it lacks, it may do the same several times: copies, in the place of that
// index, of adjacent ones in one place. So the gradient of a weight may still be split along samples, which it sums
// over, and an update be the same on all devices. Shards are equal for the op, or for the leader of its unit.
//
// So plans of units are among the plans of ops, as long as each op can be split as its unit is. Otherwise its unit has
// it copied there, and the set need not. Copies along two indices are there along one mesh axis: the devices have the
// same, but conversions may take other steps.
//
// Worked example: a dense layer n, o with its weight w[i, o]. The update of w has the places copies, o and i. With
// samples on 4 devices it is four copies. It may also be in four parts along o, so that the gradient is scattered and
// the weight gathered (ZeRO), or on one device. There are 22 configurations in all.
#pragma once
#include <string_view>
#include <vector>

#include "partita/search/soap/soap_plan.h"

namespace partita {

enum class SoapGranularity { kUnit, kOp };
SoapGranularity parse_soap_granularity(std::string_view text);  // "unit", "op"

// Returns a unit for each op, in the graph's order. `units`: soap_units(graph).
std::vector<SoapUnit> units_of_single_ops(const Graph& graph, const std::vector<SoapUnit>& units);

// Converts the configuration of op i of a unit to one of `single`, that op by itself.
SoapConfiguration configuration_of_op(const SoapUnit& unit, size_t i, const SoapUnit& single,
                                      const SoapConfiguration& configuration);

}  // namespace partita
