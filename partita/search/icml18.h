// The layer-wise dynamic program of Jia, Lin, Qi, Aiken (Exploring Hidden Dimensions in Parallelizing Convolutional
// Neural Networks, ICML 2018), as Tofu's section 7.3 compares with it: on Tofu's operators and coarsened graph.
#pragma once
#include <memory>

#include "partita/search/search.h"

namespace partita {

// A tensor may be split along several dimensions, all chosen in one step over all devices, alike for a tensor and its
// gradient. An op is never split along an index that it reduces into its results (no output reduction): where nothing
// else is left, it is replicated.
std::unique_ptr<Searcher> make_icml18();

}  // namespace partita
