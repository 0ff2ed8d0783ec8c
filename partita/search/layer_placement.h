// Operator placement as Tofu compares with it (section 7.1, from Sutskever et al. 2014): every layer on a device of its
// own, so that the time steps of a recurrent network flow through the devices as through a pipeline.
//
// Worked example: an mlp of three weight products on two devices. layers_of() says 0, 1 and 2 for the products; the
// relu behind a product, its backward ops and the update of its weight have its layer. Round-robin puts the layers on
// devices 0, 1, 0. contiguous_parts({3, 1, 1}, 2) is {0, 1, 1}: the largest sum is 3.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "partita/search/searches.h"

namespace partita {

// A layer is a recurrent cell at all time steps; without such cells, a weight product with what follows it. Its
// backward ops and updates are where it is. Nothing is split, so that each device needs the memory of its layers for
// the whole batch.
//
// Options: assign=round-robin (layer l on device l modulo the devices, as in the paper) or contiguous (runs of layers,
// the largest sum of FLOPs as small as can be).
SearchEntry layer_placement_search();

// By op: its layer, from 0. The ops before the first layer belong to the first that reads them, those after the last to
// the last.
std::vector<int> layers_of(const Graph& graph);

// The layers of forward ops, -1 before the first, for all ops: a backward op has that of its forward op, an update that
// of the first reader of its parameter, another op that of the largest tensor that it reads.
std::vector<int> with_their_forward_ops(const Graph& graph, std::vector<int> layer);

// Cuts costs into `parts` runs of at least one element (as many as there are elements, if those are fewer), the largest
// sum as small as can be: by element, its run. Of equals the earliest cuts.
std::vector<int> contiguous_parts(const std::vector<double>& costs, int parts);

// What a rule that puts layers on devices says where it leaves some empty: "expert-placement: one layer only, so 1 of 2
// devices runs nothing (gpu1); ..", with searches that use them. Nothing where it leaves none. `used`: compute devices
// that it puts something on; `why`: "one layer only".
void note_idle(const Cluster& cluster, const std::set<int>& used, std::string_view search, const std::string& why,
               SearchResult& result);
// "one layer only", "2 layers only"
std::string only(size_t count, const char* one, const char* many);

}  // namespace partita
