// Binding a parsed formula to shapes and attributes: docs/TDL.md, section 2.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/factor.h"
#include "partita/tdl/functions.h"
#include "partita/tdl/mutant.h"
#include "partita/tdl/syntax.h"

namespace partita::tdl {
namespace {

using Kind = Syntax::Kind;

constexpr int64_t kLargestExtent = int64_t{1} << 40;  // products with coefficients stay far from overflow

Expr number_expr(double value) {
  Expr e;
  e.number = value;
  return e;
}

Expr index_expr(int index) {
  Expr e;
  e.kind = ExprKind::kIndex;
  e.index = index;
  return e;
}

Expr node(ExprKind kind, std::string function, std::vector<Expr> args) {
  Expr e;
  e.kind = kind;
  e.function = std::move(function);
  e.args = std::move(args);
  return e;
}

bool is_number(const Expr& e) { return e.kind == ExprKind::kNumber; }

// The value where both sides are literals and the function is a plain one.
std::optional<double> folded(const std::string& f, const std::vector<Expr>& args) {
  if (!std::all_of(args.begin(), args.end(), is_number)) return std::nullopt;
  const double x = args[0].number;
  if (args.size() == 1) {
    if (f == "neg") return -x;
    if (f == "exp") return std::exp(x);
    if (f == "log") return std::log(x);
    if (f == "sqrt") return std::sqrt(x);
    if (f == "tanh") return std::tanh(x);
    if (f == "sin") return std::sin(x);
    if (f == "cos") return std::cos(x);
    if (f == "abs") return std::abs(x);
    if (f == "floor") return std::floor(x);
    if (const RealFunction* real = find_real_function(f); real && std::isfinite(real->value(x))) return real->value(x);
    return std::nullopt;
  }
  const double y = args[1].number;
  std::optional<double> value;
  if (f == "+") value = x + y;
  if (f == "-") value = x - y;
  if (f == "*") value = x * y;
  if (f == "/") value = x / y;
  if (f == "^") value = std::pow(x, y);
  if (f == "max") value = std::max(x, y);
  if (f == "min") value = std::min(x, y);
  if (f == "//" && y != 0) value = std::floor(x / y);
  if (f == "%" && y != 0) value = x - y * std::floor(x / y);
  if (value && std::isnan(*value)) return std::nullopt;
  return value;
}

Expr make_folded(ExprKind kind, const std::string& function, std::vector<Expr> args) {
  if (auto value = folded(function, args)) return number_expr(*value);
  return node(kind, function, std::move(args));
}

std::string axes_text(size_t n) { return n == 1 ? "1 axis" : fmt::format("{} axes", n); }

class Binder {
 public:
  Binder(const Definition& definition, const std::vector<Shape>& shapes, const Attributes& attributes)
      : d_(definition), shapes_(shapes), attributes_(attributes) {}

  Bound bind() {
    check_operands();
    b_.name = d_.name;
    b_.text = d_.text;
    for (size_t i = 0; i < shapes_.size(); ++i) add_tensor(d_.operands[i], true, shapes_[i]);
    b_.operand_count = static_cast<int>(shapes_.size());
    for (const auto& stage : d_.stages) {
      for (const Syntax& s : stage.lhs) collect_reads(s);
      collect_reads(stage.body);
    }
    refuse_products();
    fix_ranks();
    fix_group_extents();
    fix_where();
    fix_plain_extents();
    for (const auto& stage : d_.stages) add_stage(stage);
    for (const std::string& result : d_.results) b_.results.push_back(b_.find_tensor(result));
    mark_splittable();
    factor_axes(b_);
    return std::move(b_);
  }

 private:
  [[noreturn]] void error(size_t at, const std::string& message) const { fail_at(d_.name, d_.text, at, message); }

  int add_tensor(const std::string& name, bool is_operand, const Shape& shape) {
    BoundTensor t;
    t.name = name;
    t.is_operand = is_operand;
    t.shape = t.factored = shape;
    t.radices = unfactored(shape);
    b_.tensors.push_back(std::move(t));
    return static_cast<int>(b_.tensors.size()) - 1;
  }

