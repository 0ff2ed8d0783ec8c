// Runs a kernel's stages on shares instead of numbers.
#include "partita/physical/share_kernel.h"

#include <algorithm>
#include <set>

#include "partita/tdl/affine.h"
#include "partita/tdl/functions.h"

namespace partita::shares {
namespace {

// One firing of a kernel under way.
struct KernelRun {
  const Task& task;
  const tdl::Bound& bound;
  const std::vector<Interval>& ranges;
  const Refuse& refuse;
  std::vector<Patches> held;            // by tensor
  int stage = 0;                        // the one that runs
  std::vector<std::set<int64_t>> cuts;  // by index: cells of the iteration space lie between them
  std::vector<Interval> cell;           // by index
  uint64_t number = 0;                  // subexpressions that were met, in one fixed order
};

const tdl::Stage& stage(const KernelRun& run) { return run.bound.stages[run.stage]; }

// ---------------------------------------------------------------- cells

void cut_everywhere(KernelRun& run, int index) {
  for (int64_t x = run.ranges[index].lo + 1; x < run.ranges[index].hi; ++x) run.cuts[index].insert(x);
}

void cut_at(KernelRun& run, const tdl::Expr& e) {
  if (is_uniform(run.held[e.tensor])) return;
  for (std::size_t a = 0; a < e.subscripts.size(); ++a) {
    std::set<int64_t> edges;
    for (const Patch& p : run.held[e.tensor]) edges.insert({p.box[a].lo, p.box[a].hi});
    if (edges.size() <= 2 || (!e.whole.empty() && e.whole[a])) continue;
    if (const int i = e.subscripts[a].plain_index(); i >= 0) {
      for (int64_t x : edges)
        if (run.ranges[i].lo < x && x < run.ranges[i].hi) run.cuts[i].insert(x);
    } else {
      std::vector<int> used;
      tdl::collect_indices(e.subscripts[a], used);
      for (int i : used) cut_everywhere(run, i);
    }
  }
}

// Visits every choice of one interval between cuts for these indices, in run.cell.
template <typename F>
void each_cell(KernelRun& run, const std::vector<int>& indices, F&& f, std::size_t at = 0) {
  if (at == indices.size()) return f();
  const int i = indices[at];
  int64_t lo = run.ranges[i].lo;
  for (int64_t cut : run.cuts[i]) {
    run.cell[i] = {lo, cut};
    each_cell(run, indices, f, at + 1);
    lo = cut;
  }
  run.cell[i] = {lo, run.ranges[i].hi};
  each_cell(run, indices, f, at + 1);
  run.cell[i] = run.ranges[i];
}

// ---------------------------------------------------------------- random weights

uint64_t drawn(const KernelRun& run, uint64_t what, uint64_t a, uint64_t b) {
  return hash_of({static_cast<uint64_t>(run.task.op.value), static_cast<uint64_t>(run.stage), what, a, b});
}
// A random measure on an index: 1 on all of it, even of an index without values.
uint64_t measure(const KernelRun& run, int index, Interval part) {
  if (run.bound.indices[index].extent == 0) return 1;
  const auto below = [&](int64_t x) {
    return x <= 0 ? 0
           : x >= run.bound.indices[index].extent
               ? 1
               : drawn(run, 0, static_cast<uint64_t>(index), static_cast<uint64_t>(x));
  };
  return subtract_mod_prime(below(part.hi), below(part.lo));
}
// The terms whose place on an index lies in `part`. Every place is some term's, or one in 64 of them.
uint64_t terms_in(const KernelRun& run, int index, Interval part) {
  if (run.bound.indices[index].extent == 0) return kAllTerms;
  const uint64_t factor = 2 * drawn(run, 2, static_cast<uint64_t>(index), 0) + 1,
                 shift = drawn(run, 3, static_cast<uint64_t>(index), 0);
  uint64_t terms = 0;
  for (uint64_t term = 0; term < 64; ++term) {
    const int64_t place = static_cast<int64_t>((term * factor + shift) % 64) * run.bound.indices[index].extent / 64;
    if (part.lo <= place && place < part.hi) terms |= uint64_t{1} << term;
  }
  return terms;
}
// A random mean of the two sides of subexpression `number`.
Share mean(const KernelRun& run, uint64_t number, const Share& x, const Share& y, tdl::Kind kind) {
  const uint64_t part = drawn(run, 1, number, 0);
  if (is_extremal(kind)) return share_of((x.terms() & part) | (y.terms() & ~part), kind);
  return share_of(
      add_mod_prime(multiply_mod_prime(part, x.weight), multiply_mod_prime(subtract_mod_prime(1, part), y.weight)),
      kind);
}

// ---------------------------------------------------------------- expressions

// The share at the cell's first point; outside of the held boxes, that of the nearest element.
Share at(const KernelRun& run, const tdl::Expr& read) {
  const Patches& held = run.held[read.tensor];
  if (held.empty()) return kUnknown;
  if (is_uniform(held)) return held[0].share;
  std::vector<Interval> corner = run.cell;
  for (Interval& i : corner) i.hi = i.lo + 1;
  Box all = held[0].box;
  for (const Patch& p : held) all = hull(all, p.box);
  for (std::size_t a = 0; a < all.size(); ++a) {
    int64_t x = all[a].lo;
    if (read.whole.empty() || !read.whole[a])
      x = std::clamp(tdl::range_of(read.subscripts[a], corner).lo, all[a].lo, all[a].hi - 1);
    all[a] = {x, x + 1};
  }
  for (const Patch& p : held)
    if (contains(p.box, all)) return p.share;
  return kUnknown;
}

// Refuses a share that is not whole, and names the first tensor that is read and not whole.
Share need(const KernelRun& run, const Share& share, const tdl::Expr& e) {
  if (share.known && share.kind)
    tdl::for_each_read(e, [&](const tdl::Expr& read) {
      if (!at(run, read).whole()) run.refuse(read.tensor);
    });
  return share.known ? Share() : share;
}

bool is_number(const tdl::Expr& e) { return e.kind == tdl::ExprKind::kNumber; }
bool is_identity(const tdl::Expr& e, tdl::Kind kind) {
  return is_number(e) && e.number == tdl::identity_of(kind.value_or(tdl::Reducer::kSum));
}

tdl::Kind flipped(tdl::Kind k) {
  return k == tdl::Reducer::kMax   ? tdl::Kind(tdl::Reducer::kMin)
         : k == tdl::Reducer::kMin ? tdl::Kind(tdl::Reducer::kMax)
                                   : k;
}

Share binary(KernelRun& run, const tdl::Expr& e);
Share choice(KernelRun& run, const tdl::Expr& e);

// Computes the share of an expression over partial values (docs/inside/TDL.md rules 11 to 16).
Share value(KernelRun& run, const tdl::Expr& e) {
  ++run.number;
  switch (e.kind) {
    case tdl::ExprKind::kRead:
      return at(run, e);
    case tdl::ExprKind::kUnary: {
      const Share x = value(run, e.args[0]);
      if (!x.known || x.whole() || e.function == "stop") return x;
      if (e.function == "neg" && x.kind != tdl::Reducer::kProd) return share_of(x.weight, flipped(x.kind));
      return tdl::is_monotone(e.function) && is_extremal(x.kind) ? x : need(run, x, e.args[0]);
    }
    case tdl::ExprKind::kBinary:
      return binary(run, e);
    case tdl::ExprKind::kIf: {
      need(run, value(run, e.args[0]), e.args[0]);
      return choice(run, e);
    }
    default: {
      bool known = true;
      for (const tdl::Expr& arg : e.args) known &= need(run, value(run, arg), arg).known;
      return known ? Share() : kUnknown;
    }
  }
}

Share binary(KernelRun& run, const tdl::Expr& e) {
  const uint64_t number = run.number;
  const tdl::Expr &ex = e.args[0], &ey = e.args[1];
  Share x = value(run, ex), y = value(run, ey);
  if (!x.known || !y.known) return kUnknown;
  if (x.whole() && y.whole()) return x;
  const std::string& op = e.function;
  const tdl::Kind kind = x.kind ? x.kind : y.kind;
  const bool alike = !x.kind || !y.kind || x.kind == y.kind;
  if (op == "+" || op == "-") {
    if (kind == tdl::Reducer::kSum && alike)
      return is_identity(ey, kind) ? x : is_identity(ex, kind) ? y : mean(run, number, x, y, kind);
    if (is_extremal(x.kind) && y.whole()) return x;
    if (is_extremal(y.kind) && x.whole()) return op == "+" ? y : share_of(y.weight, flipped(y.kind));
  }
  if (op == "*") {
    if (kind == tdl::Reducer::kSum && alike) return share_of(multiply_mod_prime(x.weight, y.weight), kind);
    if (kind == tdl::Reducer::kProd && alike)
      return is_identity(ey, kind) ? x : is_identity(ex, kind) ? y : mean(run, number, x, y, kind);
    if (is_extremal(x.kind) && is_number(ey)) return share_of(x.weight, ey.number < 0 ? flipped(x.kind) : x.kind);
    if (is_extremal(y.kind) && is_number(ex)) return share_of(y.weight, ex.number < 0 ? flipped(y.kind) : y.kind);
  }
  if (op == "/") {
    if (x.kind == tdl::Reducer::kSum && y.whole()) return x;
    if (is_extremal(x.kind) && is_number(ey)) return share_of(x.weight, ey.number < 0 ? flipped(x.kind) : x.kind);
  }
  if (op == "max" || op == "min") {
    const tdl::Kind own = op == "max" ? tdl::Reducer::kMax : tdl::Reducer::kMin;
    if ((!x.kind || x.kind == own) && (!y.kind || y.kind == own))
      return y.whole() ? x : x.whole() ? y : mean(run, number, x, y, own);
  }
  need(run, y, ey);
  return need(run, x, ex);
}

Share choice(KernelRun& run, const tdl::Expr& e) {
  const uint64_t number = run.number;
  const tdl::Expr &ex = e.args[1], &ey = e.args[2];
  const Share x = value(run, ex), y = value(run, ey);
  if (!x.known || !y.known) return kUnknown;
  const tdl::Kind kind = x.kind ? x.kind : y.kind;
  if (is_identity(ey, kind)) return x;
  if (is_identity(ex, kind)) return y;
  if (x == y) return x;
  if (is_extremal(kind)) return !y.kind ? x : !x.kind ? y : mean(run, number, x, y, kind);
  if (x.kind && y.kind && x.kind != y.kind) {
    need(run, x, ex);
    return need(run, y, ey);
  }
  return mean(run, number, x, y, kind);
}

Share root(KernelRun& run) {
  const tdl::Expr& body = stage(run).body;
  if (body.kind != tdl::ExprKind::kReduce) {
    run.number = 0;
    return value(run, body);
  }
  if (std::any_of(body.reduced.begin(), body.reduced.end(),
                  [&](int i) { return run.ranges[i].empty() && run.bound.indices[i].extent > 0; }))
    return share_of(0, body.reducer);
  const bool extremal = is_extremal(body.reducer);
  uint64_t weight = 0;
  bool known = true;
  each_cell(run, body.reduced, [&] {
    run.number = 0;
    Share share = value(run, body.args[0]);
    if (share.kind && share.kind != body.reducer) share = need(run, share, body.args[0]);
    known &= share.known;
    uint64_t part = extremal ? share.terms() : share.weight;
    for (int i : body.reduced)
      part = extremal ? part & terms_in(run, i, run.cell[i]) : multiply_mod_prime(part, measure(run, i, run.cell[i]));
    weight = extremal ? weight | part : add_mod_prime(weight, part);
  });
  return known ? share_of(weight, body.reducer) : kUnknown;
}

// Cuts the iteration space into cells in which every read has one share.
Patches stage_patches(KernelRun& run) {
  std::vector<int> left;
  for (const tdl::Affine& form : stage(run).lhs) tdl::collect_indices(form, left);
  if (std::any_of(left.begin(), left.end(), [&](int i) { return run.ranges[i].empty(); })) return {};
  run.cuts.assign(run.ranges.size(), {});
  tdl::for_each_read(stage(run).body, [&](const tdl::Expr& read) { cut_at(run, read); });
  for (const tdl::Affine& form : stage(run).lhs) {
    std::vector<int> used;
    tdl::collect_indices(form, used);
    if (form.plain_index() < 0 && std::any_of(used.begin(), used.end(), [&](int i) { return !run.cuts[i].empty(); }))
      for (int i : used) cut_everywhere(run, i);
  }
  Patches made;
  run.cell = run.ranges;
  each_cell(run, left, [&] {
    const Share share = root(run);
    Box box;
    for (const tdl::Affine& form : stage(run).lhs) box.push_back(tdl::range_of(form, run.cell));
    made.push_back({std::move(box), share});
  });
  return joined(std::move(made));
}

}  // namespace

std::vector<Patches> made_by_kernel(const Task& task, const KernelWork& work, int firing, std::vector<Patches> held,
                                    const Refuse& refuse) {
  KernelRun run{task, *work.bound, work.ranges[work.ranges.size() == 1 ? 0 : static_cast<std::size_t>(firing)], refuse,
                std::move(held)};
  for (run.stage = work.first_stage; run.stage < work.last_stage; ++run.stage)
    run.held[stage(run).tensor] = stage_patches(run);
  return std::move(run.held);
}

}  // namespace partita::shares
