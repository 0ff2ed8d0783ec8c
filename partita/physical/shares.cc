// Every element gets a weight, in the field of 2^61 - 1 elements: a whole value weighs 1, the reducer's identity 0, and
// the terms of a partial value weigh random numbers that add up to 1. A sum over a part of an index weighs what a
// random measure gives to that part; x + y weighs a random mean of the two; x * y their product. Combining adds
// weights. So a value that lacks a term, or counts one twice, weighs 1 by an accident of probability 2^-61 or so, and
// the numbers are a hash: the verdict is the same every time. Under max and min a term may come twice, and a member may
// hold a part of what another holds. There a weight is a set: of 64 terms that are looked at, a bit each, so many that
// one is in any part of an index split in 64. Combining joins the sets.
#include "partita/physical/shares.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/lower.h"
#include "partita/tdl/affine.h"
#include "partita/tdl/functions.h"

namespace partita {
namespace {

// ---------------------------------------------------------------- weights

__extension__ using Wide = unsigned __int128;
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
uint64_t plus(uint64_t a, uint64_t b) { return (a + b) % kPrime; }
uint64_t minus(uint64_t a, uint64_t b) { return (a + kPrime - b) % kPrime; }
uint64_t times(uint64_t a, uint64_t b) { return static_cast<uint64_t>(static_cast<Wide>(a) * b % kPrime); }

// Of a few small numbers: splitmix64, one after another.
uint64_t hashed(std::initializer_list<uint64_t> numbers) {
  uint64_t h = 0x9e3779b97f4a7c15;
  for (uint64_t n : numbers) {
    h += n + 0x9e3779b97f4a7c15;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
    h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
    h ^= h >> 31;
  }
  return h % kPrime;
}

bool is_extremal(tdl::Kind k) { return k == tdl::Reducer::kMax || k == tdl::Reducer::kMin; }
constexpr uint64_t kAllTerms = ~uint64_t{0};

struct Share {
  uint64_t weight = 1;  // under max and min the set of terms
  tdl::Kind kind;       // of what is not whole
  bool known = true;    // not if a task without a formula made it
  bool whole() const { return known && !kind; }
  uint64_t terms() const { return kind ? weight : kAllTerms; }  // under max and min
  bool operator==(const Share&) const = default;
};
const Share kUnknown{1, std::nullopt, false};

Share share_of(uint64_t weight, tdl::Kind kind) {
  if (weight == (is_extremal(kind) ? kAllTerms : 1)) return Share();
  return {weight, kind, true};
}
tdl::Kind flipped(tdl::Kind k) {
  return k == tdl::Reducer::kMax   ? tdl::Kind(tdl::Reducer::kMin)
         : k == tdl::Reducer::kMin ? tdl::Kind(tdl::Reducer::kMax)
                                   : k;
}

// Terms that are combined.
Share combined(const std::vector<Share>& terms, tdl::Reducer reducer) {
  if (std::any_of(terms.begin(), terms.end(), [](const Share& s) { return !s.known; })) return kUnknown;
  uint64_t weight = 0;
  for (const Share& s : terms) weight = is_extremal(reducer) ? weight | s.terms() : plus(weight, s.weight);
  return share_of(weight, reducer);
}

// ---------------------------------------------------------------- shares of boxes

struct Patch {
  Box box;
  Share share;
};
using Patches = std::vector<Patch>;  // disjoint

bool is_uniform(const Patches& patches) {
  return std::all_of(patches.begin(), patches.end(), [&](const Patch& p) { return p.share == patches[0].share; });
}

// Joins those that follow each other along one axis, are alike on all others, and have one share.
void join_along(std::size_t axis, Patches& patches) {
  const auto order = [axis](const Patch& a, const Patch& b) {
    for (std::size_t i = 0; i < a.box.size(); ++i)
      if (i != axis && (a.box[i].lo != b.box[i].lo || a.box[i].hi != b.box[i].hi))
        return std::pair(a.box[i].lo, a.box[i].hi) < std::pair(b.box[i].lo, b.box[i].hi);
    return a.box[axis].lo < b.box[axis].lo;
  };
  const auto joins = [axis](const Patch& a, const Patch& b) {
    for (std::size_t i = 0; i < a.box.size(); ++i)
      if (i == axis ? a.box[i].hi != b.box[i].lo : a.box[i] != b.box[i]) return false;
    return a.share == b.share;
  };
  std::sort(patches.begin(), patches.end(), order);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < patches.size(); ++i) {
    if (joins(patches[kept], patches[i])) patches[kept].box[axis].hi = patches[i].box[axis].hi;
    else if (++kept != i) patches[kept] = std::move(patches[i]);
  }
  patches.resize(kept + 1);
}

// With those joined that make one box: rows of one weight are one, however many, also where each row has several
// weights. Until no axis brings anything.
Patches joined(Patches patches) {
  for (std::size_t before = 0; patches.size() > 1 && patches.size() != before;) {
    before = patches.size();
    for (std::size_t axis = patches[0].box.size(); axis-- > 0 && patches.size() > 1;) join_along(axis, patches);
  }
  return patches;
}

Patches clipped(const Patches& patches, const Box& box) {
  Patches inside;
  for (const Patch& p : patches)
    if (Box meet = intersect(p.box, box); !is_empty(meet)) inside.push_back({std::move(meet), p.share});
  return inside;
}

// Every element of `target`, combined of the terms that have it; `first`: from the first of them.
Patches combined(const Box& target, const std::vector<Patches>& terms, tdl::Reducer reducer, bool first = false) {
  struct Cell {
    Box box;
    std::vector<Share> of;
  };
  if (is_empty(target)) return {};
  std::vector<Cell> cells{{target, {}}};
  for (const Patches& term : terms)
    for (const Patch& patch : term) {
      std::vector<Cell> next;
      for (Cell& cell : cells) {
        Box meet = intersect(cell.box, patch.box);
        if (is_empty(meet)) {
          next.push_back(std::move(cell));
          continue;
        }
        for (Box& rest : subtract(cell.box, patch.box)) next.push_back({std::move(rest), cell.of});
        cell.box = std::move(meet);
        cell.of.push_back(patch.share);
        next.push_back(std::move(cell));
      }
      cells = std::move(next);
    }
  Patches result;
  for (Cell& cell : cells) {
    if (first && cell.of.empty()) continue;
    result.push_back({std::move(cell.box), first ? cell.of[0] : combined(cell.of, reducer)});
  }
  return joined(std::move(result));
}

// The same elements over other axes of the same tensor: row by row they are the same numbers. Axes that come to the
// same number of elements on both sides are looked at by themselves: of [8,1024,768] and [8,1024,12,64] only the last
// ones differ.
Patches over_axes(const Patches& patches, const Shape& from, const Shape& to) {
  if (from == to) return patches;
  struct Piece {
    std::size_t first = 0, last = 0;  // axes of `from`
    Shape from, to;
  };
  std::vector<Piece> pieces;
  for (std::size_t f = 0, t = 0; f < from.size() || t < to.size();) {
    Piece piece{f, f, {}, {}};
    do {  // the next axis of the side that is behind
      const bool of_from = f < from.size() && (t == to.size() || volume(piece.from) <= volume(piece.to));
      of_from ? piece.from.push_back(from[f++]) : piece.to.push_back(to[t++]);
    } while (volume(piece.from) != volume(piece.to) && (f < from.size() || t < to.size()));
    piece.last = f;
    pieces.push_back(std::move(piece));
  }
  Patches result;
  for (const Patch& p : patches) {
    std::vector<Box> boxes{{}};
    for (const Piece& piece : pieces) {
      std::vector<Box> next;
      for (const Box& run : stored_boxes(Box(p.box.begin() + static_cast<std::ptrdiff_t>(piece.first),
                                             p.box.begin() + static_cast<std::ptrdiff_t>(piece.last)),
                                         {piece.from}))
        for (const Box& part : refined_boxes(run, {{volume(piece.from)}}, {piece.to}))
          for (Box box : boxes) {
            box.insert(box.end(), part.begin(), part.end());
            next.push_back(std::move(box));
          }
      boxes = std::move(next);
    }
    for (Box& box : boxes) result.push_back({std::move(box), p.share});
  }
  return joined(std::move(result));
}

// ---------------------------------------------------------------- kernels

// One act of a kernel: the shares of what its stages make.
class Formula {
 public:
  // Called where a tensor must be whole and is not.
  using Refuse = std::function<void(int tensor)>;

