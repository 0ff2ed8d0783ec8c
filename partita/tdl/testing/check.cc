// Checks a derived strategy by running it position by position.
#include "partita/tdl/testing/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/mutant.h"

namespace partita::tdl::testing {

namespace {

double combine(Reducer r, double a, double b) {
  switch (r) {
    case Reducer::kSum:
      return a + b;
    case Reducer::kProd:
      return a * b;
    case Reducer::kMax:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case Reducer::kMin:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
  }
  return a;
}

int64_t combine(Reducer r, int64_t a, int64_t b) {
  switch (r) {
    case Reducer::kSum:
      return a + b;
    case Reducer::kProd:
      return a * b;
    case Reducer::kMax:
      return std::max(a, b);
    case Reducer::kMin:
      return std::min(a, b);
  }
  return a;
}

// Positions of a mesh are row-major.
struct MeshView {
  std::vector<int> extents;

  int positions() const {
    int n = 1;
    for (int e : extents) n *= e;
    return n;
  }
  int stride(int axis) const {
    int n = 1;
    for (size_t a = axis + 1; a < extents.size(); ++a) n *= extents[a];
    return n;
  }
  int coordinate(int position, int axis) const { return position / stride(axis) % extents[axis]; }
  // The positions that differ from each other along one axis only, for each choice of the rest.
  std::vector<std::vector<int>> groups(int axis) const {
    std::vector<std::vector<int>> result;
    for (int w = 0; w < positions(); ++w) {
      if (coordinate(w, axis) != 0) continue;
      result.emplace_back();
      for (int q = 0; q < extents[axis]; ++q) result.back().push_back(w + q * stride(axis));
    }
    return result;
  }
};

// Makes n arrays that `reducer` combines into `base` again.
std::vector<Array> decompose(const Array& base, Reducer reducer, int n, Rng& rng) {
  std::vector<Array> parts(n, base);
  if (MUTANT("B_as_P")) return parts;
  for (int64_t i = 0; i < volume(base.shape); ++i) {
    int keeps = static_cast<int>(rng.below(n));  // the array that holds the rest, or the extreme
    if (!is_float(base.dtype)) {
      int64_t rest = base.ints[i];
      for (int q = 0; q < n; ++q) {
        if (q == keeps) continue;
        int64_t& v = parts[q].ints[i];
        if (reducer == Reducer::kSum) rest -= v = rng.between(-5, 5);
        if (reducer == Reducer::kMax) v -= rng.between(0, 3);
        if (reducer == Reducer::kMin) v += rng.between(0, 3);
        if (reducer == Reducer::kProd) v = 1;
      }
      parts[keeps].ints[i] = rest;
      continue;
    }
    double rest = base.reals[i];
    for (int q = 0; q < n; ++q) {
      if (q == keeps) continue;
      double& v = parts[q].reals[i];
      if (reducer == Reducer::kSum) rest -= v = rng.normal();
      if (reducer == Reducer::kMax) v -= rng.below(5) < 3 ? rng.uniform() : 0;
      if (reducer == Reducer::kMin) v += rng.below(5) < 3 ? rng.uniform() : 0;
      if (reducer == Reducer::kProd) rest /= v = rng.uniform() + 0.5;
    }
    parts[keeps].reals[i] = rest;
  }
  return parts;
}

// Makes every position's share of one operand: equal copies, or partial values along the axes that say so.
std::vector<Array> operand_parts(const Array& base, const std::vector<Kind>& kinds, const MeshView& mesh, Rng& rng) {
  std::vector<Array> parts(mesh.positions(), base);
  for (size_t a = 0; a < kinds.size(); ++a) {
    if (!kinds[a]) continue;
    // Positions that agree in the coordinates of the axes decomposed so far, and of this one, hold the same value.
    std::map<std::vector<int>, std::vector<Array>> made;
    std::vector<Array> next = parts;
    for (int w = 0; w < mesh.positions(); ++w) {
      std::vector<int> key;
      for (size_t b = 0; b < a; ++b)
        if (kinds[b]) key.push_back(mesh.coordinate(w, static_cast<int>(b)));
      auto it = made.find(key);
      if (it == made.end()) it = made.emplace(key, decompose(parts[w], *kinds[a], mesh.extents[a], rng)).first;
      next[w] = it->second[mesh.coordinate(w, static_cast<int>(a))];
    }
    parts = std::move(next);
  }
  return parts;
}

// Copies the intersection of both pieces from `from` into `into`, and marks it.
void copy_overlap(const Piece& from, Piece& into, std::vector<bool>& filled) {
  Box meet = intersect(from.box, into.box);
  if (is_empty(meet)) return;
  for_each_point(meet, [&](std::span<const int64_t> point) {
    int64_t i = offset_in(into.box, point), j = offset_in(from.box, point);
    if (is_float(into.data.dtype)) into.data.reals[i] = from.data.reals[j];
    else into.data.ints[i] = from.data.ints[j];
    filled[i] = true;
  });
}

Piece blank(DType dtype, const Box& box) {
  Piece piece{box, {dtype, extents(box), {}, {}, {}}};
  if (is_float(dtype)) piece.data.reals.assign(volume(box), NAN);
  else piece.data.ints.assign(volume(box), std::numeric_limits<int64_t>::min() / 2);
  return piece;
}

Box empty_box(size_t rank) { return Box(rank, Interval{0, 0}); }
bool same_box(const Box& a, const Box& b) { return a == b || (is_empty(a) && is_empty(b)); }

// One run: [position][tensor] is the piece that each position holds.
class Run {
 public:
  Run(const Bound& bound, const Derived& derived, const std::vector<Array>& operands, uint64_t seed, double tolerance,
      const StagesRunner& runner)
      : bound_(bound),
        derived_(derived),
        mesh_{derived.mesh},
        tolerance_(tolerance),
        runner_(runner),
        held_(mesh_.positions(), std::vector<Piece>(bound.tensors.size())),
        kinds_(derived.kinds),
        reads_(mesh_.positions()) {
    Rng rng(seed);
    scaled_ = operands;
    for (int t = 0; t < bound.operand_count; ++t) {
      std::vector<Kind> kinds;
      for (const std::vector<Kind>& axis : derived.kinds) kinds.push_back(axis[t]);
      std::vector<Array> parts = operand_parts(operands[t], kinds, mesh_, rng);
      if (is_float(operands[t].dtype)) {  // partial sums are terms of the result
        std::vector<double>& terms = scaled_[t].terms;
        terms.assign(volume(operands[t].shape), 0);
        for (size_t i = 0; i < terms.size(); ++i) {
          terms[i] = std::abs(operands[t].reals[i]);
          for (const Array& part : parts) terms[i] = std::max(terms[i], std::abs(part.reals[i]) * mesh_.positions());
        }
        if (std::none_of(kinds.begin(), kinds.end(), [](Kind k) { return k.has_value(); })) terms.clear();
      }
      for (int w = 0; w < mesh_.positions(); ++w)
        held_[w][t] = piece_of(parts[w], bound.tensors[t].factored, derived.boxes[t][w]);
    }
    for (auto& masks : reads_)
      for (const BoundTensor& tensor : bound.tensors) masks.emplace_back(volume(tensor.factored), false);
  }