  void check_operands() const {
    if (shapes_.size() != d_.operands.size())
      fail("{} takes {} operands ({}), not {}", d_.name, d_.operands.size(), fmt::join(d_.operands, ", "),
           shapes_.size());
    for (size_t i = 0; i < shapes_.size(); ++i)
      for (int64_t e : shapes_[i])
        if (e < 0 || e > kLargestExtent) fail("{}: operand {} has an axis of extent {}", d_.name, d_.operands[i], e);
  }

  int operand(const std::string& name) const {
    auto it = std::find(d_.operands.begin(), d_.operands.end(), name);
    return it == d_.operands.end() ? -1 : static_cast<int>(it - d_.operands.begin());
  }

  // ------------------------------------------------------------ ranks and extents (1, 2)

  void collect_reads(const Syntax& s) {
    if (s.kind == Kind::kAccess && operand(s.name) >= 0) reads_.push_back(&s);
    if (s.kind == Kind::kOpaque) opaques_.push_back(&s);
    for (const Syntax& a : s.args) collect_reads(a);
  }

  static std::vector<std::string> groups_of(const Syntax& access) {
    std::vector<std::string> groups;
    for (const Syntax& s : access.args)
      if (s.kind == Kind::kGroup) groups.push_back(s.name);
    return groups;
  }

  // How many axes of the operand each group of a read takes, in order; ranks must be fixed where there are several
  // groups.
  std::vector<int> group_widths(const Syntax& access, const Shape& shape) const {
    const std::vector<std::string> groups = groups_of(access);
    const int free = static_cast<int>(shape.size()) - static_cast<int>(access.args.size() - groups.size());
    std::vector<int> widths;
    int total = 0;
    for (const std::string& g : groups) {
      widths.push_back(groups.size() == 1 ? free : ranks_.at(g));
      total += widths.back();
    }
    if (total != free || free < 0 || (groups.size() == 1 && ranks_.contains(groups[0]) && free > ranks_.at(groups[0])))
      error(access.at,
            fmt::format("{} has {}, and is read with {}", access.name, axes_text(shape.size()),
                        static_cast<int>(access.args.size() - groups.size()) +
                            (groups.size() == 1 && ranks_.contains(groups[0]) ? ranks_.at(groups[0]) : total)));
    return widths;
  }

  void fix_ranks() {
    for (const auto& [name, value] : attributes_) {
      if (!name.starts_with("..")) continue;
      if (value < 0 || value > 64 || value != std::floor(value)) fail("{}: the rank of {} is {}", d_.name, name, value);
      ranks_[name.substr(2)] = static_cast<int>(value);
    }
    const std::set<std::string> fixed = [&] {
      std::set<std::string> names;
      for (const auto& [name, rank] : ranks_) names.insert(name);
      return names;
    }();
    // The largest rank that an operand with exactly one unknown group gives; what is then still unknown, the same way.
    std::set<std::string> known = fixed;
    for (bool progress = true; progress;) {
      progress = false;
      std::map<std::string, int> found;
      for (const Syntax* read : reads_) {
        const Shape& shape = shapes_[operand(read->name)];
        const std::vector<std::string> groups = groups_of(*read);
        int free = static_cast<int>(shape.size()) - static_cast<int>(read->args.size() - groups.size());
        std::vector<std::string> unknown;
        for (const std::string& g : groups) {
          if (known.contains(g)) free -= ranks_[g];
          else unknown.push_back(g);
        }
        if (unknown.size() != 1 || free < 0) continue;
        auto [it, fresh] = found.emplace(unknown[0], free);
        it->second = std::max(it->second, free);
      }
      for (const auto& [name, rank] : found) {
        ranks_[name] = rank;
        known.insert(name);
        progress = true;
      }
    }
    for (const Syntax* read : reads_) {
      const Shape& shape = shapes_[operand(read->name)];
      for (const Syntax& s : read->args)
        if (s.kind == Kind::kGroup && !ranks_.contains(s.name))
          error(s.at, fmt::format("nothing fixes how many axes ..{} has: give the attribute ..{}", s.name, s.name));
      if (groups_of(*read).empty() && shape.size() != read->args.size())
        error(read->at,
              fmt::format("{} has {}, and is read with {}", read->name, axes_text(shape.size()), read->args.size()));
      group_widths(*read, shape);
    }
  }