  Formula(const Task& task, const KernelWork& work, int act, std::vector<Patches> held, const Refuse& refuse)
      : task_(task),
        bound_(*work.bound),
        ranges_(work.ranges[work.ranges.size() == 1 ? 0 : static_cast<std::size_t>(act)]),
        held_(std::move(held)),
        refuse_(refuse) {
    for (stage_ = work.first_stage; stage_ < work.last_stage; ++stage_) held_[stage().tensor] = run();
  }

  const Patches& made(int tensor) const { return held_[tensor]; }

 private:
  const tdl::Stage& stage() const { return bound_.stages[stage_]; }

  // Cells of the iteration space in which every read has one share.
  Patches run() {
    std::vector<int> left;
    for (const tdl::Affine& form : stage().lhs) tdl::collect_indices(form, left);
    if (std::any_of(left.begin(), left.end(), [&](int i) { return ranges_[i].empty(); })) return {};
    cuts_.assign(ranges_.size(), {});
    tdl::for_each_read(stage().body, [&](const tdl::Expr& read) { cut_at(read); });
    for (const tdl::Affine& form : stage().lhs) {
      std::vector<int> used;
      tdl::collect_indices(form, used);
      if (form.plain_index() < 0 && std::any_of(used.begin(), used.end(), [&](int i) { return !cuts_[i].empty(); }))
        for (int i : used) cut_everywhere(i);
    }
    Patches made;
    cell_ = ranges_;
    each_cell(left, [&] {
      const Share share = root();
      Box box;
      for (const tdl::Affine& form : stage().lhs) box.push_back(tdl::range_of(form, cell_));
      made.push_back({std::move(box), share});
    });
    return joined(std::move(made));
  }