  CheckResult result() {
    CheckResult out;
    out.wrong = run();
    if (out.wrong.empty() && !runner_) find_loose(out.loose);
    return out;
  }

 private:
  std::string run() {
    for (const std::vector<Interval> ranges : derived_.ranges)
      for (size_t i = 0; i < ranges.size(); ++i)
        if (std::abs(ranges[i].size() - derived_.ranges[0][i].size()) > 1)
          return fmt::format("parts of index {} differ by more than one", bound_.indices[i].name);
    for (size_t s = 0; s <= bound_.stages.size(); ++s) {
      std::map<int, std::vector<Piece>> fetched;  // tensor -> each position's piece of it, for this stage only
      for (const InnerStep& step : derived_.inner) {
        if (step.before_stage != static_cast<int>(s)) continue;
        std::string wrong = make_whole(step);
        if (wrong.empty() && !step.needed.empty() && !MUTANT("no_fetch")) wrong = fetch(step, fetched);
        if (!wrong.empty()) return wrong;
      }
      if (s == bound_.stages.size()) break;
      if (runner_) {
        const int first = static_cast<int>(s), last = segment_end(first);
        for (int w = 0; w < mesh_.positions(); ++w) {
          std::string wrong = run_stages(first, last, w, fetched);
          if (!wrong.empty()) return wrong;
        }
        s = static_cast<size_t>(last) - 1;
        continue;
      }
      for (int w = 0; w < mesh_.positions(); ++w) {
        std::string wrong = run_stage(static_cast<int>(s), w, fetched);
        if (!wrong.empty()) return wrong;
      }
    }
    return compare();
  }

