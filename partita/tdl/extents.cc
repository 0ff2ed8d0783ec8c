// Fixes how many axes each group has, and the extent of every index (the first phase of binding).
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "partita/base/error.h"
#include "partita/tdl/binding.h"
#include "partita/tdl/make_expr.h"

namespace partita::tdl {
namespace {

using Kind = Syntax::Kind;

class Extents {
 public:
  explicit Extents(Binding& binding) : b_(binding) {}

  void fix() {
    for (const auto& stage : b_.definition.stages) {
      for (const Syntax& s : stage.lhs) collect_reads(s);
      collect_reads(stage.body);
    }
    refuse_products();
    fix_ranks();
    fix_group_extents();
    fix_where();
    fix_plain_extents();
  }

 private:
  void collect_reads(const Syntax& s) {
    if (s.kind == Kind::kAccess && b_.operand(s.name) >= 0) reads_.push_back(&s);
    if (s.kind == Kind::kOpaque) opaques_.push_back(&s);
    for (const Syntax& a : s.args) collect_reads(a);
  }

  void fix_ranks() {
    for (const auto& [name, value] : b_.attributes) {
      if (!name.starts_with("..")) continue;
      if (value < 0 || value > 64 || value != std::floor(value))
        fail("{}: the rank of {} is {}", b_.definition.name, name, value);
      b_.ranks[name.substr(2)] = static_cast<int>(value);
    }
    const std::set<std::string> fixed = [&] {
      std::set<std::string> names;
      for (const auto& [name, rank] : b_.ranks) names.insert(name);
      return names;
    }();
    // Takes the largest rank that an operand with exactly one unknown group gives, then the same for groups still
    // unknown.
    std::set<std::string> known = fixed;
    for (bool progress = true; progress;) {
      progress = false;
      std::map<std::string, int> found;
      for (const Syntax* read : reads_) {
        const Shape& shape = b_.shapes[b_.operand(read->name)];
        const std::vector<std::string> groups = groups_of(*read);
        int free = static_cast<int>(shape.size()) - static_cast<int>(read->args.size() - groups.size());
        std::vector<std::string> unknown;
        for (const std::string& g : groups) {
          if (known.contains(g)) free -= b_.ranks[g];
          else unknown.push_back(g);
        }
        if (unknown.size() != 1 || free < 0) continue;
        auto [it, fresh] = found.emplace(unknown[0], free);
        it->second = std::max(it->second, free);
      }
      for (const auto& [name, rank] : found) {
        b_.ranks[name] = rank;
        known.insert(name);
        progress = true;
      }
    }
    for (const Syntax* read : reads_) {
      const Shape& shape = b_.shapes[b_.operand(read->name)];
      for (const Syntax& s : read->args)
        if (s.kind == Kind::kGroup && !b_.ranks.contains(s.name))
          b_.error(s.at, fmt::format("nothing fixes how many axes ..{} has: give the attribute ..{}", s.name, s.name));
      if (groups_of(*read).empty() && shape.size() != read->args.size())
        b_.error(read->at,
                 fmt::format("{} has {}, and is read with {}", read->name, axes_text(shape.size()), read->args.size()));
      b_.group_widths(*read, shape);
    }
  }

  void fix_group_extents() {
    std::map<std::string, Shape> extents;
    std::vector<std::string> order;
    for (const Syntax* read : reads_) {
      const Shape& shape = b_.shapes[b_.operand(read->name)];
      const std::vector<int> widths = b_.group_widths(*read, shape);
      size_t axis = 0, group = 0;
      for (const Syntax& s : read->args) {
        if (s.kind != Kind::kGroup) {
          ++axis;
          continue;
        }
        const int rank = b_.ranks.at(s.name), width = widths[group++];
        auto [it, fresh] = extents.emplace(s.name, Shape(rank, 1));
        if (fresh) order.push_back(s.name);
        for (int q = 0; q < width; ++q, ++axis) {
          int64_t& extent = it->second[rank - width + q];
          if (shape[axis] == 1) continue;
          if (extent != 1 && extent != shape[axis])
            b_.error(s.at, fmt::format("{} has extent {} where another operand has {}: ..{} can't be broadcast",
                                       read->name, shape[axis], extent, s.name));
          extent = shape[axis];
        }
      }
    }
    for (const std::string& g : order)
      for (size_t q = 0; q < extents[g].size(); ++q) add_index(fmt::format("{}.{}", g, q), extents[g][q]);
  }

