// Computes weights of terms modulo 2^61 - 1, and boxes of elements that have one weight.
#include "partita/physical/share_weights.h"

#include <algorithm>
#include <utility>

#include "partita/sharding/layout.h"

namespace partita::shares {

// splitmix64, one number after another.
uint64_t hash_of(std::initializer_list<uint64_t> numbers) {
  uint64_t h = 0x9e3779b97f4a7c15;
  for (uint64_t n : numbers) {
    h += n + 0x9e3779b97f4a7c15;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
    h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
    h ^= h >> 31;
  }
  return h % kPrime;
}

Share share_of(uint64_t weight, tdl::Kind kind) {
  if (weight == (is_extremal(kind) ? kAllTerms : 1)) return Share();
  return {weight, kind, true};
}

Share combined(const std::vector<Share>& terms, tdl::Reducer reducer) {
  if (std::any_of(terms.begin(), terms.end(), [](const Share& s) { return !s.known; })) return kUnknown;
  uint64_t weight = 0;
  for (const Share& s : terms) weight = is_extremal(reducer) ? weight | s.terms() : add_mod_prime(weight, s.weight);
  return share_of(weight, reducer);
}

bool is_uniform(const Patches& patches) {
  return std::all_of(patches.begin(), patches.end(), [&](const Patch& p) { return p.share == patches[0].share; });
}

namespace {

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

}  // namespace

// Joins axis by axis, until no axis joins any.
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

Patches combined(const Box& target, const std::vector<Patches>& terms, tdl::Reducer reducer, bool first) {
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

namespace {

// Axes that come to the same number of elements on both sides.
struct AxesPiece {
  std::size_t first = 0, last = 0;  // axes of `from`
  Shape from, to;
};

// [8,1024,768] and [8,1024,12,64] differ in their last axes only: {8}, {1024} and {768 -> 12,64}.
std::vector<AxesPiece> pieces_of(const Shape& from, const Shape& to) {
  std::vector<AxesPiece> pieces;
  for (std::size_t f = 0, t = 0; f < from.size() || t < to.size();) {
    AxesPiece piece{f, f, {}, {}};
    do {  // the next axis of the side that is behind
      const bool of_from = f < from.size() && (t == to.size() || volume(piece.from) <= volume(piece.to));
      of_from ? piece.from.push_back(from[f++]) : piece.to.push_back(to[t++]);
    } while (volume(piece.from) != volume(piece.to) && (f < from.size() || t < to.size()));
    piece.last = f;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace

Patches over_axes(const Patches& patches, const Shape& from, const Shape& to) {
  if (from == to) return patches;
  const std::vector<AxesPiece> pieces = pieces_of(from, to);
  Patches result;
  for (const Patch& p : patches) {
    std::vector<Box> boxes{{}};
    for (const AxesPiece& piece : pieces) {
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

}  // namespace partita::shares