  // The end of stages that run together: the next inner step. Fetched data serve one stage only.
  int segment_end(int first) const {
    int last = static_cast<int>(bound_.stages.size());
    for (const InnerStep& step : derived_.inner) {
      if (step.before_stage > first) last = std::min(last, step.before_stage);
      else if (step.before_stage == first && !step.needed.empty()) last = first + 1;
    }
    return last;
  }

  static bool reads(const Expr& e, int tensor) {
    if (e.kind == ExprKind::kRead && e.tensor == tensor) return true;
    return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return reads(a, tensor); });
  }

  std::string run_stages(int first, int last, int w, const std::map<int, std::vector<Piece>>& fetched) {
    std::vector<const Piece*> pieces(bound_.tensors.size(), nullptr);
    for (int q = 0; q < static_cast<int>(pieces.size()); ++q) {
      if (bound_.stage_of(q) >= first) continue;
      auto it = fetched.find(q);
      pieces[q] = it == fetched.end() ? &held_[w][q] : &it->second[w];
    }
    std::vector<int> wanted;  // results, and tensors that later stages read
    for (int s = first; s < last; ++s) {
      int t = bound_.stages[s].tensor;
      bool leaves = std::find(bound_.results.begin(), bound_.results.end(), t) != bound_.results.end();
      for (size_t later = last; later < bound_.stages.size(); ++later) leaves |= reads(bound_.stages[later].body, t);
      if (leaves) wanted.push_back(t);
    }
    try {
      std::vector<Piece> made = runner_(first, last, derived_.ranges[w], pieces, wanted);
      for (size_t i = 0; i < wanted.size(); ++i) held_[w][wanted[i]] = std::move(made[i]);
    } catch (const Error& e) {
      return fmt::format("position {}: {}", w, e.what());
    }
    for (int t : wanted)
      if (!same_box(held_[w][t].box, derived_.boxes[t][w]))
        return fmt::format("position {}: owns {} of {}, the strategy says {}", w, to_string(held_[w][t].box),
                           bound_.tensors[t].name, to_string(derived_.boxes[t][w]));
    return "";
  }

  std::string run_stage(int s, int w, const std::map<int, std::vector<Piece>>& fetched) {
    int t = bound_.stages[s].tensor;
    std::vector<const Piece*> pieces(bound_.tensors.size(), nullptr);
    for (int q = 0; q < static_cast<int>(pieces.size()); ++q) {
      int defined = bound_.stage_of(q);
      if (defined >= s) continue;
      auto it = fetched.find(q);
      pieces[q] = it == fetched.end() ? &held_[w][q] : &it->second[w];
    }
    static const OpaqueRegistry kOpaques = standard_opaques();
    Evaluation options{&kOpaques, false, &reads_[w]};
    try {
      held_[w][t] = evaluate_stage(bound_, s, derived_.ranges[w], pieces, options);
    } catch (const Error& e) {
      return fmt::format("position {}: {}", w, e.what());
    }
    if (!same_box(held_[w][t].box, derived_.boxes[t][w]))
      return fmt::format("position {}: owns {} of {}, the strategy says {}", w, to_string(held_[w][t].box),
                         bound_.tensors[t].name, to_string(derived_.boxes[t][w]));
    return "";
  }

