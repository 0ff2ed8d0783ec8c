// Declares operator placement, a search of Tofu's comparison (section 7.1, from Sutskever et al. 2014). Every layer is
// on a device of its own, so the time steps of a recurrent network flow through the devices as through a pipeline.
//
// Worked example: an mlp of three weight products on two devices. Round-robin puts the layers on devices 0, 1, 0.
#pragma once
#include "partita/search/entry.h"

namespace partita {

// Layers are those of layers_of() (graph/layers.h). Backward ops and updates of a layer are on its device. Nothing is
// split, so each device needs the memory of its layers for the whole batch.
//
// Options: assign=round-robin (layer l on device l modulo the devices, as in the paper) or contiguous (runs of layers,
// the largest sum of FLOPs as small as can be).
SearchEntry layer_placement_search();

}  // namespace partita
