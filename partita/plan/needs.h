// What one tensor must be converted to in a plan; the part of resolve() that is a tensor's own.
#pragma once
#include <vector>

#include "partita/plan/plan.h"

namespace partita {

// A function of the choices of the tensor's writer and its readers only.
struct TensorNeeds {
  struct Need {
    Layout from, to;
    std::vector<Reader> readers;  // empty: into its home
  };
  Layout home;
  std::vector<Need> needs;  // the one into the home first, if it is not made there
};
// `layouts` of the ops, by OpId; `read_by` as readers() says. Throws bad input where a tensor has no home.
TensorNeeds needs_of(const Graph& graph, const Plan& plan, const std::vector<const OpLayouts*>& layouts,
                     const std::vector<std::vector<Reader>>& read_by, TensorId id);

}  // namespace partita