  void fix_group_extents() {
    std::map<std::string, Shape> extents;
    std::vector<std::string> order;
    for (const Syntax* read : reads_) {
      const Shape& shape = shapes_[operand(read->name)];
      const std::vector<int> widths = group_widths(*read, shape);
      size_t axis = 0, group = 0;
      for (const Syntax& s : read->args) {
        if (s.kind != Kind::kGroup) {
          ++axis;
          continue;
        }
        const int rank = ranks_.at(s.name), width = widths[group++];
        auto [it, fresh] = extents.emplace(s.name, Shape(rank, 1));
        if (fresh) order.push_back(s.name);
        for (int q = 0; q < width; ++q, ++axis) {
          int64_t& extent = it->second[rank - width + q];
          if (shape[axis] == 1) continue;
          if (extent != 1 && extent != shape[axis])
            error(s.at, fmt::format("{} has extent {} where another operand has {}: ..{} can't be broadcast",
                                    read->name, shape[axis], extent, s.name));
          extent = shape[axis];
        }
      }
    }
    for (const std::string& g : order)
      for (size_t q = 0; q < extents[g].size(); ++q) add_index(fmt::format("{}.{}", g, q), extents[g][q]);
  }

  // A product of indices in a subscript, told by what can only be an index. Said before extents are looked for: such a
  // subscript fixes none, and that would be the lesser complaint.
  void refuse_products() const {
    std::set<std::string> indices;
    const std::function<void(const Syntax&)> under_reducers = [&](const Syntax& s) {
      if (s.kind == Kind::kReduce)
        for (const Syntax& name : s.names) indices.insert(name.name);
      for (const Syntax& arg : s.args) under_reducers(arg);
    };
    for (const auto& extent : d_.where) indices.insert(extent.index);
    for (const auto& stage : d_.stages) {
      for (const Syntax& s : stage.lhs)
        if (s.kind == Kind::kName) indices.insert(s.name);
      under_reducers(stage.body);
    }
    const std::function<bool(const Syntax&)> has_index = [&](const Syntax& s) {
      if (s.kind == Kind::kCall && s.name == "ext") return false;  // an extent: a constant
      return (s.kind == Kind::kName && indices.contains(s.name) && !attributes_.contains(s.name)) ||
             std::any_of(s.args.begin(), s.args.end(), has_index);
    };
    const std::function<void(const Syntax&)> look = [&](const Syntax& s) {
      if (s.kind == Kind::kBinary && s.name == "*" && has_index(s.args[0]) && has_index(s.args[1]))
        error(s.at, "a product of two indices");
      for (const Syntax& arg : s.args) look(arg);
    };
    for (const Syntax* read : reads_)
      for (const Syntax& s : read->args)
        if (!reads_data(s)) look(s);
  }

  int add_index(const std::string& name, int64_t extent) {
    b_.indices.push_back({name, extent, true});
    return static_cast<int>(b_.indices.size()) - 1;
  }

  void fix_where() {
    for (const auto& extent : d_.where) {
      if (attributes_.contains(extent.index))
        error(extent.at, fmt::format("{} is an attribute, so it can't be an index", extent.index));
      if (b_.find_index(extent.index) >= 0) {
        // An index of a group: `where` may say again what the operands say, and what they broadcast to.
        Index& index = b_.indices[b_.find_index(extent.index)];
        const double value = constant(extent.value);
        if (declared_.contains(extent.index) || value != static_cast<double>(index.extent))
          error(extent.at, fmt::format("the extent of {} is {} and {}", extent.index, index.extent, value));
        declared_.insert(extent.index);
        continue;
      }
      const double value = constant(extent.value);
      if (value != std::floor(value) || value < 0 || value > static_cast<double>(kLargestExtent))
        error(extent.value.at, fmt::format("the extent of {} is {}", extent.index, value));
      add_index(extent.index, static_cast<int64_t>(value));
      declared_.insert(extent.index);
    }
  }