  void cut_everywhere(int index) {
    for (int64_t x = ranges_[index].lo + 1; x < ranges_[index].hi; ++x) cuts_[index].insert(x);
  }

  void cut_at(const tdl::Expr& e) {
    if (is_uniform(held_[e.tensor])) return;
    for (std::size_t a = 0; a < e.subscripts.size(); ++a) {
      std::set<int64_t> edges;
      for (const Patch& p : held_[e.tensor]) edges.insert({p.box[a].lo, p.box[a].hi});
      if (edges.size() <= 2 || (!e.whole.empty() && e.whole[a])) continue;
      if (const int i = e.subscripts[a].plain_index(); i >= 0) {
        for (int64_t x : edges)
          if (ranges_[i].lo < x && x < ranges_[i].hi) cuts_[i].insert(x);
      } else {
        std::vector<int> used;
        tdl::collect_indices(e.subscripts[a], used);
        for (int i : used) cut_everywhere(i);
      }
    }
  }

  // Every choice of one interval between cuts for these indices, in cell_.
  template <typename F>
  void each_cell(const std::vector<int>& indices, F&& f, std::size_t at = 0) {
    if (at == indices.size()) return f();
    const int i = indices[at];
    int64_t lo = ranges_[i].lo;
    for (int64_t cut : cuts_[i]) {
      cell_[i] = {lo, cut};
      each_cell(indices, f, at + 1);
      lo = cut;
    }
    cell_[i] = {lo, ranges_[i].hi};
    each_cell(indices, f, at + 1);
    cell_[i] = ranges_[i];
  }

