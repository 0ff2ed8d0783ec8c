// Defines pins, the choices of a plan that a person fixes in a file. constraints.h checks them, for searches.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "partita/plan/plan.h"

namespace partita {

// The JSON is that of a plan's meshes, ops and kept. For device placement it also has "device_types": {OP: "cpu"},
// "colocation": {GROUP: [OP, ..]}. In names of ops a star stands for any characters: "rnn_l0.*".
struct Pins {
  std::map<OpId, OpChoice> ops;
  std::map<TensorId, Placement> kept;
  std::map<OpId, DeviceType> device_types;
  std::map<OpId, std::string> colocation;
};
Pins parse_pins(std::string_view json, const Graph& graph);

}  // namespace partita