  double constant(const Syntax& s) {
    const Expr e = convert(s);
    if (!is_number(e))
      error(s.at, "an extent must be a constant: made of numbers, attributes, and extents of operands");
    return e.number;
  }

  // (subscript, extent of its axis) of a read, groups left out.
  std::vector<std::pair<const Syntax*, int64_t>> single_axes(const Syntax& read) const {
    const Shape& shape = shapes_[operand(read.name)];
    const std::vector<int> widths = group_widths(read, shape);
    std::vector<std::pair<const Syntax*, int64_t>> axes;
    size_t axis = 0, group = 0;
    for (const Syntax& s : read.args) {
      if (s.kind == Kind::kGroup) axis += widths[group++];
      else axes.emplace_back(&s, shape[axis++]);
    }
    return axes;
  }

  void set_extent(const std::string& name, int64_t extent, size_t at, const std::string& tensor) {
    if (declared_.contains(name)) return;
    const int known = b_.find_index(name);
    if (known < 0) add_index(name, extent);
    else if (b_.indices[known].extent != extent)
      error(at, fmt::format("the extent of {} is {} elsewhere, and {} here ({})", name, b_.indices[known].extent,
                            extent, tensor));
  }

  void fix_plain_extents() {
    for (const Syntax* read : reads_)
      for (auto [s, extent] : single_axes(*read))
        if (s->kind == Kind::kName && !attributes_.contains(s->name)) set_extent(s->name, extent, s->at, read->name);
    for (const Syntax* read : reads_)
      for (auto [s, extent] : single_axes(*read))
        if (s->kind == Kind::kNamed) {
          if (attributes_.contains(s->name))
            error(s->at, fmt::format("{} is an attribute, so it can't be an index", s->name));
          set_extent(s->name, extent, s->at, read->name);
        }
    // An opaque's result has the extents of its first slice's whole axes, unless something else says otherwise.
    for (const Syntax* opaque : opaques_) {
      if (opaque->args.empty() || operand(opaque->args[0].name) < 0) continue;
      std::vector<int64_t> whole;
      for (auto [s, extent] : single_axes(opaque->args[0]))
        if (s->kind == Kind::kWhole) whole.push_back(extent);
      if (whole.size() != opaque->names.size()) continue;
      for (size_t i = 0; i < whole.size(); ++i) {
        const Syntax& s = opaque->names[i];
        if (s.kind == Kind::kName && !attributes_.contains(s.name) && b_.find_index(s.name) < 0)
          add_index(s.name, whole[i]);
      }
    }
  }

  // ------------------------------------------------------------ expressions

  int index_named(const std::string& name, size_t at) const {
    const int index = b_.find_index(name);
    if (index < 0)
      error(at, fmt::format("nothing fixes the extent of {}: add `where {} < ..`, or give an attribute {}", name, name,
                            name));
    return index;
  }

  std::vector<int> group_indices(const Syntax& group) const {
    if (!ranks_.contains(group.name)) error(group.at, fmt::format("no operand is read with ..{}", group.name));
    std::vector<int> indices;
    for (int q = 0; q < ranks_.at(group.name); ++q)
      indices.push_back(index_named(fmt::format("{}.{}", group.name, q), group.at));
    return indices;
  }

  std::vector<int> names_to_indices(const std::vector<Syntax>& names) const {
    std::vector<int> indices;
    for (const Syntax& s : names) {
      if (s.kind == Kind::kGroup) {
        for (int i : group_indices(s)) indices.push_back(i);
      } else {
        if (attributes_.contains(s.name))
          error(s.at, fmt::format("{} is an attribute, so it can't be an index", s.name));
        indices.push_back(index_named(s.name, s.at));
      }
      for (size_t i = 0; i + 1 < indices.size(); ++i)
        if (indices[i] == indices.back())
          error(s.at, fmt::format("{} is reduced twice", b_.indices[indices.back()].name));
    }
    return indices;
  }

