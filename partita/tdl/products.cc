// Finds matrix products in the sums of a formula.
#include "partita/tdl/products.h"

#include <algorithm>
#include <set>

namespace partita::tdl {

namespace {

void add_indices(const Affine& form, std::set<int>& into) {
  for (const Affine::Term& term : form.terms) {
    if (term.atom.inner) add_indices(*term.atom.inner, into);
    else into.insert(term.atom.index);
  }
}

// What is multiplied: the indices that its reads depend on, and the tensors read.
struct Factor {
  std::set<int> indices, tensors;
};

Factor factor_of(const Expr& e) {
  Factor factor;
  for_each_read(e, [&](const Expr& read) {
    factor.tensors.insert(read.tensor);
    for (const Affine& form : read.subscripts) add_indices(form, factor.indices);
  });
  return factor;
}

bool multiplies(const Expr& e) { return e.kind == ExprKind::kBinary && e.function == "*"; }

void add_factors(const Expr& e, std::vector<Factor>& into) {
  if (multiplies(e) || (e.kind == ExprKind::kUnary && e.function == "neg")) {
    for (const Expr& arg : e.args) add_factors(arg, into);
  } else if (Factor factor = factor_of(e); !factor.tensors.empty()) {
    into.push_back(std::move(factor));
  }
}

bool has_more(const Factor& a, const Factor& b) {
  return !std::includes(b.indices.begin(), b.indices.end(), a.indices.begin(), a.indices.end());
}

bool is_matrix_product(const Factor& a, const Factor& b, const std::vector<int>& summed) {
  const bool shared =
      std::any_of(summed.begin(), summed.end(), [&](int i) { return a.indices.contains(i) && b.indices.contains(i); });
  return shared && has_more(a, b) && has_more(b, a);
}

void add_operands(const Expr& e, const std::vector<int>& summed, std::set<int>& into) {
  if (!multiplies(e)) {
    for (const Expr& arg : e.args) add_operands(arg, summed, into);
    return;
  }
  std::vector<Factor> factors;
  add_factors(e, factors);
  for (const Factor& a : factors)
    for (const Factor& b : factors)
      if (is_matrix_product(a, b, summed)) into.insert(a.tensors.begin(), a.tensors.end());
}

}  // namespace

std::vector<int> matrix_operands(const Bound& bound, int first, int last) {
  std::set<int> tensors;
  for (int s = first; s < last; ++s)
    if (const Expr& body = bound.stages[static_cast<size_t>(s)].body;
        body.kind == ExprKind::kReduce && body.reducer == Reducer::kSum)
      add_operands(body.args[0], body.reduced, tensors);
  return {tensors.begin(), tensors.end()};
}

}  // namespace partita::tdl
