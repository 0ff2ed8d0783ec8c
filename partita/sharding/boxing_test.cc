// Tests conversions and fetches: the table's rows, values carried over, bytes counted one by one, listed devices.
#include "partita/sharding/boxing.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/base/rng.h"
#include "partita/sharding/count.h"
#include "partita/sharding/testing/execute.h"
#include "partita/sharding/testing/layouts.h"

namespace partita {

namespace {

using testing::machine;
using testing::mesh_of;
using testing::name;
using testing::padded;
using testing::random_layout;
using testing::random_mesh;
using testing::random_radices;
using testing::steps_text;

std::vector<double> random_values(int64_t n, Rng& rng) {
  std::vector<double> v(n);
  for (double& x : v) x = (rng.below(2) ? 1 : -1) * (0.1 + rng.uniform());
  return v;
}

// The least that devices must receive: for every reader and element, one value from each part that the reader lacks.
int64_t lacking(const Layout& from, const Layout& to) {
  std::map<std::vector<int>, int> parts;
  for (int p = 0; p < from.mesh.positions(); ++p) parts[testing::part_of(from, p)];
  int64_t n = 0;
  for (int t = 0; t < to.mesh.positions(); ++t)
    testing::for_each_element(to.boxes[t], to.factored_shape(), [&](int64_t i) {
      int s = from.mesh.position_of(to.mesh.devices[t]);
      n += static_cast<int64_t>(parts.size()) - (s >= 0 && testing::offset_in(from, s, i) ? 1 : 0);
    });
  return n;
}

// Counts, one by one, elements of pieces that go from one device to another.
int64_t crossing(const Step& step) {
  int64_t n = 0;
  for (const Piece& p : step.pieces) {
    Shape shape;
    for (const Shape& r : step.radices) shape.insert(shape.end(), r.begin(), r.end());
    if (step.from.mesh.devices[p.source] != step.to.mesh.devices[p.target])
      testing::for_each_element(p.box, shape, [&](int64_t) { ++n; });
  }
  return n;
}

// Counts the elements that a collective moves, from its groups. Every member receives what it lacks. A reduction sends
// one part of each box around the ring for every other member, an all-reduce does so twice.
int64_t collective_elements(const Step& step) {
  int64_t n = 0;
  for (const std::vector<int>& group : step.groups)
    for (int p : group) {
      int64_t k = static_cast<int64_t>(group.size()), box = volume(step.to.boxes[p]);
      if (step.kind == StepKind::kReduceScatter) n += (k - 1) * box;
      if (step.kind == StepKind::kAllReduce) n += 2 * (k - 1) * box;  // divided by k below: each of k has the box
      if (step.kind == StepKind::kAllGather || step.kind == StepKind::kAllToAll)
        testing::for_each_element(step.to.boxes[p], step.to.factored_shape(),
                                  [&](int64_t i) { n += !testing::offset_in(step.from, p, i); });
    }
  return step.kind == StepKind::kAllReduce ? n / static_cast<int64_t>(step.groups[0].size()) : n;
}

// Checks values, bytes and promises of one conversion.
void check_conversion(const Layout& from, const Layout& to, Rng& rng, const std::string& context) {
  SCOPED_TRACE(context + ": " + to_string(from) + " -> " + to_string(to));
  std::vector<double> whole = random_values(volume(from.factored_shape()), rng);
  testing::Sharded value = testing::scatter(whole, from, rng);
  auto expect_whole = [&](const testing::Sharded& got) {
    std::vector<double> result = testing::gather(got);
    ASSERT_EQ(result.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(result[i], whole[i], 1e-9) << "element " << i;
  };
  Step single = fetch(from, to, 4, machine());
  ASSERT_EQ(single.bytes, 4 * crossing(single));
  if (!to.is_partial()) {
    ASSERT_EQ(single.bytes, 4 * lacking(from, to));
  }
  testing::Sharded fetched = value;
  fetched.layout = single.from;
  fetched = testing::execute(single, fetched);
  fetched.layout = to;
  expect_whole(fetched);

  Conversion conversion = convert(from, to, 4, machine());
  expect_whole(testing::execute(conversion, value));
  ASSERT_LE(conversion.bytes, single.bytes);
  ASSERT_EQ(conversion.bytes, conversion_bytes(from, to, 4, machine())) << steps_text(conversion);
  int64_t bytes = 0;
  for (const Step& s : conversion.steps) {
    ASSERT_EQ(s.bytes, 4 * (s.groups.empty() ? crossing(s) : collective_elements(s))) << name_of(s.kind);
    bytes += s.bytes;
  }
  ASSERT_EQ(bytes, conversion.bytes);
  Conversion again = convert(from, to, 4, machine());
  ASSERT_EQ(steps_text(again), steps_text(conversion));
  for (size_t i = 0; i < conversion.steps.size(); ++i) {
    ASSERT_EQ(again.steps[i].pieces, conversion.steps[i].pieces);
    ASSERT_EQ(again.steps[i].to, conversion.steps[i].to);
  }
}

int64_t bytes_between(const Layout& from, const Layout& to) { return convert(from, to, 1, machine()).bytes; }

}  // namespace

// Every row of the table of docs/ARCHITECTURE.md section 4 (OneFlow's Table 2), if extents divide. The tensor has |T| =
// p^2 x 12 elements.
TEST(ConversionTable, OneMesh) {
  for (int p : {2, 3, 4, 8}) {
    Shape shape = {2 * p, 6 * p};
    int64_t T = volume(shape);
    struct Row {
      const char *from, *to;
      int64_t elements;
      const char* steps;
    };
    for (std::string r : {"sum", "max", "min", "prod"}) {
      std::string P = "[P(" + r + ")]";
      const Row rows[] = {
          {"[S(0)]", "[S(0)]", 0, ""},
          {"[S(0)]", "[S(1)]", (p - 1) * T / p, "all-to-all"},
          {"[S(0)]", "[B]", (p - 1) * T, "all-gather"},
          {"[S(1)]", P.c_str(), 0, "local"},
          {"[B]", "[S(1)]", 0, "local"},
          {"[B]", "[B]", 0, ""},
          {"[B]", P.c_str(), 0, "local"},
          {P.c_str(), "[S(0)]", (p - 1) * T, "reduce-scatter"},
          {P.c_str(), "[B]", 2 * (p - 1) * T, "all-reduce"},
          {P.c_str(), P.c_str(), 0, ""},
      };
      for (const Row& row : rows) {
        Conversion c = convert(make_layout(mesh_of({p}), name(row.from), shape),
                               make_layout(mesh_of({p}), name(row.to), shape), 1, machine());
        EXPECT_EQ(c.bytes, row.elements) << row.from << " -> " << row.to << " on " << p;
        EXPECT_EQ(steps_text(c), row.steps) << row.from << " -> " << row.to << " on " << p;
      }
    }
  }
}

TEST(ConversionTable, NoDeviceInCommon) {
  for (int p1 : {2, 3, 4, 8})
    for (int p2 : {2, 3, 4, 8}) {
      Shape shape = {24, 24};
      int64_t T = volume(shape);
      std::vector<int> others;
      for (int i = 0; i < p2; ++i) others.push_back(8 + i);
      struct Row {
        const char *from, *to;
        int64_t elements;
      };
      const Row rows[] = {
          {"[S(0)]", "[S(0)]", T},          {"[S(0)]", "[S(1)]", T},        {"[S(0)]", "[B]", p2 * T},
          {"[S(1)]", "[P(sum)]", T},        {"[B]", "[S(0)]", T},           {"[B]", "[B]", p2 * T},
          {"[B]", "[P(max)]", T},           {"[P(sum)]", "[S(1)]", p1 * T}, {"[P(sum)]", "[B]", (p1 + p2 - 1) * T},
          {"[P(sum)]", "[P(sum)]", p1 * T},
      };
      for (const Row& row : rows)
        EXPECT_EQ(bytes_between(make_layout(mesh_of({p1}), name(row.from), shape),
                                make_layout(mesh_of({p2}, others), name(row.to), shape)),
                  row.elements)
            << row.from << " -> " << row.to << " from " << p1 << " to " << p2;
    }
}

// From the devices of one node to those of another: each fetches a slice over its own port, and NVLink gathers them.
// Small tensors go whole, since a gather has more rounds. So do tensors whose links inside are no faster.
TEST(Conversion, BetweenNodesGoesInSlices) {
  const auto steps = [](const char* cluster, const char* from, const char* to, int64_t rows,
                        const std::vector<int>& extents) {
    const Cluster c = load_cluster(cluster);
    std::vector<int> first(8), second(8);
    std::iota(first.begin(), first.end(), 0), std::iota(second.begin(), second.end(), 8);
    const Layout f = make_layout(mesh_of(extents, first), name(from), Shape{rows, 64}),
                 t = make_layout(mesh_of(extents, second), name(to), Shape{rows, 64});
    const Conversion conversion = convert(f, t, 4, c);
    EXPECT_EQ(conversion.bytes, conversion_bytes(f, t, 4, c)) << from << " -> " << to;
    return steps_text(conversion);
  };
  EXPECT_EQ(steps("dgx-h100:2", "[B]", "[B]", 1 << 20, {8}), "fetch, all-gather");
  EXPECT_EQ(steps("dgx-h100:2", "[S(0)]", "[B]", 1 << 20, {8}), "fetch, all-gather");
  EXPECT_EQ(steps("dgx-h100:2", "[S(0), B]", "[S(0), B]", 1 << 20, {2, 4}), "fetch, all-gather");
  EXPECT_EQ(steps("dgx-h100:2", "[B]", "[S(0)]", 1 << 20, {8}), "fetch");
  EXPECT_EQ(steps("dgx-h100:2", "[B]", "[B]", 8, {8}), "fetch");
  EXPECT_EQ(steps("local:16", "[B]", "[B]", 1 << 20, {8}), "fetch");
}

TEST(Conversion, TwoMeshAxes) {
  Shape shape = {8, 8};
  int64_t T = 64;
  struct Row {
    std::vector<int> mesh;
    const char *from, *to;
    int64_t elements;
    const char* steps;
  };
  const Row rows[] = {
      {{2, 2}, "[S(0), S(0)]", "[B, S(0)]", 3 * T / 2, "fetch"},  // box-counted: not T
      {{2, 2}, "[S(0), S(0)]", "[S(0), B]", T, "all-gather"},
      {{2, 2}, "[S(0), S(0)]", "[B, B]", 3 * T, "all-gather"},
      {{2, 2}, "[S(0), S(0)]", "[S(1), S(1)]", 3 * T / 4, "all-to-all"},
      {{2, 2}, "[S(0), S(1)]", "[B, S(1)]", T, "all-gather"},
      {{2, 2}, "[S(0), B]", "[B, S(0)]", T, "fetch"},
      {{2, 2}, "[B, S(0)]", "[S(0), S(0)]", T / 2, "fetch"},
      {{2, 2}, "[S(0), B]", "[S(0), S(0)]", 0, "local"},
      {{2, 4}, "[P(sum), P(sum)]", "[B, B]", 14 * T, "all-reduce"},
      {{2, 4}, "[P(sum), P(sum)]", "[S(0), S(0)]", 7 * T, "reduce-scatter"},
      {{2, 4}, "[P(sum), S(1)]", "[B, S(1)]", 2 * T, "all-reduce"},
      {{2, 4}, "[P(sum), S(1)]", "[S(0), S(1)]", T, "reduce-scatter"},
      // Reduced first, there is less to gather: T, then 3 T; the all-gather of both parts would move 6 T.
      {{2, 4}, "[P(max), S(1)]", "[P(max), B]", 4 * T, "reduce-scatter, fetch"},
      {{2, 4}, "[B, S(1)]", "[P(sum), S(1)]", 0, "local"},
      // One axis changes its kind and one is sliced: the slice comes first, then the smaller reduction.
      {{4, 2}, "[P(sum), B]", "[B, S(0)]", 6 * T, "local, all-reduce"},
      {{2, 2}, "[P(sum), B]", "[S(0), S(1)]", T, "local, reduce-scatter"},
  };
  for (const Row& row : rows) {
    Conversion c = convert(make_layout(mesh_of(row.mesh), name(row.from), shape),
                           make_layout(mesh_of(row.mesh), name(row.to), shape), 1, machine());
    EXPECT_EQ(c.bytes, row.elements) << row.from << " -> " << row.to;
    EXPECT_EQ(steps_text(c), row.steps) << row.from << " -> " << row.to;
  }
}

TEST(Conversion, GroupsAreInRingOrder) {
  Conversion c = convert(make_layout(mesh_of({2, 3}), name("[P(sum), S(0)]"), Shape{6}),
                         make_layout(mesh_of({2, 3}), name("[B, S(0)]"), Shape{6}), 4, machine());
  ASSERT_EQ(c.steps.size(), 1u);
  EXPECT_EQ(c.steps[0].groups, (std::vector<std::vector<int>>{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(c.bytes, 4 * 3 * 2 * 2);
}

TEST(Fetch, TakesFromTheFastestHolderAndSpreadsTies) {
  // Replicas at 0, 1 and 8; the readers 2..5 are in the node of 0 and 1, reader 9 in that of 8.
  Layout from = make_layout(mesh_of({3}, {0, 1, 8}), name("[B]"), Shape{4});
  Layout to = make_layout(mesh_of({5}, {2, 3, 4, 5, 9}), name("[B]"), Shape{4});
  std::vector<int> sources;
  for (const Piece& p : fetch(from, to, 4, machine()).pieces) sources.push_back(p.source);
  EXPECT_EQ(sources, (std::vector<int>{0, 1, 0, 1, 2}));
}

TEST(Fetch, AHaloMovesOnlyWhatIsMissing) {
  Layout from = make_layout(mesh_of({2}), name("[S(0)]"), Shape{10, 3});
  Layout to = from;
  to.boxes = {{{0, 6}, {0, 3}}, {{4, 10}, {0, 3}}};
  Conversion c = convert(from, to, 4, machine());
  EXPECT_EQ(steps_text(c), "fetch");
  EXPECT_EQ(c.bytes, 4 * 2 * 3);
  std::string pieces;
  for (const Piece& p : c.steps[0].pieces) pieces += fmt::format("{}>{} {}; ", p.source, p.target, to_string(p.box));
  EXPECT_EQ(pieces, "0>0 [0,5)x[0,3); 1>0 [5,6)x[0,3); 1>1 [5,10)x[0,3); 0>1 [4,5)x[0,3); ");
}

TEST(Fetch, APartialSourceUnderAHaloIsScatteredFirst) {
  Layout from = make_layout(mesh_of({4}), name("[P(sum)]"), Shape{16});
  Layout to = make_layout(mesh_of({4}), name("[S(0)]"), Shape{16});
  to.boxes = {{{0, 4}}, {{3, 9}}, {{8, 12}}, {{12, 16}}};
  Conversion c = convert(from, to, 1, machine());
  EXPECT_EQ(steps_text(c), "reduce-scatter, fetch");
  EXPECT_EQ(c.bytes, 3 * 16 + 2);
}

// Each replica of a partial group makes its half whole: 2 x 3 x 8 elements each. Each position gets 8 more from the
// other replica.
TEST(Conversion, ReplicasOfPartialValuesShareTheWork) {
  for (const char* replicated : {"[P(sum), B]", "[B, P(sum)]"}) {
    const std::vector<int> extents = replicated[1] == 'P' ? std::vector<int>{4, 2} : std::vector<int>{2, 4};
    const Layout from = make_layout(mesh_of(extents), name(replicated), Shape{16}),
                 to = make_layout(mesh_of(extents), name("[B, B]"), Shape{16});
    const Conversion c = convert(from, to, 1, machine());
    EXPECT_EQ(c.bytes, 2 * (2 * 3 * 8) + 8 * 8) << replicated;
    EXPECT_EQ(c.bytes, conversion_bytes(from, to, 1, machine()));
  }
}

TEST(Conversion, TheSameBoxesUnderOtherMeshExtentsStayWhereTheyAre) {
  Layout a = make_layout(mesh_of({4}), name("[S(0)]"), Shape{8}),
         b = make_layout(mesh_of({2, 2}), name("[S(0), S(0)]"), Shape{8});
  EXPECT_TRUE(convert(a, b, 4, machine()).steps.empty());
  Layout reversed = make_layout(mesh_of({4}, {3, 2, 1, 0}), name("[S(0)]"), Shape{8});
  EXPECT_EQ(convert(a, reversed, 4, machine()).bytes, 4 * 8);
}

// Sums on a mesh of many axes that end on the same devices under other extents.
TEST(Conversion, PartialValuesGoToOtherMeshExtents) {
  Rng rng(16);
  const Layout sums = make_layout(mesh_of({2, 2, 1, 2, 1}), name("[P(sum), S(0), B, S(1), P(sum)]"), Shape{8, 4});
  for (const char* end : {"[S(0)]", "[B]"})
    check_conversion(sums, make_layout(mesh_of({8}), name(end), Shape{8, 4}), rng, end);
}

TEST(Conversion, FactoringsWithoutACommonOneAreFetchedPieceByPiece) {
  using R = std::vector<Shape>;
  Layout plain = make_layout(mesh_of({2}), name("[S(0)]"), R{{12}}),
         inside = make_layout(mesh_of({2}), name("[S(0.1)]"), R{{3, 4}});
  Conversion c = convert(plain, inside, 1, machine());
  EXPECT_EQ(steps_text(c), "fetch");
  EXPECT_EQ(c.bytes, 4);  // position 0 holds 0..5 and needs 0 1 4 5 8 9, position 1 needs 2 3 of it
  EXPECT_EQ(bytes_between(make_layout(mesh_of({3}), name("[S(0)]"), R{{12}}),
                          make_layout(mesh_of({3}), name("[S(0)]"), R{{3, 4}})),
            0);
  Rng rng(3);
  check_conversion(plain, inside, rng, "plain to factored");
  check_conversion(inside, plain, rng, "factored to plain");
  check_conversion(make_layout(mesh_of({3}), name("[S(0.1)]"), R{{4, 3}}), inside, rng, "4.3 to 3.4");
}

namespace {

// Converts random layouts on meshes of at least `axes` axes.
void random_conversions(int rounds, uint64_t seed, size_t axes = 0) {
  Rng rng(seed);
  constexpr tdl::Reducer reducers[] = {tdl::Reducer::kSum, tdl::Reducer::kMax, tdl::Reducer::kMin, tdl::Reducer::kProd};
  for (int round = 0; round < rounds && !::testing::Test::HasFatalFailure(); ++round) {
    std::vector<Shape> radices = random_radices(rng), other = radices;
    if (rng.below(6) == 0)  // another factoring of the same tensor
      for (Shape& r : other) r = rng.below(2) && r.size() == 2 ? Shape{r[1], r[0]} : Shape{volume(r)};
    if (rng.below(6) == 0)  // digits of extent 1 make no difference
      for (std::vector<Shape>* some : {&radices, &other})
        for (Shape& r : *some)
          if (rng.below(2)) r.insert(r.begin() + rng.between(0, static_cast<int64_t>(r.size())), 1);
    Mesh mesh = padded(random_mesh(rng), axes, rng), second = rng.below(2) ? mesh : padded(random_mesh(rng), axes, rng);
    tdl::Reducer reducer = reducers[rng.below(4)], target = rng.below(4) ? reducer : reducers[rng.below(4)];
    Layout from = random_layout(mesh, radices, reducer, rng), to = random_layout(second, other, target, rng);
    check_conversion(from, to, rng, fmt::format("seed {} round {}", seed, round));
  }
}

}  // namespace

// Two terms each of one half are as many elements as there are.
TEST(Conversion, PiecesThatOverlapAndLeaveGapsAreCombined) {
  const Mesh mesh = mesh_of({2, 2});
  const Layout from = make_layout(mesh, name("[P(sum), S(0)]"), Shape{8}),
               to = make_layout(mesh, name("[P(max), P(max)]"), Shape{8});
  const Step step = fetch(from, to, 4, machine());
  int overlapping = 0;
  for (const Target& target : targets_of(step)) {
    if (target.pieces.size() < 2 || target.pieces[0]->box != target.pieces[1]->box) continue;
    ++overlapping;
    EXPECT_TRUE(target.combine);
  }
  EXPECT_GT(overlapping, 0);
}
TEST(Conversion, RandomOnesKeepTheValuesAndCountWhatCrosses) { random_conversions(1500, 20240611); }
TEST(Conversion, RandomOnesOnManyAxesKeepTheValuesAndCountWhatCrosses) { random_conversions(500, 20261122, 4); }
TEST(LongConversion, RandomOnesKeepTheValuesAndCountWhatCrosses) {
  for (uint64_t seed = 1; seed <= 20; ++seed) random_conversions(3000, seed);
}

// Counting a fetch's moved elements without its pieces gives their sum, also if both sides hold partial values, under
// one reducer and under two.
TEST(Conversion, CountsWhatAFetchMovesWithoutItsPieces) {
  constexpr uint64_t kSeed = 23;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  const std::vector<std::vector<int>> meshes = {{6}, {2, 3}, {4, 2}, {2, 3, 2}, {2, 2, 2, 2}};
  int into_parts = 0;
  const boxing::ElementCounter counter(machine(), false);
  for (int round = 0; round < 3000; ++round) {
    const Mesh mesh = mesh_of(meshes[rng.below(meshes.size())]);
    std::vector<Shape> radices;
    for (int a = static_cast<int>(rng.between(1, 3)); a > 0; --a)
      radices.push_back(rng.below(4) ? Shape{rng.between(1, 9)} : Shape{rng.between(1, 4), rng.between(1, 4)});
    const Layout from = random_layout(mesh, radices, tdl::Reducer::kSum, rng),
                 to = random_layout(mesh, radices, rng.below(3) ? tdl::Reducer::kSum : tdl::Reducer::kMax, rng);
    into_parts += to.is_partial();
    EXPECT_EQ(boxing::fetch_elements(from, to, counter) * 3, fetch(from, to, 3, machine()).bytes)
        << to_string(from) << " -> " << to_string(to);
  }
  EXPECT_GT(into_parts, 500);
}

// Listing some devices gives the list of all, less the other devices' part, and the same bytes.
TEST(Conversion, ListsSomeDevices) {
  constexpr uint64_t kSeed = 24;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  const std::vector<std::vector<int>> meshes = {{6}, {2, 3}, {4, 2}, {2, 3, 2}};
  size_t pieces = 0, fewer = 0, groups = 0;
  for (int round = 0; round < 1000; ++round) {
    const Mesh mesh = mesh_of(meshes[rng.below(meshes.size())]);
    std::vector<Shape> radices;
    for (int a = static_cast<int>(rng.between(1, 3)); a > 0; --a) radices.push_back({rng.between(1, 9)});
    const Layout from = random_layout(mesh, radices, tdl::Reducer::kSum, rng),
                 to = random_layout(mesh, radices, tdl::Reducer::kSum, rng);
    std::vector<char> chosen;
    for (size_t d = 0; d < machine().devices.size(); ++d) chosen.push_back(rng.below(3) == 0);
    const Conversion all = convert(from, to, 2, machine()),
                     some = convert(from, to, 2, machine(), std::make_shared<const std::vector<char>>(chosen));
    ASSERT_EQ(some.bytes, all.bytes);
    ASSERT_EQ(some.steps.size(), all.steps.size());
    for (size_t s = 0; s < all.steps.size(); ++s) {
      const Step &whole = all.steps[s], &part = some.steps[s];
      EXPECT_EQ(part.kind, whole.kind);
      EXPECT_EQ(part.bytes, whole.bytes);
      auto is_chosen = [&](int position) { return chosen[whole.to.mesh.devices[position].index()] != 0; };
      std::vector<Piece> theirs;
      for (const Piece& p : whole.pieces)
        if (is_chosen(p.target)) theirs.push_back(p);
      EXPECT_EQ(part.pieces, theirs);
      std::vector<std::vector<int>> with_them;
      for (const std::vector<int>& g : whole.groups)
        if (std::any_of(g.begin(), g.end(), is_chosen)) with_them.push_back(g);
      EXPECT_EQ(part.groups, with_them);
      pieces += theirs.size(), fewer += whole.pieces.size() - theirs.size(), groups += with_them.size();
    }
  }
  EXPECT_GT(pieces, 1000u);
  EXPECT_GT(fewer, 1000u);
  EXPECT_GT(groups, 100u);
}

// Each target gets every element that it wants once, from a holder, even if very many disjoint boxes are held.
TEST(Conversion, FetchesFromVeryMany) {
  constexpr uint64_t kSeed = 25;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  const Cluster cluster = load_cluster("dgx-h100:32");
  Mesh mesh = mesh_of({16, 16});
  size_t largest = 0;
  for (const char* text : {"[S(0), S(1)]", "[S(1), S(0)]", "[S(0), S(0)]", "[B, S(0)]"})
    for (int round = 0; round < 4; ++round) {
      const Shape shape = {16 * rng.between(1, 3) + rng.between(0, 5), 256};
      const Layout from = make_layout(mesh, name(text), unfactored(round % 2 ? shape : Shape{shape[1], shape[0]})),
                   to = make_layout(mesh, name("[B, B]"), from.radices);
      const Step step = fetch(from, to, 1, cluster);
      EXPECT_EQ(step.bytes, boxing::fetch_elements(from, to, boxing::ElementCounter(cluster, false)));
      const std::vector<Target> targets = targets_of(step);
      for (int t : {0, 17, 255}) {
        const Target& target = targets[static_cast<size_t>(t)];
        largest = std::max(largest, target.pieces.size());
        int64_t covered = 0;
        for (size_t i = 0; i < target.pieces.size(); ++i) {
          const Piece& piece = *target.pieces[i];
          covered += volume(piece.box);
          EXPECT_TRUE(contains(from.boxes[static_cast<size_t>(piece.source)], piece.box));
          for (size_t j = 0; j < i; ++j) EXPECT_TRUE(is_empty(intersect(piece.box, target.pieces[j]->box)));
        }
        EXPECT_EQ(covered, volume(from.factored_shape()));
        EXPECT_FALSE(target.combine);
      }
    }
  EXPECT_GE(largest, 255u);
}

}  // namespace partita
