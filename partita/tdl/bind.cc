// Binds a parsed formula to shapes and attributes: docs/inside/TDL.md, section 2. Extents (extents.cc) and expressions
// (convert.cc) come first; this file makes the stages.
#include <algorithm>
#include <cmath>
#include <functional>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/binding.h"
#include "partita/tdl/factor.h"
#include "partita/tdl/make_expr.h"

namespace partita::tdl {
namespace {

using Kind = Syntax::Kind;

void validate_operands(const Definition& definition, const std::vector<Shape>& shapes) {
  if (shapes.size() != definition.operands.size())
    fail("{} takes {} operands ({}), not {}", definition.name, definition.operands.size(),
         fmt::join(definition.operands, ", "), shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i)
    for (int64_t e : shapes[i])
      if (e < 0 || e > kLargestExtent)
        fail("{}: operand {} has an axis of extent {}", definition.name, definition.operands[i], e);
}

int add_tensor(Bound& bound, const std::string& name, bool is_operand, const Shape& shape) {
  BoundTensor t;
  t.name = name;
  t.is_operand = is_operand;
  t.shape = t.factored = shape;
  t.radices = unfactored(shape);
  bound.tensors.push_back(std::move(t));
  return static_cast<int>(bound.tensors.size()) - 1;
}

void add_new(std::vector<int>& indices, const std::vector<int>& more) {
  for (int i : more)
    if (std::find(indices.begin(), indices.end(), i) == indices.end()) indices.push_back(i);
}

void free_indices(const Expr& e, std::vector<int>& indices) {
  if (e.kind == ExprKind::kIndex) add_new(indices, {e.index});
  for (const Affine& a : e.subscripts) collect_indices(a, indices);
  std::vector<int> below;
  for (const Expr& a : e.args) free_indices(a, below);
  for (int i : e.reduced) std::erase(below, i);
  add_new(indices, below);
}

// The box that a left side covers exactly once: per axis a mixed-radix number of indices of its own. Empty if there is
// none.
std::optional<Shape> shape_of_left_side(const std::vector<Index>& indices, const std::vector<Affine>& lhs) {
  Shape shape;
  std::vector<int> seen;
  for (const Affine& form : lhs) {
    std::vector<Affine::Term> digits;
    int64_t lowest = form.constant;
    for (const auto& term : form.terms) {
      if (term.atom.kind != Affine::Atom::Kind::kIndex) return std::nullopt;
      if (std::find(seen.begin(), seen.end(), term.atom.index) != seen.end()) return std::nullopt;
      seen.push_back(term.atom.index);
      const int64_t extent = indices[term.atom.index].extent;
      if (term.coefficient < 0) lowest += term.coefficient * (extent - 1);
      if (extent != 1) digits.push_back(term);
    }
    const bool empty =
        std::any_of(digits.begin(), digits.end(), [&](const auto& t) { return indices[t.atom.index].extent == 0; });
    if (empty) {
      shape.push_back(0);
      continue;
    }
    if (lowest != 0) return std::nullopt;
    std::sort(digits.begin(), digits.end(),
              [](const auto& a, const auto& b) { return std::abs(a.coefficient) < std::abs(b.coefficient); });
    int64_t radix = 1;
    for (const auto& term : digits) {
      if (std::abs(term.coefficient) != radix) return std::nullopt;
      radix *= indices[term.atom.index].extent;
    }
    shape.push_back(radix);
  }
  return shape;
}

// Adds stages in the order of evaluation (3).
class StageMaker {
 public:
  explicit StageMaker(Binding& binding) : b_(binding) {}

  void add(const Definition::StageText& stage) {
    Syntax owner;
    owner.at = stage.at;
    owner.name = stage.name;
    for (const Syntax& s : stage.lhs)
      if (s.kind == Kind::kNamed || s.kind == Kind::kWhole) b_.error(s.at, "the left side is made of indices");
    std::vector<Affine> lhs = left_side(b_, owner, stage.lhs);
    Expr body = convert_expression(b_, stage.body);
    std::vector<int> order;
    for (const Affine& a : lhs) collect_indices(a, order);
    hoist(body, true, stage.name, order, stage.body.at);
    finish_stage(stage.name, std::move(lhs), std::move(body), false, stage.at);
  }

 private:
  std::string fresh_name(const std::string& stage) {
    while (true) {
      std::string name = fmt::format("{}_{}", stage, hoisted_++);
      const bool taken =
          b_.bound.find_tensor(name) >= 0 || std::any_of(b_.definition.stages.begin(), b_.definition.stages.end(),
                                                         [&](const auto& s) { return s.name == name; });
      if (!taken) return name;
    }
  }

