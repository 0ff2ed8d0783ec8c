// Fills one target register with elements that lie in others. Fetches, local steps, and copies between differently
// factored registers all end in this function.
//
// Example: y@gpu0 holds rows [0, 8) of a sum. Rows [0, 8) of a partial value lie on gpu0, and others on gpu1. The terms
// overlap, so they are combined. The transfer "y@gpu0<gpu1" stages gpu1's into the register of the same name, and
// "y.combine@gpu0" adds it and gpu0's own into y@gpu0. If instead gpu0 had rows [0, 4) whole and gpu1 rows [4, 8),
// nothing would be combined. Two copies would write their rows of y@gpu0.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/physical/draft.h"

namespace partita {

// The elements that a target takes from one position of the source.
struct Term {
  int source = 0;              // position
  const Box* read = nullptr;   // the same elements over the source's
  const Box* write = nullptr;  // and the target's axes
  int number = -1;             // if several terms come from it: after the source's name, ".1"
};

struct Assembly {
  RegisterId target;
  const Mesh* mesh = nullptr;  // the target's, and its position there
  int position = 0;
  // Unset if each term is copied into its place, and all devices are lowered:
  Box box;                     // its elements that are written
  std::vector<Shape> radices;  // of its axes
  std::vector<Term> terms;     // none empty
  bool combine = false;        // terms overlap or leave gaps; else each is copied into its place
  bool reads_own = true;       // if combined: a term on the target's own device is read where it lies, not staged
  tdl::Reducer reducer = tdl::Reducer::kSum;
  // The reducer under which the result is partial, if that is not `reducer`. Elements without a term are its identity.
  std::optional<tdl::Reducer> absent = std::nullopt;
};

// Adds the tasks that fill the target. `from`: the source's registers; `sources`: its mesh. Terms on devices that are
// not lowered arrive by one task, over the slowest of their routes, once a lowered device has its own shard.
void assemble(Draft& draft, const Placed& from, const Mesh& sources, Assembly assembly, const Context& at);

// If only some devices are lowered, a tensor that others fetch from them stays there until the operation that it is
// fetched for. A task that reads the tensor stands for those others.
void read_elsewhere(Draft& draft, const Placed& from, const Context& at);

}  // namespace partita