  static bool reads_data(const Syntax& s) {
    return s.kind == Kind::kAccess || s.kind == Kind::kReduce || s.kind == Kind::kOpaque ||
           std::any_of(s.args.begin(), s.args.end(), reads_data);
  }

  Affine subscript(const Syntax& s) {
    if (reads_data(s)) error(s.at, "an index that is read from data needs a name: t[v = ids[..]]");
    const Expr e = convert(s);
    NotAffine why;
    auto form = affine_of(e, &why);
    if (!form) {
      if (why == NotAffine::kProduct) error(s.at, "a product of two indices");
      if (why == NotAffine::kDivisor) error(s.at, "an index can only be divided by a positive constant");
      error(s.at, "a subscript must be made of indices and integers, with + - * // %");
    }
    return simplified(*form, full_ranges(b_));
  }

  // The subscripts of a read or a left side. `shape`: of the operand that is read, none where groups are never
  // broadcast.
  struct Subscripts {
    std::vector<Affine> forms;
    std::vector<bool> whole;
    std::vector<std::pair<int, const Syntax*>> from_data;  // index, its value
  };
  Subscripts subscripts(const Syntax& owner, const std::vector<Syntax>& items, const Shape* shape) {
    Subscripts result;
    const std::vector<int> widths = shape ? group_widths(owner, *shape) : std::vector<int>();
    size_t group = 0;
    for (const Syntax& s : items) {
      const size_t axis = result.forms.size();
      if (s.kind == Kind::kGroup) {
        std::vector<int> indices = group_indices(s);
        if (shape) indices.erase(indices.begin(), indices.end() - widths[group++]);
        for (size_t q = 0; q < indices.size(); ++q) {
          const bool broadcast = shape && (*shape)[axis + q] == 1 && b_.indices[indices[q]].extent != 1;
          result.forms.push_back(broadcast && !MUTANT("no_broadcast") ? affine_constant(0) : affine_index(indices[q]));
          result.whole.push_back(false);
        }
      } else if (s.kind == Kind::kNamed) {
        result.from_data.emplace_back(index_named(s.name, s.at), &s.args[0]);
        result.forms.push_back(affine_index(result.from_data.back().first));
        result.whole.push_back(false);
      } else {
        result.whole.push_back(s.kind == Kind::kWhole);
        result.forms.push_back(s.kind == Kind::kWhole ? Affine{} : subscript(s));
      }
    }
    return result;
  }