  // Turns reducers below the root into stages over their free indices, innermost first, in the order of `order`.
  void hoist(Expr& e, bool root, const std::string& stage, std::vector<int> order, size_t at) {
    add_new(order, e.reduced);
    for (Expr& a : e.args) hoist(a, false, stage, order, at);
    if (e.kind != ExprKind::kReduce || root) return;
    std::vector<int> free, lhs;
    free_indices(e, free);
    for (int i : order)
      if (std::find(free.begin(), free.end(), i) != free.end()) lhs.push_back(i);
    for (int i : free)
      if (std::find(lhs.begin(), lhs.end(), i) == lhs.end()) b_.error(at, unreduced(i, stage));
    std::vector<Affine> forms;
    for (int i : lhs) forms.push_back(affine_index(i));
    Expr body = std::move(e);
    const int tensor = finish_stage(fresh_name(stage), forms, std::move(body), true, at);
    e = make_read(tensor, std::move(forms));
  }

  std::string unreduced(int index, const std::string& stage) const {
    return fmt::format("{} of stage {} is neither an index of its left side nor reduced", b_.bound.indices[index].name,
                       stage);
  }

  int finish_stage(const std::string& name, std::vector<Affine> lhs, Expr body, bool anonymous, size_t at) {
    const std::optional<Shape> shape = shape_of_left_side(b_.bound.indices, lhs);
    if (!shape) b_.error(at, fmt::format("the left side of {} does not cover its box exactly once", name));
    std::vector<int> known, free;
    for (const Affine& a : lhs) collect_indices(a, known);
    for (int i : body.reduced)
      if (std::find(known.begin(), known.end(), i) != known.end())
        b_.error(at, fmt::format("{} is on the left side of {} and reduced", b_.bound.indices[i].name, name));
    free_indices(body, free);
    for (int i : free)
      if (std::find(known.begin(), known.end(), i) == known.end()) b_.error(at, unreduced(i, name));
    Stage stage;
    stage.tensor = add_tensor(b_.bound, name, false, *shape);
    stage.lhs = std::move(lhs);
    stage.body = std::move(body);
    stage.anonymous = anonymous;
    b_.bound.stages.push_back(std::move(stage));
    return b_.bound.stages.back().tensor;
  }

  Binding& b_;
  int hoisted_ = 0;
};

void mark_splittable(Bound& bound) {
  std::vector<bool> used(bound.indices.size(), false), opaque(bound.indices.size(), false);
  std::function<void(const Expr&)> walk = [&](const Expr& e) {
    if (e.kind == ExprKind::kOpaque) {
      std::vector<int> result;
      for (const Affine& a : e.subscripts) collect_indices(a, result);
      for (int i : result) opaque[i] = true;
    }
    for (const Expr& a : e.args) walk(a);
  };
  for (const Stage& stage : bound.stages) {
    std::vector<int> indices = stage.body.reduced;
    for (const Affine& a : stage.lhs) collect_indices(a, indices);
    for (int i : indices) used[i] = true;
    walk(stage.body);
  }
  for (size_t i = 0; i < used.size(); ++i) bound.indices[i].splittable = used[i] && !opaque[i];
}

}  // namespace

int Bound::find_index(std::string_view wanted) const {
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i].name == wanted) return static_cast<int>(i);
  return -1;
}

int Bound::find_tensor(std::string_view wanted) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == wanted) return static_cast<int>(i);
  return -1;
}

int Bound::stage_of(int tensor) const {
  for (size_t i = 0; i < stages.size(); ++i)
    if (stages[i].tensor == tensor) return static_cast<int>(i);
  return -1;
}

std::vector<Interval> full_ranges(const Bound& bound) {
  std::vector<Interval> ranges;
  for (const Index& index : bound.indices) ranges.push_back({0, index.extent});
  return ranges;
}

Bound bind(const DefinitionPtr& definition, const std::vector<Shape>& shapes, const Attributes& attributes) {
  validate_operands(*definition, shapes);
  Binding b{*definition, shapes, attributes, {}, {}, {}};
  Bound& bound = b.bound;
  bound.name = definition->name;
  bound.text = definition->text;
  for (size_t i = 0; i < shapes.size(); ++i) add_tensor(bound, definition->operands[i], true, shapes[i]);
  bound.operand_count = static_cast<int>(shapes.size());
  fix_extents(b);
  StageMaker stages(b);
  for (const auto& stage : definition->stages) stages.add(stage);
  for (const std::string& result : definition->results) bound.results.push_back(bound.find_tensor(result));
  mark_splittable(bound);
  factor_axes(bound);
  return std::move(b.bound);
}

Bound bind(std::string_view text, const std::vector<Shape>& shapes, const Attributes& attributes) {
  return tdl::bind(parse(text), shapes, attributes);
}

}  // namespace partita::tdl
