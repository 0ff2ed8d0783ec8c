// Computes the memory of a joint problem: the bytes that its choices keep on one device, as uses of the network.
//
// Worked example: ops 0, 1, 2 in the default order, so time runs over [0, 3). A parameter of 64 bytes with the values
// S(0) and B over two devices is a use over [0, 3) of amounts {32, 64}. A result of op 0 that op 1 reads last is a use
// over [0, 2). It is one over [0, 1) if op 1 is element-wise and may write its result over it.
#pragma once
#include <vector>

#include "partita/search/joint/joint.h"
#include "partita/search/joint/readers.h"

namespace partita {

// A copy that two readers share, beside the tensor's kept layout.
struct SharedCopy {
  TensorId tensor;
  std::vector<int> layouts;  // in the tensor's space; ascending
  OpId first, last;          // the two readers
};
// The same for a layout that has a variable of its own.
struct ReshardedCopy {
  TensorId tensor;
  size_t number = 0;  // in TensorSpace::resharded
  OpId first, last;
};

// Adds the uses and the limit. A use is certain to lie on the last device of the mesh, whose shard of every split is
// the largest:
// - parameters, states and inputs always;
// - a result from its op to its last reader, or the least copy that may replace it;
// - copies that two readers share and no other may need;
// - if copies are counted, those that lie from the forward to the backward pass, as far as the result need not lie in
//   its kept layout beside them.
// Other copies come on top, so a plan beyond the uses does not fit.
void add_uses(const Problem& problem, const JointReaders& readers, bool counts_copies,
              const std::vector<SharedCopy>& shared, const std::vector<ReshardedCopy>& resharded, JointProblem& joint);

}  // namespace partita