  Expr read(const Syntax& s, bool in_opaque) {
    const int tensor = b_.find_tensor(s.name);
    if (tensor < 0) {
      const bool later =
          std::any_of(d_.stages.begin(), d_.stages.end(), [&](const auto& stage) { return stage.name == s.name; });
      error(s.at, later ? fmt::format("{} is read before the line that defines it", s.name)
                        : fmt::format("there is no operand or stage {}", s.name));
    }
    const bool is_operand = b_.tensors[tensor].is_operand;
    const Shape shape = b_.tensors[tensor].shape;
    Subscripts subs = subscripts(s, s.args, is_operand ? &shape : nullptr);
    if (subs.forms.size() != shape.size())
      error(s.at, fmt::format("{} has {}, and is read with {}", s.name, axes_text(shape.size()), subs.forms.size()));
    Expr e;
    e.kind = ExprKind::kRead;
    e.tensor = tensor;
    e.has_else = s.has_else;
    e.number = s.has_else ? s.number : 0;
    e.subscripts = std::move(subs.forms);
    if (in_opaque) {
      e.whole = std::move(subs.whole);
      if (!subs.from_data.empty()) error(s.at, "a slice of an opaque kernel can't be chosen by data");
      return e;
    }
    for (size_t i = 0; i < subs.whole.size(); ++i)
      if (subs.whole[i]) error(s.at, "only a slice of an opaque kernel is read whole, with `:`");
    if (subs.from_data.empty()) return e;
    // t[v = ids[..b], h] is sum(v) if(ids[..b] == v, t[v, h], 0)
    if (s.has_else && s.number != 0)
      error(s.at, "a read at an index from data gives 0 out of range: it can have no `else`");
    Expr sum = node(ExprKind::kReduce, "", {});
    std::optional<Expr> guard;
    for (auto [index, value] : subs.from_data) {
      if (std::count(sum.reduced.begin(), sum.reduced.end(), index))
        error(value->at, fmt::format("{} is read from data twice", b_.indices[index].name));
      sum.reduced.push_back(index);
      std::vector<Expr> sides;
      sides.push_back(convert(*value));
      sides.push_back(index_expr(index));
      Expr equal = node(ExprKind::kBinary, "==", std::move(sides));
      if (guard) {
        std::vector<Expr> both;
        both.push_back(std::move(*guard));
        both.push_back(std::move(equal));
        guard = node(ExprKind::kBinary, "and", std::move(both));
      } else {
        guard = std::move(equal);
      }
    }
    std::vector<Expr> parts;
    parts.push_back(std::move(*guard));
    parts.push_back(std::move(e));
    parts.push_back(number_expr(0));
    sum.args.push_back(node(ExprKind::kIf, "", std::move(parts)));
    return sum;
  }

  Expr convert(const Syntax& s) {
    switch (s.kind) {
      case Kind::kNumber:
        return number_expr(s.number);
      case Kind::kName: {
        auto attribute = attributes_.find(s.name);
        if (attribute != attributes_.end()) return number_expr(attribute->second);
        if (operand(s.name) >= 0 || b_.find_tensor(s.name) >= 0)
          error(s.at, fmt::format("{} is a tensor: read it as {}[..]", s.name, s.name));
        return index_expr(index_named(s.name, s.at));
      }
      case Kind::kExtent: {
        const Shape& shape = shapes_[operand(s.name)];
        const int axis = s.axis < 0 ? s.axis + static_cast<int>(shape.size()) : s.axis;
        if (axis < 0 || axis >= static_cast<int>(shape.size()))
          error(s.at, fmt::format("{} has {}, so there is no {}.{}", s.name, axes_text(shape.size()), s.name, s.axis));
        return number_expr(static_cast<double>(shape[axis]));
      }
      case Kind::kAccess:
        return read(s, false);
      case Kind::kUnary:
      case Kind::kBinary: {
        std::vector<Expr> args;
        for (const Syntax& a : s.args) args.push_back(convert(a));
        if ((s.name == "//" || s.name == "%") && is_number(args[1]) && args[1].number == 0)
          error(s.at, fmt::format("'{}' by zero", s.name));
        return make_folded(s.kind == Kind::kUnary ? ExprKind::kUnary : ExprKind::kBinary, s.name, std::move(args));
      }
      case Kind::kIf: {
        std::vector<Expr> args;
        for (const Syntax& a : s.args) args.push_back(convert(a));
        return node(ExprKind::kIf, "", std::move(args));
      }
      case Kind::kReduce: {
        Expr e = node(ExprKind::kReduce, "", {});
        e.reducer = *find_reducer(s.name);
        e.reduced = names_to_indices(s.names);
        Expr body = convert(s.args[0]);
        if (body.kind == ExprKind::kReduce && body.reducer == e.reducer) {  // nested equal reducers merge (3)
          for (int i : body.reduced) {
            if (std::count(e.reduced.begin(), e.reduced.end(), i))
              error(s.at, fmt::format("{} is reduced twice", b_.indices[i].name));
            e.reduced.push_back(i);
          }
          body = Expr(std::move(body.args[0]));
        }
        e.args.push_back(std::move(body));
        return e;
      }
      case Kind::kCall:
        return call(s);
      case Kind::kOpaque: {
        Expr e = node(ExprKind::kOpaque, s.name, {});
        for (const Syntax& slice : s.args) e.args.push_back(read(slice, true));
        e.subscripts = subscripts(s, s.names, nullptr).forms;
        return e;
      }
      case Kind::kGroup:
        error(s.at, fmt::format("a group of indices is no value: write lin(..{})", s.name));
      case Kind::kWhole:
        error(s.at, "`:` stands only in a slice of an opaque kernel");
      case Kind::kNamed:
        error(s.at, "an index is read from data only in a read's subscripts");
    }
    error(s.at, "not an expression");
  }