  uint64_t drawn(uint64_t what, uint64_t a, uint64_t b) const {
    return hashed({static_cast<uint64_t>(task_.op.value), static_cast<uint64_t>(stage_), what, a, b});
  }
  // A random measure on an index: 1 on all of it.
  uint64_t measure(int index, Interval part) const {
    const auto below = [&](int64_t x) {
      return x <= 0                              ? 0
             : x >= bound_.indices[index].extent ? 1
                                                 : drawn(0, static_cast<uint64_t>(index), static_cast<uint64_t>(x));
    };
    return minus(below(part.hi), below(part.lo));
  }
  // The terms whose place on an index lies in the part; every place is some term's, or one in 64 of them.
  uint64_t terms_in(int index, Interval part) const {
    const uint64_t factor = 2 * drawn(2, static_cast<uint64_t>(index), 0) + 1,
                   shift = drawn(3, static_cast<uint64_t>(index), 0);
    uint64_t terms = 0;
    for (uint64_t term = 0; term < 64; ++term) {
      const int64_t place = static_cast<int64_t>((term * factor + shift) % 64) * bound_.indices[index].extent / 64;
      if (part.lo <= place && place < part.hi) terms |= uint64_t{1} << term;
    }
    return terms;
  }
  // Of the two sides of subexpression `number`.
  Share mean(uint64_t number, const Share& x, const Share& y, tdl::Kind kind) const {
    const uint64_t part = drawn(1, number, 0);
    if (is_extremal(kind)) return share_of((x.terms() & part) | (y.terms() & ~part), kind);
    return share_of(plus(times(part, x.weight), times(minus(1, part), y.weight)), kind);
  }

  Share root() {
    const tdl::Expr& body = stage().body;
    if (body.kind != tdl::ExprKind::kReduce) {
      number_ = 0;
      return value(body);
    }
    if (std::any_of(body.reduced.begin(), body.reduced.end(), [&](int i) { return ranges_[i].empty(); }))
      return share_of(0, body.reducer);
    const bool extremal = is_extremal(body.reducer);
    uint64_t weight = 0;
    bool known = true;
    each_cell(body.reduced, [&] {
      number_ = 0;
      Share share = value(body.args[0]);
      if (share.kind && share.kind != body.reducer) share = need(share, body.args[0]);
      known &= share.known;
      uint64_t part = extremal ? share.terms() : share.weight;
      for (int i : body.reduced) part = extremal ? part & terms_in(i, cell_[i]) : times(part, measure(i, cell_[i]));
      weight = extremal ? weight | part : plus(weight, part);
    });
    return known ? share_of(weight, body.reducer) : kUnknown;
  }

  // The first tensor that is read and not whole is to blame.
  Share need(const Share& share, const tdl::Expr& e) const {
    if (share.known && share.kind)
      tdl::for_each_read(e, [&](const tdl::Expr& read) {
        if (!at(read).whole()) refuse_(read.tensor);
      });
    return share.known ? Share() : share;
  }

