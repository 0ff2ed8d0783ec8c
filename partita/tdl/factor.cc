// Finds axes that a formula reads as mixed-radix numbers, and gives tensors the digits as axes (rule 4).
#include "partita/tdl/factor.h"

#include <algorithm>
#include <functional>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/text.h"

namespace partita::tdl {
namespace {

// The extents, most significant first, if the form is c1*v1 + .. + 1*vn with c_i = c_(i+1) * extent(v_(i+1)), filling
// the axis. Else empty.
Shape radices_of(const Affine& form, const Bound& bound, int64_t extent) {
  if (form.terms.size() < 2) return {};
  std::vector<std::pair<int64_t, int64_t>> digits;  // |coefficient|, extent
  for (const auto& term : form.terms) {
    if (term.atom.kind != Affine::Atom::Kind::kIndex) return {};
    digits.emplace_back(std::abs(term.coefficient), bound.indices[term.atom.index].extent);
  }
  std::sort(digits.begin(), digits.end());  // among equal coefficients, the one of extent 1 first
  Shape radices;
  int64_t filled = 1;
  for (auto [coefficient, size] : digits) {
    if (coefficient != filled || size == 0) return {};
    radices.insert(radices.begin(), size);
    filled *= size;
  }
  return filled == extent ? radices : Shape{};
}

// Reads of the parts of an axis, all alike: every form is a multiple of n plus the same form, which fills n, as x[s]
// and x[s + n] with s < n (packed gates; the parts of a fused projection). Returns the number of parts, then the
// factoring of one. Else empty.
Shape radices_of_parts(const std::vector<Affine>& forms, const Bound& bound, int64_t extent) {
  if (forms.size() < 2) return {};
  Affine part = forms[0];
  part.constant = 0;
  int64_t size = 1;
  for (const auto& term : part.terms) {
    if (term.atom.kind != Affine::Atom::Kind::kIndex) return {};
    size *= bound.indices[term.atom.index].extent;
  }
  if (size < 2 || size >= extent || extent % size != 0) return {};
  Shape radices{size};
  if (part.terms.size() > 1) radices = radices_of(part, bound, size);
  else if (part.terms[0].coefficient != 1) return {};
  if (radices.empty()) return {};
  bool differ = false;
  for (const Affine& form : forms) {
    Affine rest = form;
    rest.constant = 0;
    if (!(rest == part) || form.constant < 0 || form.constant % size != 0 || form.constant >= extent) return {};
    differ |= form.constant != forms[0].constant;
  }
  if (!differ) return {};
  radices.insert(radices.begin(), extent / size);
  return radices;
}

// The digits of a form in these radices; empty if a digit's value can leave its radix.
std::vector<Affine> digits_of(const Affine& form, const Shape& radices, const std::vector<Interval>& full) {
  std::vector<Affine> digits;
  Affine rest = form;
  for (size_t i = radices.size() - 1; i > 0; --i) {
    const int64_t radix = radices[i];
    auto [above, digit] = split_multiples(rest, radix);
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
      if (whole && !whole->empty() && (*whole)[a]) axes[tensor][a].whole = true;
      else axes[tensor][a].forms.push_back(subscripts[a]);
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
        const bool fits = std::all_of(axis.forms.begin(), axis.forms.end(),
                                      [&](const Affine& f) { return !digits_of(f, radices, full).empty(); });
        if (!fits) continue;
        tensor.radices[a] = radices;
        any = true;
        break;
      }
      if (tensor.radices[a].size() > 1) continue;
      if (Shape radices = radices_of_parts(axis.forms, bound, tensor.shape[a]); !radices.empty()) {
        tensor.radices[a] = std::move(radices);
        any = true;
      }
    }
    tensor.factored.clear();
    for (const Shape& radices : tensor.radices)
      tensor.factored.insert(tensor.factored.end(), radices.begin(), radices.end());
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

Bound as_stored(const Bound& bound) {
  Bound out = bound;
  for_each_access(out, [&](int tensor, std::vector<Affine>& subscripts, std::vector<bool>* whole) {
    const std::vector<Shape>& axes = bound.tensors[tensor].radices;
    if (whole && !whole->empty()) {
      std::vector<bool> stored;  // an axis that is read whole has one radix
      size_t digit = 0;
      for (const Shape& r : axes) stored.push_back((*whole)[digit]), digit += r.size();
      *whole = stored;
    }
    subscripts = join_subscripts(subscripts, axes);
  });
  for (BoundTensor& t : out.tensors) {
    t.radices = unfactored(t.shape);
    t.factored = t.shape;
  }
  return out;
}

namespace {

// An index replaced by a form over the new indices, and all others by their new numbers.
struct Renaming {
  std::vector<Affine> forms;   // per old index
  std::vector<Interval> full;  // of the new ones

  Affine apply(const Affine& a) const {
    Affine out = affine_constant(a.constant);
    for (const auto& term : a.terms) {
      Affine part;
      if (term.atom.kind == Affine::Atom::Kind::kIndex) {
        part = forms[term.atom.index];
      } else {
        const Affine inner = apply(*term.atom.inner);
        part = term.atom.kind == Affine::Atom::Kind::kMod ? modulo(inner, term.atom.divisor)
                                                          : floor_div(inner, term.atom.divisor);
      }
      out = out + scaled(part, term.coefficient);
    }
    return simplified(out, full);
  }

  void apply(Expr& e) const {
    if (e.kind == ExprKind::kIndex) {
      e = expr_of(forms[e.index]);
      return;
    }
    for (Affine& a : e.subscripts) a = apply(a);
    std::vector<int> reduced;
    for (int i : e.reduced) collect_indices(forms[i], reduced);
    e.reduced = reduced;
    for (Expr& a : e.args) apply(a);
  }
};

}  // namespace

Bound factor_index(const Bound& bound, std::string_view name, const Shape& radices) {
  const int factored = bound.find_index(name);
  if (factored < 0) fail("{}: there is no index {}", bound.name, name);
  if (radices.empty() || volume(radices) != bound.indices[factored].extent)
    fail("{}: {} has extent {}, and can't be factored into {}", bound.name, name, bound.indices[factored].extent,
         fmt::join(radices, " x "));
  Bound out = as_stored(bound);  // its axes are factored again below
  out.indices.clear();
  Renaming renaming;
  for (int i = 0; i < static_cast<int>(bound.indices.size()); ++i) {
    if (i != factored) {
      renaming.forms.push_back(affine_index(static_cast<int>(out.indices.size())));
      out.indices.push_back(bound.indices[i]);
      continue;
    }
    Affine form;
    for (size_t digit = 0; digit < radices.size(); ++digit) {
      std::string fresh(name);
      std::replace(fresh.begin(), fresh.end(), '.', '_');
      fresh += fmt::format("{}{}", fresh == name ? "." : "_", digit);
      while (bound.find_index(fresh) >= 0) fresh = fmt::format("_{}", fresh);
      form = scaled(form, radices[digit]) + affine_index(static_cast<int>(out.indices.size()));
      out.indices.push_back({fresh, radices[digit], bound.indices[i].splittable});
    }
    renaming.forms.push_back(form);
  }
  renaming.full = full_ranges(out);
  for (Stage& stage : out.stages) {
    for (Affine& a : stage.lhs) a = renaming.apply(a);
    renaming.apply(stage.body);
  }
  factor_axes(out);
  out.text = to_text(out);
  return out;
}

}  // namespace partita::tdl
