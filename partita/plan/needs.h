// The layouts that one tensor is converted to in a plan: the part of resolve() that concerns a single tensor.
//
// Example: w is kept [S(0)], and matmul and its gradient both read it as [B]. Its home is S(0), and it has one need,
// S(0) -> B with both readers. If the plan refetches w, each of the two readers has a need of its own.
#pragma once
#include <vector>

#include "partita/plan/plan.h"

namespace partita {

// It depends only on the choices of the tensor's writer and its readers.
struct TensorNeeds {
  struct Need {
    Layout from, to;
    std::vector<Reader> readers;  // empty: into its home
  };
  Layout home;
  std::vector<Need> needs;  // the one into the home first, if the producer leaves it elsewhere
};
// `layouts`: what the ops read and leave, by OpId; `read_by` as readers() says. Throws bad input where a tensor has no
// home.
TensorNeeds needs_of(const Graph& graph, const Plan& plan, const std::vector<const OpLayouts*>& layouts,
                     const std::vector<std::vector<Reader>>& read_by, TensorId id);

}  // namespace partita