  Expr call(const Syntax& s) {
    if (s.name == "ext") {
      double product = 1;
      if (s.args[0].kind == Kind::kGroup) {
        for (int i : group_indices(s.args[0])) product *= static_cast<double>(b_.indices[i].extent);
      } else {
        product = static_cast<double>(b_.indices[index_named(s.args[0].name, s.args[0].at)].extent);
      }
      return number_expr(product);
    }
    if (s.name == "lin") {  // row-major
      Affine number;
      for (int i : group_indices(s.args[0])) number = scaled(number, b_.indices[i].extent) + affine_index(i);
      return expr_of(number);
    }
    std::vector<Expr> args;
    for (const Syntax& a : s.args) args.push_back(convert(a));
    if (s.name == "rng") return node(ExprKind::kRng, s.name, std::move(args));
    return make_folded(ExprKind::kUnary, s.name, std::move(args));
  }

  // ------------------------------------------------------------ stages (3)

  static void add_new(std::vector<int>& indices, const std::vector<int>& more) {
    for (int i : more)
      if (std::find(indices.begin(), indices.end(), i) == indices.end()) indices.push_back(i);
  }

  static void free_indices(const Expr& e, std::vector<int>& indices) {
    if (e.kind == ExprKind::kIndex) add_new(indices, {e.index});
    for (const Affine& a : e.subscripts) collect_indices(a, indices);
    std::vector<int> below;
    for (const Expr& a : e.args) free_indices(a, below);
    for (int i : e.reduced) std::erase(below, i);
    add_new(indices, below);
  }

  std::string fresh_name(const std::string& stage) {
    while (true) {
      std::string name = fmt::format("{}_{}", stage, hoisted_++);
      const bool taken = b_.find_tensor(name) >= 0 ||
                         std::any_of(d_.stages.begin(), d_.stages.end(), [&](const auto& s) { return s.name == name; });
      if (!taken) return name;
    }
  }

  // Reducers below the root become stages over their free indices, innermost first, in the order of `order`.
  void hoist(Expr& e, bool root, const std::string& stage, std::vector<int> order, size_t at) {
    add_new(order, e.reduced);
    for (Expr& a : e.args) hoist(a, false, stage, order, at);
    if (e.kind != ExprKind::kReduce || root) return;
    std::vector<int> free, lhs;
    free_indices(e, free);
    for (int i : order)
      if (std::find(free.begin(), free.end(), i) != free.end()) lhs.push_back(i);
    for (int i : free)
      if (std::find(lhs.begin(), lhs.end(), i) == lhs.end()) error(at, unreduced(i, stage));
    std::vector<Affine> forms;
    for (int i : lhs) forms.push_back(affine_index(i));
    Expr body = std::move(e);
    e = Expr();
    e.kind = ExprKind::kRead;
    e.subscripts = forms;
    e.tensor = finish_stage(fresh_name(stage), std::move(forms), std::move(body), true, at);
  }

  std::string unreduced(int index, const std::string& stage) const {
    return fmt::format("{} of stage {} is neither an index of its left side nor reduced", b_.indices[index].name,
                       stage);
  }