  // P -> B over the step's axes (17).
  std::string make_whole(const InnerStep& step) {
    Reducer reducer = MUTANT("conv_wrong_r") ? Reducer::kSum : step.reducer;
    for (int axis : step.axes) {
      if (!kinds_[axis][step.tensor])
        return fmt::format("{} is converted on axis {}, but is whole there", bound_.tensors[step.tensor].name, axis);
      kinds_[axis][step.tensor] = std::nullopt;
      if (MUTANT("no_conversion")) continue;
      for (const std::vector<int>& group : mesh_.groups(axis)) {
        Piece sum = held_[group[0]][step.tensor];
        for (size_t q = 1; q < group.size(); ++q) {
          std::string wrong = add(sum, held_[group[q]][step.tensor], reducer);
          if (!wrong.empty()) return fmt::format("making {} whole: {}", bound_.tensors[step.tensor].name, wrong);
        }
        for (int w : group) held_[w][step.tensor] = sum;
      }
    }
    return "";
  }

  static std::string add(Piece& into, const Piece& from, Reducer reducer) {
    if (!same_box(into.box, from.box))
      return fmt::format("partial values over {} and {}", to_string(into.box), to_string(from.box));
    for (size_t i = 0; i < into.data.reals.size(); ++i)
      into.data.reals[i] = combine(reducer, into.data.reals[i], from.data.reals[i]);
    for (size_t i = 0; i < into.data.ints.size(); ++i)
      into.data.ints[i] = combine(reducer, into.data.ints[i], from.data.ints[i]);
    return "";
  }

  // Does an inner halo (17): each position gets its needed box from its owners, as part of the same partial value.
  std::string fetch(const InnerStep& step, std::map<int, std::vector<Piece>>& fetched) {
    std::vector<Piece> views;
    for (int w = 0; w < mesh_.positions(); ++w) {
      const Piece& own = held_[w][step.tensor];
      const Box& needed = step.needed[w];
      if (is_empty(needed) || contains(own.box, needed)) {
        views.push_back(own);
        continue;
      }
      Piece view = blank(own.data.dtype, needed);
      std::vector<bool> filled(volume(needed), false);
      for (int o = 0; o < mesh_.positions(); ++o) {
        bool same_part = true;
        for (size_t a = 0; a < mesh_.extents.size(); ++a)
          if (kinds_[a][step.tensor] && mesh_.coordinate(o, a) != mesh_.coordinate(w, a)) same_part = false;
        if (same_part) copy_overlap(held_[o][step.tensor], view, filled);
      }
      copy_overlap(own, view, filled);
      if (std::find(filled.begin(), filled.end(), false) != filled.end())
        return fmt::format("position {} needs {} of {}, and nobody has all of it", w, to_string(needed),
                           bound_.tensors[step.tensor].name);
      views.push_back(std::move(view));
    }
    fetched[step.tensor] = std::move(views);
    return "";
  }

