// Tests paths of steps: on few mesh axes the shortest of all, on many seldom far from it.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <numeric>
#include <optional>

#include "partita/base/radices.h"
#include "partita/base/rng.h"
#include "partita/sharding/boxing.h"
#include "partita/sharding/testing/layouts.h"

namespace partita {

namespace {

using testing::machine;
using testing::mesh_of;
using testing::padded;
using testing::random_layout;

// The table's figure for a step between two names on one mesh, copied from the table and not from the program. Empty if
// the step is not a collective or local. All mesh axes that differ must change in the same way.
std::optional<int64_t> table_figure(const Mesh& mesh, const NdSbp& from, const NdSbp& to, const Shape& shape) {
  std::vector<size_t> changed;
  for (size_t a = 0; a < from.size(); ++a)
    if (from[a] != to[a]) changed.push_back(a);
  if (changed.empty()) return 0;
  Sbp x = from[changed[0]], y = to[changed[0]];
  int64_t p = 1;
  for (size_t a : changed) {
    if (from[a] != x || to[a] != y) return std::nullopt;
    p *= mesh.extents[a];
  }
  for (const Sbp& s : {x, y})
    for (size_t a = changed[0]; a < from.size(); ++a)
      if (s.kind == Sbp::Kind::kSplit && from[a] == to[a] && from[a] == s) return std::nullopt;
  // Whole groups' shards, over all groups: the elements with the changed axes set to B, once a group.
  NdSbp whole = from;
  for (size_t a : changed) whole[a] = Sbp::broadcast();
  Layout l = make_layout(mesh, whole, shape);
  int64_t T = 0;
  for (const Box& b : l.boxes) T += volume(b);
  T /= p;
  using K = Sbp::Kind;
  if (x.kind == K::kPartial) return y.kind == K::kBroadcast ? 2 * (p - 1) * T : (p - 1) * T;
  if (y.kind == K::kPartial || x.kind == K::kBroadcast) return 0;
  if (y.kind == K::kBroadcast) return (p - 1) * T;
  return std::nullopt;  // S(i) -> S(j): (p-1)/p T if extents divide; a fetch of the missing boxes is the same
}

// Every conversion between named layouts of a mesh is the shortest path over all of them, by Floyd and Warshall. Edges
// are the table's steps and fetches. A fetch between values that are partial on different axes changes one thing, or is
// the path's last edge.
void expect_shortest_paths(const std::vector<int>& extents, const Shape& shape) {
  Mesh mesh = mesh_of(extents);
  std::vector<Sbp> parts = {Sbp::broadcast(), Sbp::partial()};
  for (size_t a = 0; a < shape.size(); ++a) parts.push_back(Sbp::split(static_cast<int>(a)));
  std::vector<NdSbp> names = {{}};
  for (size_t a = 0; a < extents.size(); ++a) {
    std::vector<NdSbp> longer;
    for (const NdSbp& n : names)
      for (const Sbp& s : parts) {
        longer.push_back(n);
        longer.back().push_back(s);
      }
    names = longer;
  }
  size_t n = names.size();
  std::vector<Layout> layouts;
  for (const NdSbp& name : names) layouts.push_back(make_layout(mesh, name, shape));
  std::vector<std::vector<int64_t>> distance(n, std::vector<int64_t>(n)), direct = distance;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      distance[i][j] = fetch(layouts[i], layouts[j], 1, machine()).bytes;
      if (auto figure = table_figure(mesh, names[i], names[j], shape))
        distance[i][j] = std::min(distance[i][j], *figure);
      direct[i][j] = distance[i][j];
      std::set<std::pair<Sbp, Sbp>> changes;
      for (size_t a = 0; a < extents.size(); ++a)
        if (names[i][a] != names[j][a]) changes.insert({names[i][a], names[j][a]});
      if (layouts[i].is_partial() && layouts[j].is_partial() && layouts[i].kinds != layouts[j].kinds &&
          changes.size() > 1)
        distance[i][j] = std::numeric_limits<int64_t>::max() / 4;
    }
  std::vector<std::vector<int>> via(n, std::vector<int>(n, -1));
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        if (distance[i][k] + distance[k][j] < distance[i][j]) {
          distance[i][j] = distance[i][k] + distance[k][j];
          via[i][j] = static_cast<int>(k);
        }
  Converter converter(machine());
  std::function<std::string(size_t, size_t)> path = [&](size_t i, size_t j) {
    return via[i][j] < 0 ? to_string(names[j]) : path(i, via[i][j]) + " -> " + path(via[i][j], j);
  };
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      int64_t best = distance[i][j];
      for (size_t k = 0; k < n; ++k) best = std::min(best, distance[i][k] + direct[k][j]);
      EXPECT_EQ(conversion_bytes(layouts[i], layouts[j], 1, machine()), best)
          << to_string(names[i]) << " -> " << path(i, j);
      EXPECT_EQ(converter.bytes(layouts[i], layouts[j], 1), best) << to_string(names[i]) << " -> " << path(i, j);
    }
}

}  // namespace

TEST(Conversion, IsAShortestPathOverTheNamedLayouts) {
  expect_shortest_paths({4}, {5, 7});
  expect_shortest_paths({2, 2}, {4, 8});
  expect_shortest_paths({2, 3}, {7, 5});
  expect_shortest_paths({3, 2}, {12, 6});
  expect_shortest_paths({2, 1, 2}, {5, 4});
}
TEST(LongConversion, IsAShortestPathOverTheNamedLayouts) {
  expect_shortest_paths({2, 2, 2}, {8, 8});
  expect_shortest_paths({2, 3}, {5, 4, 7});
  expect_shortest_paths({4, 2}, {3, 8, 5});
}

// The search does not cover meshes of more than three axes whole. An axis of extent 1 changes nothing but that.
TEST(Conversion, OnManyAxesIsSeldomFarFromTheShortestPath) {
  constexpr uint64_t kSeed = 22;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  const std::vector<std::pair<std::vector<int>, std::vector<Shape>>> cases = {{{2, 2, 2}, {{16}, {8}}},
                                                                              {{2, 2, 2}, {{16}, {5}}},
                                                                              {{3, 2, 2}, {{18}, {12}}},
                                                                              {{2, 2}, {{16}, {2, 8}}},
                                                                              {{4, 2}, {{7}, {8}, {3}}}};
  for (const auto& [extents, radices] : cases) {
    int64_t shortest = 0, found = 0;
    for (int round = 0; round < 200; ++round) {
      const Mesh few = mesh_of(extents), many = padded(few, 4, rng);
      const Layout from = random_layout(many, radices, tdl::Reducer::kSum, rng),
                   to = random_layout(many, radices, tdl::Reducer::kSum, rng);
      auto without = [&](Layout l) {
        std::vector<tdl::Kind> kinds;
        for (size_t a = 0; a < l.kinds.size(); ++a)
          if (many.extents[a] > 1) kinds.push_back(l.kinds[a]);
        l.mesh = few, l.kinds = kinds, l.boxes = Boxes(few.extents, l.boxes.list());
        return l;
      };
      const int64_t least = conversion_bytes(without(from), without(to), 1, machine()),
                    guided = conversion_bytes(from, to, 1, machine());
      EXPECT_GE(guided, least) << to_string(from) << " -> " << to_string(to);
      EXPECT_LE(guided, least + least / 4) << to_string(from) << " -> " << to_string(to);
      shortest += least, found += guided;
    }
    EXPECT_LE(static_cast<double>(found), 1.005 * static_cast<double>(shortest));
  }
}

}  // namespace partita
