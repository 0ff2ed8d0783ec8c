// Finds which part of its partial values a position holds.
#include "partita/sharding/members.h"

#include <algorithm>
#include <tuple>

namespace partita::boxing {

bool box_less(const Box& a, const Box& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const Interval& x, const Interval& y) {
    return std::tie(x.lo, x.hi) < std::tie(y.lo, y.hi);
  });
}

bool has_partial_values(const Layout& l) {
  for (size_t a = 0; a < l.kinds.size(); ++a)
    if (l.kinds[a] && l.mesh.extents[a] > 1) return true;
  return false;
}

int partial_member_count(const Layout& l) {
  int n = 1;
  for (size_t a = 0; a < l.kinds.size(); ++a)
    if (l.kinds[a]) n *= l.mesh.extents[a];
  return n;
}

int partial_member(const Layout& l, int position) {
  int member = 0, stride = l.mesh.positions();
  for (size_t a = 0; a < l.kinds.size(); ++a) {
    stride /= l.mesh.extents[a];
    if (l.kinds[a]) member = member * l.mesh.extents[a] + position / stride % l.mesh.extents[a];
  }
  return member;
}

uint64_t partial_axes(const Layout& l) {
  uint64_t axes = 0;
  for (size_t a = 0; a < l.kinds.size(); ++a) axes |= static_cast<uint64_t>(l.kinds[a].has_value()) << a;
  return axes;
}

}  // namespace partita::boxing