  // Refuses a product of indices in a subscript, recognised by names that can only be indices. It runs before extents
  // are sought: such a subscript fixes none, and that would be the lesser complaint.
  void refuse_products() const {
    std::set<std::string> indices;
    const std::function<void(const Syntax&)> under_reducers = [&](const Syntax& s) {
      if (s.kind == Kind::kReduce)
        for (const Syntax& name : s.names) indices.insert(name.name);
      for (const Syntax& arg : s.args) under_reducers(arg);
    };
    for (const auto& extent : b_.definition.where) indices.insert(extent.index);
    for (const auto& stage : b_.definition.stages) {
      for (const Syntax& s : stage.lhs)
        if (s.kind == Kind::kName) indices.insert(s.name);
      under_reducers(stage.body);
    }
    const std::function<bool(const Syntax&)> has_index = [&](const Syntax& s) {
      if (s.kind == Kind::kCall && s.name == "ext") return false;  // an extent: a constant
      return (s.kind == Kind::kName && indices.contains(s.name) && !b_.attributes.contains(s.name)) ||
             std::any_of(s.args.begin(), s.args.end(), has_index);
    };
    const std::function<void(const Syntax&)> look = [&](const Syntax& s) {
      if (s.kind == Kind::kBinary && s.name == "*" && has_index(s.args[0]) && has_index(s.args[1]))
        b_.error(s.at, "a product of two indices");
      for (const Syntax& arg : s.args) look(arg);
    };
    for (const Syntax* read : reads_)
      for (const Syntax& s : read->args)
        if (!reads_data(s)) look(s);
  }

  void fix_where() {
    for (const auto& extent : b_.definition.where) {
      if (b_.attributes.contains(extent.index))
        b_.error(extent.at, fmt::format("{} is an attribute, so it can't be an index", extent.index));
      if (b_.index(extent.index) >= 0) {
        // An index of a group: `where` may repeat the operands' extent, and the one they broadcast to.
        Index& index = b_.bound.indices[b_.index(extent.index)];
        const double value = constant(extent.value);
        if (declared_.contains(extent.index) || value != static_cast<double>(index.extent))
          b_.error(extent.at, fmt::format("the extent of {} is {} and {}", extent.index, index.extent, value));
        declared_.insert(extent.index);
        continue;
      }
      const double value = constant(extent.value);
      if (value != std::floor(value) || value < 0 || value > static_cast<double>(kLargestExtent))
        b_.error(extent.value.at, fmt::format("the extent of {} is {}", extent.index, value));
      add_index(extent.index, static_cast<int64_t>(value));
      declared_.insert(extent.index);
    }
  }

  // The (subscript, extent of its axis) pairs of a read, without groups.
  std::vector<std::pair<const Syntax*, int64_t>> single_axes(const Syntax& read) const {
    const Shape& shape = b_.shapes[b_.operand(read.name)];
    const std::vector<int> widths = b_.group_widths(read, shape);
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
    const int known = b_.index(name);
    if (known < 0) add_index(name, extent);
    else if (b_.bound.indices[known].extent != extent)
      b_.error(at, fmt::format("the extent of {} is {} elsewhere, and {} here ({})", name,
                               b_.bound.indices[known].extent, extent, tensor));
  }

  void fix_plain_extents() {
    for (const Syntax* read : reads_)
      for (auto [s, extent] : single_axes(*read))
        if (s->kind == Kind::kName && !b_.attributes.contains(s->name)) set_extent(s->name, extent, s->at, read->name);
    for (const Syntax* read : reads_)
      for (auto [s, extent] : single_axes(*read))
        if (s->kind == Kind::kNamed) {
          if (b_.attributes.contains(s->name))
            b_.error(s->at, fmt::format("{} is an attribute, so it can't be an index", s->name));
          set_extent(s->name, extent, s->at, read->name);
        }
    // An opaque's result has the extents of its first slice's whole axes, unless something else says otherwise.
    for (const Syntax* opaque : opaques_) {
      if (opaque->args.empty() || b_.operand(opaque->args[0].name) < 0) continue;
      std::vector<int64_t> whole;
      for (auto [s, extent] : single_axes(opaque->args[0]))
        if (s->kind == Kind::kWhole) whole.push_back(extent);
      if (whole.size() != opaque->names.size()) continue;
      for (size_t i = 0; i < whole.size(); ++i) {
        const Syntax& s = opaque->names[i];
        if (s.kind == Kind::kName && !b_.attributes.contains(s.name) && b_.index(s.name) < 0)
          add_index(s.name, whole[i]);
      }
    }
  }

  int add_index(const std::string& name, int64_t extent) {
    b_.bound.indices.push_back({name, extent, true});
    return static_cast<int>(b_.bound.indices.size()) - 1;
  }

  double constant(const Syntax& s) {
    const Expr e = convert_expression(b_, s);
    if (!is_number(e))
      b_.error(s.at, "an extent must be a constant: made of numbers, attributes, and extents of operands");
    return e.number;
  }

  Binding& b_;
  std::vector<const Syntax*> reads_;  // of operands, in the order of the text
  std::vector<const Syntax*> opaques_;
  std::set<std::string> declared_;  // indices that `where` fixes
};

}  // namespace

void fix_extents(Binding& b) { Extents(b).fix(); }

}  // namespace partita::tdl
