// SmallBatch of Tofu's comparison (section 7.1): the model whole on every device, its batch so small that it fits.
#pragma once
#include <memory>

#include "partita/search/search.h"

namespace partita {

// The largest batch of a device, of at most its part of the batch that is asked for, at which one training step on one
// device fits in memory, by the lowered graph and its memory planner. As in the paper nothing is exchanged, gradients
// neither: the estimate's samples are those of all devices, its time is one device's, an upper bound of what training
// so could come to. With memory enough, by --memory-limit, this is the paper's ideal.
std::unique_ptr<Searcher> make_small_batch();

}  // namespace partita
