// Lays tensors out over devices as real arrays, for tests, and runs a conversion's steps on them in the plainest way. A
// device sees only the data that its step gives it.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/sharding/boxing.h"

namespace partita::testing {

// shards[r] is position r's box, dense, row-major over the factored axes.
struct Sharded {
  Layout layout;
  std::vector<std::vector<double>> shards;
};

inline double combine(tdl::Reducer reducer, double a, double b) {
  switch (reducer) {
    case tdl::Reducer::kSum:
      return a + b;
    case tdl::Reducer::kMax:
      return std::max(a, b);
    case tdl::Reducer::kMin:
      return std::min(a, b);
    case tdl::Reducer::kProd:
      return a * b;
  }
  return a;
}

// Calls visit(global row-major number) for each element of a box in a tensor of that (factored) shape, in order. The
// number is the same over every factoring of a tensor.
template <typename Visit>
void for_each_element(const Box& box, const Shape& shape, Visit visit) {
  if (is_empty(box)) return;
  std::vector<int64_t> at;
  for (const Interval& i : box) at.push_back(i.lo);
  for (;;) {
    int64_t number = 0;
    for (size_t a = 0; a < shape.size(); ++a) number = number * shape[a] + at[a];
    visit(number);
    size_t a = shape.size();
    while (a > 0 && ++at[a - 1] == box[a - 1].hi) --a, at[a] = box[a].lo;
    if (a == 0) return;
  }
}

// The element's place in a position's shard, or nothing if it is not there.
inline std::optional<int64_t> offset_in(const Layout& layout, int position, int64_t number) {
  Shape shape = layout.factored_shape();
  const Box& box = layout.boxes[position];
  int64_t offset = 0, stride = 1;
  for (size_t a = shape.size(); a-- > 0; number /= shape[a]) {
    int64_t digit = number % shape[a];
    if (digit < box[a].lo || digit >= box[a].hi) return std::nullopt;
    offset += (digit - box[a].lo) * stride;
    stride *= box[a].size();
  }
  return offset;
}

// The position's coordinates on the partial axes, which say which part of the values it holds.
inline std::vector<int> part_of(const Layout& layout, int position) {
  std::vector<int> c = layout.mesh.coordinates(position), part;
  for (size_t a = 0; a < c.size(); ++a)
    if (layout.kinds[a]) part.push_back(c[a]);
  return part;
}

// Lays out a whole tensor. Partial values are a random decomposition of it, of both signs, the same in all replicas.
inline Sharded scatter(const std::vector<double>& whole, const Layout& layout, Rng& rng) {
  Sharded s{layout, {}};
  std::set<std::vector<int>> parts;
  for (int p = 0; p < layout.mesh.positions(); ++p) parts.insert(part_of(layout, p));
  std::map<std::vector<int>, std::vector<double>> values;
  for (const auto& part : parts) values[part].resize(whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    if (parts.size() == 1) {
      values.begin()->second[i] = whole[i];
      continue;
    }
    tdl::Reducer reducer = layout.reducer();
    bool extremum = reducer == tdl::Reducer::kMax || reducer == tdl::Reducer::kMin;
    size_t winner = rng.below(parts.size()), n = 0;
    double rest = tdl::identity_of(reducer);
    for (auto& [part, array] : values) {
      if (n++ == winner) continue;
      double v = reducer == tdl::Reducer::kSum ? 3 * rng.normal()
                 : reducer == tdl::Reducer::kProd
                     ? (rng.below(2) ? 1 : -1) * (0.5 + rng.uniform())
                     : whole[i] + (reducer == tdl::Reducer::kMax ? -1 : 1) * 3 * rng.uniform();
      array[i] = v;
      rest = combine(reducer, rest, v);
    }
    auto it = values.begin();
    std::advance(it, winner);
    it->second[i] = extremum ? whole[i] : reducer == tdl::Reducer::kSum ? whole[i] - rest : whole[i] / rest;
  }
  for (int p = 0; p < layout.mesh.positions(); ++p) {
    std::vector<double> shard;
    const std::vector<double>& source = values.at(part_of(layout, p));
    for_each_element(layout.boxes[p], layout.factored_shape(), [&](int64_t i) { shard.push_back(source[i]); });
    s.shards.push_back(std::move(shard));
  }
  return s;
}

// Puts the tensor together again, as each replica sees it: every element combines one value from each part. All holders
// of a part must agree on it. Our bug, with place and values, if they do not.
inline std::vector<double> gather(const Sharded& s) {
  int64_t n = volume(s.layout.factored_shape());
  std::map<std::vector<int>, std::vector<std::optional<double>>> parts;
  for (int p = 0; p < s.layout.mesh.positions(); ++p) {
    auto& part = parts.try_emplace(part_of(s.layout, p), n).first->second;
    size_t at = 0;
    for_each_element(s.layout.boxes[p], s.layout.factored_shape(), [&](int64_t i) {
      double v = s.shards[p][at++];
      double known = part[i].value_or(v);
      ensure(known == v || std::abs(known - v) <= 1e-9 * (1 + std::abs(v)),
             "element {} is {} in one replica and {} at position {}", i, known, v, p);
      part[i] = v;
    });
    ensure(at == s.shards[p].size(), "position {} has {} elements, its box {}", p, s.shards[p].size(), at);
  }
  std::vector<double> whole;
  for (int64_t i = 0; i < n; ++i) {
    std::optional<double> v;
    for (const auto& [part, values] : parts)
      if (values[i]) v = v ? combine(s.layout.reducer(), *v, *values[i]) : *values[i];
    ensure(v.has_value(), "element {} of {} is nowhere", i, to_string(s.layout));
    whole.push_back(*v);
  }
  return whole;
}

// Runs the step on the arrays.
inline Sharded execute(const Step& step, const Sharded& in) {
  const Layout& from = step.from;
  const Layout& to = step.to;
  Sharded out{to, {}};
  for (int p = 0; p < to.mesh.positions(); ++p)
    out.shards.emplace_back(volume(to.boxes[p]), to.is_partial() ? tdl::identity_of(to.reducer())
                                                                 : std::numeric_limits<double>::quiet_NaN());
  // A position takes an element from another, or combines it with what it took before.
  std::vector<std::set<int64_t>> taken(to.mesh.positions());
  auto take = [&](int source, int target, int64_t number) {
    auto a = offset_in(from, source, number), b = offset_in(to, target, number);
    ensure(a && b, "{}: element {} goes from position {} to {}, which do not both have it", name_of(step.kind), number,
           source, target);
    double& value = out.shards[target][*b];
    value =
        taken[target].insert(*b).second ? in.shards[source][*a] : combine(from.reducer(), value, in.shards[source][*a]);
  };
  if (step.kind == StepKind::kFetch || step.kind == StepKind::kLocal) {
    ensure(step.groups.empty(), "a {} step has groups", name_of(step.kind));
    Shape shape;
    for (const Shape& r : step.radices) shape.insert(shape.end(), r.begin(), r.end());
    for (const Piece& piece : step.pieces) {
      ensure(step.kind == StepKind::kFetch || from.mesh.devices[piece.source] == to.mesh.devices[piece.target],
             "a local step moves data");
      for_each_element(piece.box, shape, [&](int64_t i) { take(piece.source, piece.target, i); });
    }
    return out;
  }
  ensure(step.pieces.empty() && from.mesh == to.mesh, "a collective has pieces, or two meshes");
  std::set<int> seen;
  for (const std::vector<int>& group : step.groups)
    for (int target : group) {
      ensure(seen.insert(target).second, "position {} is in two groups", target);
      for_each_element(to.boxes[target], to.factored_shape(), [&](int64_t i) {
        for (int source : group) {
          if (!offset_in(from, source, i)) continue;
          bool reduces = step.kind == StepKind::kAllReduce || step.kind == StepKind::kReduceScatter;
          ensure(reduces || !taken[target].count(*offset_in(to, target, i)), "{}: element {} is with two of a group",
                 name_of(step.kind), i);
          take(source, target, i);
        }
      });
    }
  ensure(static_cast<int>(seen.size()) == to.mesh.positions(), "{} positions are in no group",
         to.mesh.positions() - static_cast<int>(seen.size()));
  return out;
}

// Shards follow each other from step to step; only their factoring may change between two.
inline Sharded execute(const Conversion& conversion, Sharded value) {
  for (const Step& step : conversion.steps) {
    value.layout = step.from;
    value = execute(step, value);
  }
  value.layout = conversion.to;
  return value;
}

}  // namespace partita::testing
