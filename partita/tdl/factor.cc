#include "partita/tdl/factor.h"

#include <algorithm>
#include <functional>

#include "partita/tdl/affine.h"

namespace partita::tdl {
namespace {

// c1*v1 + .. + 1*vn with c_i = c_(i+1) * extent(v_(i+1)), filling the axis: the extents, most significant first. Else empty.
Shape radices_of(const Affine& form, const Bound& bound, int64_t extent) {
  if (form.terms.size() < 2) return {};
  std::vector<std::pair<int64_t, int64_t>> digits;  // |coefficient|, extent
  for (const auto& term : form.terms) {
    if (term.atom.kind != Affine::Atom::Kind::kIndex) return {};
    digits.emplace_back(std::abs(term.coefficient), bound.indices[term.atom.index].extent);
  }
  std::sort(digits.begin(), digits.end());  // of equal coefficients, the one of extent 1 first
  Shape radices;
  int64_t filled = 1;
  for (auto [coefficient, size] : digits) {
    if (coefficient != filled || size == 0) return {};
    radices.insert(radices.begin(), size);
    filled *= size;
  }
  return filled == extent ? radices : Shape{};
}

// The digits of a form in these radices; empty where a digit's value can leave its radix.
std::vector<Affine> digits_of(const Affine& form, const Shape& radices, const std::vector<Interval>& full) {
  std::vector<Affine> digits;
  Affine rest = form;
  for (size_t i = radices.size() - 1; i > 0; --i) {
    const int64_t radix = radices[i];
    Affine digit, above;
    for (const auto& term : rest.terms) {
      if (term.coefficient % radix == 0)
        above.terms.push_back({term.coefficient / radix, term.atom});
      else
        digit.terms.push_back(term);
    }
    above.constant = floor_divide(rest.constant, radix);
    digit.constant = rest.constant - radix * above.constant;
    const Interval range = range_of(digit, full);
    if (range.lo < 0 || range.hi > radix) return {};
    digits.insert(digits.begin(), digit);
    rest = above;
  }
  digits.insert(digits.begin(), rest);
  return digits;
}

void for_each_access(Bound& bound, const std::function<void(int tensor, std::vector<Affine>&, std::vector<bool>*)>& f) {
  std::function<void(Expr&)> walk = [&](Expr& e) {
    if (e.kind == ExprKind::kRead) f(e.tensor, e.subscripts, &e.whole);
    for (Expr& a : e.args) walk(a);
  };
  for (Stage& stage : bound.stages) {
    walk(stage.body);
    f(stage.tensor, stage.lhs, nullptr);
  }
}

}  // namespace

void factor_axes(Bound& bound) {
  for (const Index& index : bound.indices)
    if (index.extent == 0) return;  // nothing is computed
  const std::vector<Interval> full = full_ranges(bound);
  struct Axis {
    std::vector<Affine> forms;
    bool whole = false;  // an opaque kernel reads it whole
  };
  std::vector<std::vector<Axis>> axes;
  for (const BoundTensor& t : bound.tensors) axes.emplace_back(t.shape.size());
  for_each_access(bound, [&](int tensor, std::vector<Affine>& subscripts, std::vector<bool>* whole) {
    for (size_t a = 0; a < subscripts.size(); ++a) {
      if (whole && !whole->empty() && (*whole)[a])
        axes[tensor][a].whole = true;
      else
        axes[tensor][a].forms.push_back(subscripts[a]);
    }
  });
  bool any = false;
  for (size_t t = 0; t < axes.size(); ++t) {
    BoundTensor& tensor = bound.tensors[t];
    for (size_t a = 0; a < axes[t].size(); ++a) {
      const Axis& axis = axes[t][a];
      if (axis.whole) continue;
      for (const Affine& form : axis.forms) {
        const Shape radices = radices_of(form, bound, tensor.shape[a]);
        if (radices.empty()) continue;
        const bool fits = std::all_of(axis.forms.begin(), axis.forms.end(), [&](const Affine& f) { return !digits_of(f, radices, full).empty(); });
        if (!fits) continue;
        tensor.radices[a] = radices;
        any = true;
        break;
      }
    }
    tensor.factored.clear();
    for (const Shape& radices : tensor.radices) tensor.factored.insert(tensor.factored.end(), radices.begin(), radices.end());
  }
  if (!any) return;
  for_each_access(bound, [&](int tensor, std::vector<Affine>& subscripts, std::vector<bool>* whole) {
    std::vector<Affine> digits;
    std::vector<bool> digits_whole;
    for (size_t a = 0; a < subscripts.size(); ++a) {
      const Shape& radices = bound.tensors[tensor].radices[a];
      if (radices.size() == 1) {
        digits.push_back(subscripts[a]);
      } else {
        for (Affine& d : digits_of(subscripts[a], radices, full)) digits.push_back(std::move(d));
      }
      if (whole && !whole->empty()) digits_whole.insert(digits_whole.end(), radices.size(), (*whole)[a]);
    }
    subscripts = std::move(digits);
    if (whole && !whole->empty()) *whole = std::move(digits_whole);
  });
}

}  // namespace partita::tdl