  // The share at the cell's first point; outside of what is held, that of the nearest element.
  Share at(const tdl::Expr& read) const {
    const Patches& held = held_[read.tensor];
    if (held.empty()) return kUnknown;
    if (is_uniform(held)) return held[0].share;
    std::vector<Interval> corner = cell_;
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

  static bool is_number(const tdl::Expr& e) { return e.kind == tdl::ExprKind::kNumber; }
  static bool is_identity(const tdl::Expr& e, tdl::Kind kind) {
    return is_number(e) && e.number == tdl::identity_of(kind.value_or(tdl::Reducer::kSum));
  }

  // What partial values make (docs/TDL.md rules 11 to 16).
  Share value(const tdl::Expr& e) {
    ++number_;
    switch (e.kind) {
      case tdl::ExprKind::kRead:
        return at(e);
      case tdl::ExprKind::kUnary: {
        const Share x = value(e.args[0]);
        if (!x.known || x.whole() || e.function == "stop") return x;
        if (e.function == "neg" && x.kind != tdl::Reducer::kProd) return share_of(x.weight, flipped(x.kind));
        return tdl::is_monotone(e.function) && is_extremal(x.kind) ? x : need(x, e.args[0]);
      }
      case tdl::ExprKind::kBinary:
        return binary(e);
      case tdl::ExprKind::kIf: {
        need(value(e.args[0]), e.args[0]);
        return choice(e);
      }
      default: {
        bool known = true;
        for (const tdl::Expr& arg : e.args) known &= need(value(arg), arg).known;
        return known ? Share() : kUnknown;
      }
    }
  }

  Share binary(const tdl::Expr& e) {
    const uint64_t number = number_;
    const tdl::Expr &ex = e.args[0], &ey = e.args[1];
    Share x = value(ex), y = value(ey);
    if (!x.known || !y.known) return kUnknown;
    if (x.whole() && y.whole()) return x;
    const std::string& op = e.function;
    const tdl::Kind kind = x.kind ? x.kind : y.kind;
    const bool alike = !x.kind || !y.kind || x.kind == y.kind;
    if (op == "+" || op == "-") {
      if (kind == tdl::Reducer::kSum && alike)
        return is_identity(ey, kind) ? x : is_identity(ex, kind) ? y : mean(number, x, y, kind);
      if (is_extremal(x.kind) && y.whole()) return x;
      if (is_extremal(y.kind) && x.whole()) return op == "+" ? y : share_of(y.weight, flipped(y.kind));
    }
    if (op == "*") {
      if (kind == tdl::Reducer::kSum && alike) return share_of(times(x.weight, y.weight), kind);
      if (kind == tdl::Reducer::kProd && alike)
        return is_identity(ey, kind) ? x : is_identity(ex, kind) ? y : mean(number, x, y, kind);
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
        return y.whole() ? x : x.whole() ? y : mean(number, x, y, own);
    }
    need(y, ey);
    return need(x, ex);
  }

  Share choice(const tdl::Expr& e) {
    const uint64_t number = number_;
    const tdl::Expr &ex = e.args[1], &ey = e.args[2];
    const Share x = value(ex), y = value(ey);
    if (!x.known || !y.known) return kUnknown;
    const tdl::Kind kind = x.kind ? x.kind : y.kind;
    if (is_identity(ey, kind)) return x;
    if (is_identity(ex, kind)) return y;
    if (x == y) return x;
    if (is_extremal(kind)) return !y.kind ? x : !x.kind ? y : mean(number, x, y, kind);
    if (x.kind && y.kind && x.kind != y.kind) {
      need(x, ex);
      return need(y, ey);
    }
    return mean(number, x, y, kind);
  }

  const Task& task_;
  const tdl::Bound& bound_;
  const std::vector<Interval>& ranges_;
  std::vector<Patches> held_;  // by tensor
  const Refuse& refuse_;
  int stage_ = 0;
  std::vector<std::set<int64_t>> cuts_;  // by index
  std::vector<Interval> cell_;           // by index
  uint64_t number_ = 0;                  // subexpressions that were met, in one fixed order
};

// ---------------------------------------------------------------- the graph

class Checker {
 public:
  explicit Checker(const PhysicalGraph& graph) : graph_(graph) {}