  void add_stage(const Definition::StageText& stage) {
    Syntax owner;
    owner.at = stage.at;
    owner.name = stage.name;
    for (const Syntax& s : stage.lhs)
      if (s.kind == Kind::kNamed || s.kind == Kind::kWhole) error(s.at, "the left side is made of indices");
    Subscripts lhs = subscripts(owner, stage.lhs, nullptr);
    Expr body = convert(stage.body);
    std::vector<int> order;
    for (const Affine& a : lhs.forms) collect_indices(a, order);
    hoist(body, true, stage.name, order, stage.body.at);
    finish_stage(stage.name, std::move(lhs.forms), std::move(body), false, stage.at);
  }

  int finish_stage(const std::string& name, std::vector<Affine> lhs, Expr body, bool anonymous, size_t at) {
    const std::optional<Shape> shape = shape_of_left_side(lhs);
    if (!shape) error(at, fmt::format("the left side of {} does not cover its box exactly once", name));
    std::vector<int> known, free;
    for (const Affine& a : lhs) collect_indices(a, known);
    for (int i : body.reduced)
      if (std::find(known.begin(), known.end(), i) != known.end())
        error(at, fmt::format("{} is on the left side of {} and reduced", b_.indices[i].name, name));
    free_indices(body, free);
    for (int i : free)
      if (std::find(known.begin(), known.end(), i) == known.end()) error(at, unreduced(i, name));
    Stage stage;
    stage.tensor = add_tensor(name, false, *shape);
    stage.lhs = std::move(lhs);
    stage.body = std::move(body);
    stage.anonymous = anonymous;
    b_.stages.push_back(std::move(stage));
    return b_.stages.back().tensor;
  }

  // The box that a left side covers exactly once: per axis a mixed-radix number of indices of its own. Empty if it does
  // not.
  std::optional<Shape> shape_of_left_side(const std::vector<Affine>& lhs) const {
    Shape shape;
    std::vector<int> seen;
    for (const Affine& form : lhs) {
      std::vector<Affine::Term> digits;
      int64_t lowest = form.constant;
      for (const auto& term : form.terms) {
        if (term.atom.kind != Affine::Atom::Kind::kIndex) return std::nullopt;
        if (std::find(seen.begin(), seen.end(), term.atom.index) != seen.end()) return std::nullopt;
        seen.push_back(term.atom.index);
        const int64_t extent = b_.indices[term.atom.index].extent;
        if (term.coefficient < 0) lowest += term.coefficient * (extent - 1);
        if (extent != 1) digits.push_back(term);
      }
      const bool empty = std::any_of(digits.begin(), digits.end(),
                                     [&](const auto& t) { return b_.indices[t.atom.index].extent == 0; });
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
        radix *= b_.indices[term.atom.index].extent;
      }
      shape.push_back(radix);
    }
    return shape;
  }

  void mark_splittable() {
    std::vector<bool> used(b_.indices.size(), false), opaque(b_.indices.size(), false);
    std::function<void(const Expr&)> walk = [&](const Expr& e) {
      if (e.kind == ExprKind::kOpaque) {
        std::vector<int> result;
        for (const Affine& a : e.subscripts) collect_indices(a, result);
        for (int i : result) opaque[i] = true;
      }
      for (const Expr& a : e.args) walk(a);
    };
    for (const Stage& stage : b_.stages) {
      std::vector<int> indices = stage.body.reduced;
      for (const Affine& a : stage.lhs) collect_indices(a, indices);
      for (int i : indices) used[i] = true;
      walk(stage.body);
    }
    for (size_t i = 0; i < used.size(); ++i) b_.indices[i].splittable = used[i] && !opaque[i];
  }

  const Definition& d_;
  const std::vector<Shape>& shapes_;
  const Attributes& attributes_;
  Bound b_;
  std::vector<const Syntax*> reads_;  // of operands, in the order of the text
  std::vector<const Syntax*> opaques_;
  std::map<std::string, int> ranks_;  // of groups
  std::set<std::string> declared_;    // indices that `where` fixes
  int hoisted_ = 0;
};

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
  return Binder(*definition, shapes, attributes).bind();
}

Bound bind(std::string_view text, const std::vector<Shape>& shapes, const Attributes& attributes) {
  return tdl::bind(parse(text), shapes, attributes);
}

}  // namespace partita::tdl
