// Finds rings over disjoint wires: first all rings, then as many as fit together.
#include "partita/cluster/rings.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace partita {

namespace {

using Ring = std::vector<int>;

constexpr size_t kMostRings = 20000;  // that are considered; 8 devices have at most 5,040
constexpr int kMostTries = 200000;

struct Search {
  std::vector<std::vector<int>>& wires;
  std::vector<Ring> rings;  // all of them
  std::vector<int> chosen, best;
  size_t bound = 0;
  int tries = 0;
};

void collect(Search& search, Ring& ring, std::vector<char>& used) {
  const size_t n = search.wires.size();
  if (search.rings.size() >= kMostRings) return;
  if (ring.size() == n) {
    if (search.wires[ring.back()][0] > 0) search.rings.push_back(ring);
    return;
  }
  for (size_t next = 1; next < n; ++next) {
    if (used[next] || search.wires[ring.back()][next] == 0) continue;
    used[next] = true;
    ring.push_back(static_cast<int>(next));
    collect(search, ring, used);
    ring.pop_back();
    used[next] = false;
  }
}

bool ring_fits(const Search& search, const Ring& ring) {
  for (size_t i = 0; i < ring.size(); ++i)
    if (search.wires[ring[i]][ring[(i + 1) % ring.size()]] == 0) return false;
  return true;
}

void take_ring(Search& search, const Ring& ring, int count) {
  for (size_t i = 0; i < ring.size(); ++i) search.wires[ring[i]][ring[(i + 1) % ring.size()]] -= count;
}

// Adds rings, from `first` on, to the chosen ones.
void pack_rings(Search& search, size_t first) {
  if (search.chosen.size() > search.best.size()) search.best = search.chosen;
  for (size_t i = first; i < search.rings.size(); ++i) {
    if (search.best.size() >= search.bound || ++search.tries > kMostTries) return;
    if (!ring_fits(search, search.rings[i])) continue;
    take_ring(search, search.rings[i], 1);
    search.chosen.push_back(static_cast<int>(i));
    pack_rings(search, i);
    search.chosen.pop_back();
    take_ring(search, search.rings[i], -1);
  }
}

// An upper bound: there are no more rings than wires that leave a device, or that come to it.
size_t most_rings(const std::vector<std::vector<int>>& wires) {
  int bound = std::numeric_limits<int>::max();
  for (size_t i = 0; i < wires.size(); ++i) {
    int in = 0;
    for (const std::vector<int>& from : wires) in += from[i];
    bound = std::min({bound, in, std::accumulate(wires[i].begin(), wires[i].end(), 0)});
  }
  return static_cast<size_t>(bound);
}

}  // namespace

std::vector<std::vector<int>> disjoint_rings(std::vector<std::vector<int>> wires) {
  if (wires.size() < 2) return {};
  Search search{wires, {}, {}, {}, most_rings(wires), 0};
  Ring ring = {0};
  std::vector<char> used(wires.size(), false);
  if (search.bound > 0) collect(search, ring, used);
  pack_rings(search, 0);
  std::vector<Ring> found;
  for (int i : search.best) found.push_back(search.rings[i]);
  return found;
}

}  // namespace partita