  void run() {
    content_.resize(graph_.registers.size());
    for (std::size_t r = 0; r < graph_.registers.size(); ++r)
      content_[r].resize(graph_.registers[r].carried ? 1 : static_cast<std::size_t>(graph_.registers[r].uses));
    writers_.resize(graph_.registers.size());
    std::map<CollectiveId, std::vector<TaskId>> groups;
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      for (const Access& write : graph_.tasks[t].writes) writers_[write.reg.index()].push_back(TaskId(t));
      if (const auto* part = std::get_if<CollectiveWork>(&graph_.tasks[t].work))
        groups[part->collective].push_back(TaskId(t));
      if (combines(graph_.tasks[t]))
        for (const auto* accesses : {&graph_.tasks[t].reads, &graph_.tasks[t].writes})
          for (const Access& access : *accesses)
            if (graph_.reg(access.reg).bytes > 0) combined_.insert(graph_.reg(access.reg).tensor);
    }
    // Units: tasks, and the participants of a collective together. Each after what writes what it reads.
    std::vector<std::vector<TaskId>> units;
    std::vector<int> unit_of(graph_.tasks.size(), -1);
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      if (unit_of[t] >= 0) continue;
      const auto* part = std::get_if<CollectiveWork>(&graph_.tasks[t].work);
      units.push_back(part ? groups[part->collective] : std::vector<TaskId>{TaskId(t)});
      for (TaskId member : units.back()) unit_of[member.index()] = static_cast<int>(units.size()) - 1;
    }
    std::vector<std::vector<int>> after(units.size());
    std::vector<int> missing(units.size(), 0);
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t)
      for (const Access& read : graph_.tasks[t].reads) {
        if (is_whole_before(read)) continue;
        for (TaskId w : writers_[read.reg.index()])
          after[unit_of[w.index()]].push_back(unit_of[t]), ++missing[unit_of[t]];
      }
    std::vector<int> ready;
    for (std::size_t u = units.size(); u-- > 0;)
      if (missing[u] == 0) ready.push_back(static_cast<int>(u));
    while (!ready.empty()) {  // what is left waits for itself, and is admission's to refuse
      const int u = ready.back();
      ready.pop_back();
      act(units[u]);
      for (int next : after[u])
        if (--missing[next] == 0) ready.push_back(next);
    }
  }

 private:
  bool is_whole_before(const Access& read) const {
    const Register& reg = graph_.reg(read.reg);
    return reg.constant || (reg.carried && !read.fresh);
  }

  static bool combines(const Task& task) {
    const auto* collective = std::get_if<CollectiveWork>(&task.work);
    return std::holds_alternative<CombineWork>(task.work) || (collective && collective->partial);
  }

  const Box& part(const Access& access, int act, int use) const {
    if (!access.boxes.empty()) return access.boxes[access.boxes.size() == 1 ? 0 : static_cast<std::size_t>(act)];
    return graph_.reg(access.reg).box(use);
  }

  Patches read(const Task& task, const Access& access, int act) const {
    const Register& reg = graph_.reg(access.reg);
    const UseRange uses = uses_of(reg, task.rate, act, access.fresh);
    if (is_whole_before(access)) {
      const Box& box = part(access, act, 0);
      return is_empty(box) ? Patches{} : Patches{{box, Share()}};
    }
    if (uses.last - uses.first == 1)
      return clipped(content_[access.reg.index()][reg.carried ? 0 : uses.first],
                     part(access, act, reg.carried ? 0 : uses.first));
    Patches all;
    for (int use = uses.first; use < uses.last; ++use)
      for (Patch& p : clipped(content_[access.reg.index()][use], reg.box(use))) all.push_back(std::move(p));
    return all;
  }

  void write(const Task& task, const Access& access, int act, Patches made) {
    const Register& reg = graph_.reg(access.reg);
    const int use = reg.carried ? 0 : uses_of(reg, task.rate, act, true).first;
    const Box& box = part(access, act, use);
    if (is_empty(box)) return;
    if (is_uniform(made)) made = {{box, made.empty() ? kUnknown : made[0].share}};
    if (reg.carried) whole(task, access.reg, made, "writes");
    Patches& held = content_[access.reg.index()][use];
    if (reg.accumulated && act > 0) {
      held = combined(box, {held, made}, tdl::Reducer::kSum);
    } else {
      held.insert(held.end(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
    }
  }

  void act(const std::vector<TaskId>& unit) {
    for (int act = 0; act < graph_.task(unit[0]).rate; ++act) {
      if (std::holds_alternative<CollectiveWork>(graph_.task(unit[0]).work)) {
        collective(unit, act);
        continue;
      }
      const Task& task = graph_.task(unit[0]);
      if (const auto* work = std::get_if<KernelWork>(&task.work)) {
        kernel(task, *work, act);
      } else if (const auto* work = std::get_if<CombineWork>(&task.work)) {
        std::vector<Patches> terms;
        for (const Access& access : task.reads) terms.push_back(read(task, access, act));
        for (std::size_t i = 0; i < terms.size(); ++i) reduced_by(task, task.reads[i].reg, terms[i], work->reducer);
        const Access& to = task.writes[0];
        write(task, to, act, combined(part(to, act, use_written(task, to, act)), terms, work->reducer));
      } else if (std::holds_alternative<CopyWork>(task.work)) {
        const Access& to = task.writes[0];
        const Shape &from_axes = graph_.reg(task.reads[0].reg).axes, &to_axes = graph_.reg(to.reg).axes;
        write(task, to, act, over_axes(read(task, task.reads[0], act), from_axes, to_axes));
      } else if (std::holds_alternative<LoadWork>(task.work)) {
        const Access& to = task.writes[0];
        write(task, to, act, {{part(to, act, use_written(task, to, act)), Share()}});
      } else if (std::holds_alternative<OutputWork>(task.work)) {
        whole(task, task.reads[0].reg, read(task, task.reads[0], act), "gives");
      }
    }
  }

  int use_written(const Task& task, const Access& access, int act) const {
    const Register& reg = graph_.reg(access.reg);
    return reg.carried ? 0 : uses_of(reg, task.rate, act, true).first;
  }

  void collective(const std::vector<TaskId>& unit, int act) {
    std::vector<TaskId> ring = unit;
    const auto rank = [&](TaskId t) { return std::get<CollectiveWork>(graph_.task(t).work).rank; };
    std::sort(ring.begin(), ring.end(), [&](TaskId a, TaskId b) { return rank(a) < rank(b); });
    const auto& work = std::get<CollectiveWork>(graph_.task(ring[0]).work);
    std::vector<Patches> held;
    for (TaskId t : ring) {
      held.push_back(read(graph_.task(t), graph_.task(t).reads[0], act));
      if (work.partial) reduced_by(graph_.task(t), graph_.task(t).reads[0].reg, held.back(), work.reducer);
    }
    for (TaskId t : ring) {
      const Access& to = graph_.task(t).writes[0];
      write(graph_.task(t), to, act,
            combined(part(to, act, use_written(graph_.task(t), to, act)), held, work.reducer, !work.partial));
    }
  }

  void reduced_by(const Task& task, RegisterId from, const Patches& terms, tdl::Reducer reducer) const {
    for (const Patch& p : terms)
      if (p.share.kind && *p.share.kind != reducer)
        fail("task '{}': reduces '{}' by {}, which holds partial values under {}", task.name, graph_.reg(from).name,
             tdl::name_of(reducer), tdl::name_of(*p.share.kind));
  }

  void kernel(const Task& task, const KernelWork& work, int act) {
    if (!work.bound) {
      for (const Access& to : task.writes)
        write(task, to, act, {{part(to, act, use_written(task, to, act)), kUnknown}});
      return;
    }
    std::vector<Patches> held(work.bound->tensors.size());
    bool all_whole = true;
    for (const Access& access : task.reads) {
      Patches patches = read(task, access, act);
      for (const Patch& p : patches) all_whole &= p.share.whole();
      if (!is_uniform(patches))
        patches = over_axes(patches, graph_.reg(access.reg).axes, work.bound->tensors[access.tensor].factored);
      if (patches.empty() && is_never_partial(graph_.reg(access.reg).tensor))
        patches = {{Box(work.bound->tensors[access.tensor].factored.size()), Share()}};
      Patches& all = held[access.tensor];
      all.insert(all.end(), std::make_move_iterator(patches.begin()), std::make_move_iterator(patches.end()));
    }
    if (all_whole && !makes_partial(work, act)) {
      for (const Access& to : task.writes) write(task, to, act, {{part(to, act, use_written(task, to, act)), Share()}});
      return;
    }
    const Formula::Refuse refuse = [&](int tensor) {
      for (const Access& access : task.reads)
        if (access.tensor == tensor) whole(task, access.reg, read(task, access, act), "reads");
      fail("task '{}': its stage '{}' is partial where the next needs it whole", task.name,
           work.bound->tensors[tensor].name);
    };
    const Formula formula(task, work, act, std::move(held), refuse);
    for (const Access& to : task.writes) {
      Patches made = formula.made(to.tensor);
      if (!is_uniform(made)) made = over_axes(made, work.bound->tensors[to.tensor].factored, graph_.reg(to.reg).axes);
      write(task, to, act, std::move(made));
    }
  }

  // Of what reads nothing of a tensor, its part there; nobody can tell of one that is partial somewhere.
  bool is_never_partial(TensorId tensor) const { return tensor.valid() && !combined_.contains(tensor); }

  // A sum over a part of its index.
  static bool makes_partial(const KernelWork& work, int act) {
    const auto& ranges = work.ranges[work.ranges.size() == 1 ? 0 : static_cast<std::size_t>(act)];
    for (int s = work.first_stage; s < work.last_stage; ++s)
      for (int i : work.bound->stages[s].body.reduced)
        if (ranges[i].size() < work.bound->indices[i].extent) return true;
    return false;
  }

  void whole(const Task& task, RegisterId id, const Patches& patches, const char* does) const {
    for (const Patch& p : patches) {
      if (!p.share.known || p.share.whole()) continue;
      const std::string last = put_together(id, &task);
      fail("task '{}': {} {} of '{}' where it must be whole, and it is not each of its terms once{}", task.name, does,
           to_string(p.box), graph_.reg(id).name,
           last.empty() ? "" : fmt::format("; they were last combined by '{}'", last));
    }
  }

  // The task that last combined what is not whole in a register, going back from `from`.
  std::string put_together(RegisterId id, const Task* from) const {
    std::vector<TaskId> open;
    std::set<TaskId> seen;
    const auto add_writers = [&](RegisterId reg) {
      for (TaskId w : writers_[reg.index()])
        if (seen.insert(w).second) open.push_back(w);
    };
    const auto is_partial = [&](const Access& access) {
      if (is_whole_before(access)) return false;
      for (const Patches& use : content_[access.reg.index()])
        for (const Patch& p : use)
          if (p.share.known && !p.share.whole()) return true;
      return false;
    };
    const auto add_reads = [&](const Task& task) {
      for (const Access& access : task.reads)
        if (is_partial(access)) add_writers(access.reg);
    };
    const bool is_read =
        std::any_of(from->reads.begin(), from->reads.end(), [&](const Access& a) { return a.reg == id; });
    is_read ? add_writers(id) : add_reads(*from);
    for (std::size_t i = 0; i < open.size(); ++i) {
      const Task& task = graph_.task(open[i]);
      if (combines(task)) return task.name;
      add_reads(task);
    }
    return "";
  }

  const PhysicalGraph& graph_;
  std::vector<std::vector<Patches>> content_;  // by register and use; of a carried one, what this step wrote
  std::vector<std::vector<TaskId>> writers_;   // by register
  std::set<TensorId> combined_;                // tensors of which something is combined, or made to be
};

}  // namespace

void check_shares(const PhysicalGraph& graph) { Checker(graph).run(); }

}  // namespace partita
