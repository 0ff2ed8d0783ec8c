// Finds matrix products in the sums of a formula.
#include "partita/tdl/products.h"

#include <algorithm>
#include <set>

#include "partita/tdl/affine.h"

namespace partita::tdl {

namespace {

// A factor of a product: the indices that its reads depend on, and the tensors read.
struct Factor {
  std::set<int> indices, tensors;
  const Expr* read = nullptr;  // the one with the most axes
};

Factor factor_of(const Expr& e) {
  Factor factor;
  for_each_read(e, [&](const Expr& read) {
    factor.tensors.insert(read.tensor);
    if (!factor.read || read.subscripts.size() > factor.read->subscripts.size()) factor.read = &read;
    factor.indices.merge(indices_of(read.subscripts));
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

// Calls f(factors) for each product of an expression, the outermost if products stand in products.
template <typename F>
void for_each_product(const Expr& e, const F& f) {
  if (multiplies(e)) {
    std::vector<Factor> factors;
    add_factors(e, factors);
    f(factors);
    return;
  }
  for (const Expr& arg : e.args) for_each_product(arg, f);
}

const Expr* summed_body(const Stage& stage) {
  const bool sums = stage.body.kind == ExprKind::kReduce && stage.body.reducer == Reducer::kSum;
  return sums ? &stage.body.args[0] : nullptr;
}

// Tells whether a tensor of three axes or more is read at sums of indices behind its second one: a convolution's
// windows.
bool has_windows(const Expr& read) {
  const auto& at = read.subscripts;
  return at.size() > 2 && std::any_of(at.begin() + 2, at.end(), [](const Affine& a) { return a.plain_index() < 0; });
}

std::vector<int> innermost_of(const Bound& bound, const Stage& stage, const Factor& a, const Factor& b) {
  const bool images = has_windows(*a.read) || has_windows(*b.read);
  std::vector<int> found;
  for (const std::vector<Affine>* at : {&a.read->subscripts, &b.read->subscripts, &stage.lhs}) {
    if (images && at->size() > 2) {
      if (const int channel = (*at)[1].plain_index(); channel >= 0) found.push_back(channel);
      continue;
    }
    const auto last = std::find_if(at->rbegin(), at->rend(), [&](const Affine& form) {
      const int index = form.plain_index();
      return index < 0 ? !form.terms.empty() : bound.indices[static_cast<size_t>(index)].extent > 1;
    });
    if (last != at->rend() && last->plain_index() >= 0) found.push_back(last->plain_index());
  }
  return found;
}

// The product of two factors that are matrices: their roles by index, without indices that data determine.
MatrixProduct product_of(const Bound& bound, int number, const Factor& a, const Factor& b) {
  const Stage& stage = bound.stages[static_cast<size_t>(number)];
  const std::vector<int> determined = determined_indices(stage);
  auto counts = [&](int i) { return !std::binary_search(determined.begin(), determined.end(), i); };
  MatrixProduct product;
  product.stage = number;
  product.innermost = innermost_of(bound, stage, a, b);
  for (int i : indices_of(stage.lhs)) {
    if (!counts(i)) continue;
    const bool in_a = a.indices.contains(i), in_b = b.indices.contains(i);
    (in_a == in_b ? product.batch : in_a ? product.m : product.n).push_back(i);
  }
  for (int i : stage.body.reduced)
    if (counts(i)) product.k.push_back(i);
  return product;
}

}  // namespace

std::set<int> indices_of(const std::vector<Affine>& subscripts) {
  std::vector<int> indices;
  for (const Affine& form : subscripts) collect_indices(form, indices);
  return {indices.begin(), indices.end()};
}

std::vector<int> matrix_operands(const Bound& bound, int first, int last) {
  std::set<int> tensors;
  for (int s = first; s < last; ++s) {
    const Stage& stage = bound.stages[static_cast<size_t>(s)];
    if (const Expr* body = summed_body(stage))
      for_each_product(*body, [&](const std::vector<Factor>& factors) {
        for (const Factor& a : factors)
          for (const Factor& b : factors)
            if (is_matrix_product(a, b, stage.body.reduced)) tensors.insert(a.tensors.begin(), a.tensors.end());
      });
  }
  return {tensors.begin(), tensors.end()};
}

std::vector<MatrixProduct> matrix_products(const Bound& bound, int first, int last) {
  std::vector<MatrixProduct> products;
  for (int s = first; s < last; ++s) {
    const Stage& stage = bound.stages[static_cast<size_t>(s)];
    if (const Expr* body = summed_body(stage))
      for_each_product(*body, [&](const std::vector<Factor>& factors) {
        for (size_t a = 0; a < factors.size(); ++a)
          for (size_t b = a + 1; b < factors.size(); ++b)
            if (is_matrix_product(factors[a], factors[b], stage.body.reduced)) {
              MatrixProduct product = product_of(bound, s, factors[a], factors[b]);
              if (!product.m.empty() && !product.n.empty()) products.push_back(std::move(product));
              return;  // with more than two factors, the first pair
            }
      });
  }
  return products;
}

}  // namespace partita::tdl
