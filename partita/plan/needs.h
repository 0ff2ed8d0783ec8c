// Finds the layouts that one tensor is converted to in a plan: the step of resolve() that concerns a single tensor.
//
// Example: w is kept [S(0)], and matmul and its gradient both read it as [B]. Its kept layout is S(0), and it has one
// need, S(0) -> B with both readers. If the plan reshards w after forward, each of the two readers has a need of its
// own.
#pragma once
#include <utility>
#include <vector>

#include "partita/plan/plan.h"

namespace partita {

// It depends only on the choices of the tensor's writer and its readers. `L`: stands for a layout.
template <typename L>
struct Needs {
  struct Need {
    L other;                      // of the op that makes it, or of its readers
    std::vector<Reader> readers;  // empty: from `other` into the kept layout; else from there to `other`
  };
  L kept_layout;
  std::vector<Need> needs;  // the one into the kept layout first, if the producer leaves it otherwise
  const L& from(const Need& need) const { return need.readers.empty() ? need.other : kept_layout; }
  const L& to(const Need& need) const { return need.readers.empty() ? kept_layout : need.other; }
};

// `made`: as its producer leaves it; null: it has none. read(reader): as the reader wants it. same(a, b): one is as
// good as the other. together(a, b): two readers may share a conversion.
template <typename L, typename Read, typename Same, typename Together>
Needs<L> needs_of_readers(const L* made, L kept_layout, const std::vector<Reader>& readers, const Read& read,
                          const Same& same, const Together& together) {
  Needs<L> out{std::move(kept_layout), {}};
  if (made && !same(*made, out.kept_layout)) out.needs.push_back({*made, {}});
  const size_t first = out.needs.size();  // conversions from the kept layout begin here
  for (const Reader& reader : readers) {
    const auto& need = read(reader);
    if (same(out.kept_layout, need)) continue;
    size_t found = first;
    while (found < out.needs.size() &&
           !(same(out.needs[found].other, need) && together(out.needs[found].readers[0], reader)))
      ++found;
    if (found == out.needs.size()) out.needs.push_back({need, {}});
    out.needs[found].readers.push_back(reader);
  }
  return out;
}

// `layouts`: the layouts that the ops read and leave, by OpId. `read_by`: as readers_by_tensor() returns it. Throws bad
// input if a tensor has no kept layout.
using TensorNeeds = Needs<Layout>;
TensorNeeds needs_of(const Graph& graph, const Plan& plan, const std::vector<const OpLayouts*>& layouts,
                     const std::vector<std::vector<Reader>>& read_by, TensorId id);

}  // namespace partita
