// Assembles the stages of a gradient into a formula, without those that its result does not need.
#include <algorithm>

#include "partita/tdl/affine.h"
#include "partita/tdl/backward.h"
#include "partita/tdl/substitute.h"

namespace partita::tdl {
namespace {

void renumber(Expr& e, const std::vector<int>& tensors) {
  if (e.kind == ExprKind::kRead) e.tensor = tensors[e.tensor];
  for (Expr& a : e.args) renumber(a, tensors);
}
void collect(const Expr& e, std::vector<int>& indices) {
  if (e.kind == ExprKind::kIndex) collect_indices(affine_index(e.index), indices);
  for (const Affine& s : e.subscripts) collect_indices(s, indices);
  for (int i : e.reduced) collect_indices(affine_index(i), indices);
  for (const Expr& a : e.args) collect(a, indices);
}
// Drops the indices that no stage uses; the others keep their order.
void drop_unused_indices(Bound& g) {
  std::vector<int> used;
  for (const Stage& s : g.stages) {
    for (const Affine& form : s.lhs) collect_indices(form, used);
    collect(s.body, used);
  }
  std::sort(used.begin(), used.end());
  std::vector<Index> kept;
  Substitution by;
  for (int i : used) {
    by[i] = affine_index(static_cast<int>(kept.size()));
    kept.push_back(g.indices[i]);
  }
  for (Stage& s : g.stages) {
    for (Affine& form : s.lhs) form = substituted(form, by);
    s.body = substituted(std::move(s.body), by);
    if (s.body.kind == ExprKind::kReduce)
      for (int& i : s.body.reduced) i = by.at(i).plain_index();
  }
  g.indices = std::move(kept);
}

}  // namespace

Gradient assemble_gradient(const Backward& backward, std::vector<Stage> back, int result) {
  const std::vector<BoundTensor>& old = backward.formula.tensors;
  std::vector<Stage> all = backward.forward.stages;
  all.insert(all.end(), std::make_move_iterator(back.begin()), std::make_move_iterator(back.end()));
  std::vector<bool> needed(old.size(), false);
  needed[result] = true;
  for (auto s = all.rbegin(); s != all.rend(); ++s)
    if (needed[s->tensor]) for_each_read(s->body, [&](const Expr& read) { needed[read.tensor] = true; });

  Bound g = backward.formula;
  g.tensors.clear();
  g.stages.clear();
  Gradient gradient;
  std::vector<int> position(old.size(), -1);
  auto keep = [&](int t) {
    position[t] = static_cast<int>(g.tensors.size());
    g.tensors.push_back(old[t]);
  };
  for (size_t t = 0; t < old.size(); ++t)
    if (old[t].is_operand && needed[t]) {
      keep(static_cast<int>(t));
      gradient.operands.push_back(old[t].name);
    }
  g.operand_count = static_cast<int>(g.tensors.size());
  for (Stage& s : all)
    if (needed[s.tensor]) {
      keep(s.tensor);
      g.stages.push_back(std::move(s));
    }
  for (Stage& s : g.stages) {
    s.tensor = position[s.tensor];
    renumber(s.body, position);
  }
  g.results = {position[result]};
  drop_unused_indices(g);
  gradient.text = to_text(g);
  return gradient;
}

}  // namespace partita::tdl