  std::string compare() {
    Evaluation options{nullptr, true, nullptr};
    static const OpaqueRegistry kOpaques = standard_opaques();
    options.opaques = &kOpaques;
    std::vector<Array> reference = evaluate(bound_, scaled_, options);
    for (size_t r = 0; r < bound_.results.size(); ++r) {
      int t = bound_.results[r];
      std::vector<Piece> parts;
      for (int w = 0; w < mesh_.positions(); ++w) parts.push_back(held_[w][t]);
      for (size_t a = 0; a < mesh_.extents.size(); ++a) {
        if (mesh_.extents[a] > 1 && derived_.final_kinds[a][t] != kinds_[a][t])
          return fmt::format("{} leaves as another kind on axis {} than its conversions make it",
                             bound_.tensors[t].name, a);
        if (!kinds_[a][t]) continue;
        for (const std::vector<int>& group : mesh_.groups(static_cast<int>(a))) {
          Piece sum = parts[group[0]];
          for (size_t q = 1; q < group.size(); ++q) {
            std::string wrong = add(sum, parts[group[q]], *kinds_[a][t]);
            if (!wrong.empty()) return fmt::format("result {}: {}", bound_.tensors[t].name, wrong);
          }
          for (int w : group) parts[w] = sum;
        }
      }
      const Shape& factored = bound_.tensors[t].factored;
      Array expected = reference[r];
      expected.shape = factored;
      std::vector<bool> covered(volume(factored), false);
      for (int w = 0; w < mesh_.positions(); ++w) {
        for_each_point(parts[w].box,
                       [&](std::span<const int64_t> point) { covered[offset_in(full_box(factored), point)] = true; });
        std::string wrong = difference(parts[w].data, piece_of(expected, factored, parts[w].box).data, tolerance_);
        if (!wrong.empty())
          return fmt::format("result {}, position {}, part {}: {}", bound_.tensors[t].name, w, to_string(parts[w].box),
                             wrong);
      }
      if (std::find(covered.begin(), covered.end(), false) != covered.end())
        return fmt::format("result {} is not covered", bound_.tensors[t].name);
    }
    return "";
  }

  void find_loose(std::vector<Loose>& loose) const {
    for (int w = 0; w < mesh_.positions(); ++w)
      for (int t = 0; t < bound_.operand_count; ++t) {
        const Shape& factored = bound_.tensors[t].factored;
        if (factored.empty()) continue;
        Box read = empty_box(factored.size()), full = full_box(factored);
        for_each_point(full, [&](std::span<const int64_t> point) {
          if (!reads_[w][t][offset_in(full, point)]) return;
          Box here;
          for (int64_t x : point) here.push_back({x, x + 1});
          read = hull(read, here);
        });
        if (!same_box(read, derived_.boxes[t][w])) loose.push_back({w, t, derived_.boxes[t][w], read});
      }
  }

  const Bound& bound_;
  const Derived& derived_;
  MeshView mesh_;
  double tolerance_;
  const StagesRunner& runner_;
  std::vector<Array> scaled_;                          // the operands, their terms those of their partial values
  std::vector<std::vector<Piece>> held_;               // [position][tensor]
  std::vector<std::vector<Kind>> kinds_;               // [mesh axis][tensor], as they are now
  std::vector<std::vector<std::vector<bool>>> reads_;  // [position][tensor][offset]
};

}  // namespace

std::string difference(const Array& got, const Array& expected, double tolerance) {
  if (got.shape != expected.shape) return fmt::format("shape {} instead of {}", got.shape, expected.shape);
  for (int64_t i = 0; i < volume(expected.shape); ++i) {
    double g = got.at(i), e = expected.at(i), terms = expected.term(i);
    if (std::isnan(g) && std::isnan(e)) continue;
    if (g == e) continue;
    if (!std::isfinite(terms)) terms = std::max(1.0, std::abs(e));
    if (std::isfinite(g) && std::isfinite(e) && std::abs(g - e) <= tolerance * terms) continue;
    return fmt::format("element {} is {} instead of {} (sum of absolute terms {})", i, g, e, expected.term(i));
  }
  return "";
}

CheckResult check(const Bound& bound, const Derived& derived, const std::vector<Array>& operands, uint64_t seed,
                  double tolerance, const StagesRunner& runner) {
  ensure(static_cast<int>(operands.size()) == bound.operand_count, "check: {} operands", operands.size());
  return Run(bound, derived, operands, seed, tolerance, runner).result();
}

}  // namespace partita::tdl::testing
