// Tests names, layouts, factorings and signatures.
#include "partita/sharding/layout.h"

#include <gtest/gtest.h>

#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"

namespace partita {

namespace {

Mesh mesh_of(std::vector<int> extents) {
  Mesh mesh{extents, {}};
  int n = 1;
  for (int e : extents) n *= e;
  for (int i = 0; i < n; ++i) mesh.devices.push_back(DeviceId(size_t(i)));
  return mesh;
}

std::string boxes_text(const Layout& layout) {
  std::string text;
  for (const Box& b : layout.boxes) text += (text.empty() ? "" : " ") + to_string(b);
  return text;
}

}  // namespace

TEST(Sbp, PrintsAndParses) {
  for (const char* text : {"S(0)", "S(12)", "S(0.1)", "B", "P(sum)", "P(max)", "P(min)", "P(prod)"})
    EXPECT_EQ(to_string(parse_sbp(text)), text);
  for (const char* text : {"[]", "[B]", "[S(0), P(sum)]", "[S(0.2), S(1), B]"})
    EXPECT_EQ(to_string(parse_nd_sbp(text)), text);
  EXPECT_EQ(parse_nd_sbp("[S(0),B]"), (NdSbp{Sbp::split(0), Sbp::broadcast()}));
  for (const char* text : {"", "S", "S()", "S(x)", "S(-1)", "S(0.)", "S(0", "P", "P(mean)", "b", "B "})
    EXPECT_THROW(parse_sbp(text), Error) << text;
  for (const char* text : {"", "B", "[B", "[B,]", "[,B]", "[S(0) B]"}) EXPECT_THROW(parse_nd_sbp(text), Error) << text;
}

TEST(Mesh, PositionsAreRowMajor) {
  Mesh mesh = mesh_of({2, 3});
  EXPECT_EQ(mesh.coordinates(4), (std::vector<int>{1, 1}));
  for (int p = 0; p < 6; ++p) EXPECT_EQ(mesh.position(mesh.coordinates(p)), p);
  EXPECT_EQ(mesh.position_of(DeviceId(5)), 5);
  EXPECT_EQ(mesh.position_of(DeviceId(6)), -1);
  EXPECT_EQ(to_string(mesh), "2x3 [0, 1, 2, 3, 4, 5]");
  Mesh large{{3, 6}, {}};
  for (size_t d = 0; d < 18; ++d) large.devices.push_back(DeviceId(d < 17 ? d : 20));
  EXPECT_EQ(to_string(large), "3x6 [0..16, 20]");
}

TEST(Layout, ANameSaysTheBoxes) {
  EXPECT_EQ(boxes_text(make_layout(mesh_of({3}), {Sbp::split(0)}, Shape{10, 4})),
            "[0,3)x[0,4) [3,6)x[0,4) [6,10)x[0,4)");
  EXPECT_EQ(boxes_text(make_layout(mesh_of({2, 2}), parse_nd_sbp("[S(1), S(0)]"), Shape{4, 6})),
            "[0,2)x[0,3) [2,4)x[0,3) [0,2)x[3,6) [2,4)x[3,6)");
  EXPECT_EQ(boxes_text(make_layout(mesh_of({2}), {Sbp::split(0)}, Shape{1})), "[0,0) [0,1)");
  EXPECT_EQ(boxes_text(make_layout(mesh_of({}), {}, Shape{3})), "[0,3)");
  EXPECT_EQ(boxes_text(make_layout(mesh_of({2}), {Sbp::broadcast()}, Shape{})), "[] []");
  Layout p = make_layout(mesh_of({2, 2}), parse_nd_sbp("[P(max), S(0)]"), Shape{4});
  EXPECT_EQ(boxes_text(p), "[0,2) [2,4) [0,2) [2,4)");
  EXPECT_TRUE(p.is_partial());
  EXPECT_EQ(p.reducer(), tdl::Reducer::kMax);
  EXPECT_EQ(p.partial_group(1), (std::vector<int>{1, 3}));
  EXPECT_EQ(to_string(p), "2x2 [0, 1, 2, 3] [P(max), S(0)]");
}

TEST(Layout, MeshAxesThatSplitOneAxisActAsOneSplitIntoTheirProduct) {
  for (int64_t n : {1, 5, 6, 7, 12, 13})
    EXPECT_EQ(make_layout(mesh_of({2, 3}), parse_nd_sbp("[S(0), S(0)]"), Shape{n}).boxes,
              make_layout(mesh_of({6}), parse_nd_sbp("[S(0)]"), Shape{n}).boxes);
  // The same with another axis between them: outermost most significant.
  Layout l = make_layout(mesh_of({2, 2, 2}), parse_nd_sbp("[S(0), B, S(0)]"), Shape{8});
  EXPECT_EQ(boxes_text(l), "[0,2) [2,4) [0,2) [2,4) [4,6) [6,8) [4,6) [6,8)");
}

TEST(Layout, SubAxesSplitFactoredAxes) {
  std::vector<Shape> packed = {{8}, {3, 4}};  // three gates of 4 columns
  Layout gates = make_layout(mesh_of({3}), {Sbp::split(1, 0)}, packed);
  EXPECT_EQ(boxes_text(gates), "[0,8)x[0,1)x[0,4) [0,8)x[1,2)x[0,4) [0,8)x[2,3)x[0,4)");
  Layout inside = make_layout(mesh_of({2}), {Sbp::split(1, 1)}, packed);
  EXPECT_EQ(to_string(inside), "2 [0, 1] [S(1.1)]");
  EXPECT_EQ(inside.shape(), (Shape{8, 12}));
  std::string stored;
  for (const Box& b : stored_boxes(inside.boxes[1], packed)) stored += to_string(b) + " ";
  EXPECT_EQ(stored, "[0,8)x[2,4) [0,8)x[6,8) [0,8)x[10,12) ");
}

TEST(Layout, BadNamesAreBadInput) {
  EXPECT_EQ(error_of([] {
              make_layout(mesh_of({2}), {Sbp::split(2)}, Shape{4, 4});
            }),
            "[S(2)]: S(2) splits axis 2 of a tensor of 2 axes");
  EXPECT_EQ(error_of([] {
              make_layout(mesh_of({2}), {Sbp::split(0, 1)}, Shape{4, 4});
            }),
            "[S(0.1)]: S(0.1) splits sub-axis 1 of an axis with 1 factors");
  EXPECT_EQ(error_of([] {
              make_layout(mesh_of({2, 2}), parse_nd_sbp("[P(sum), P(max)]"), Shape{4});
            }),
            "[P(sum), P(max)] holds partial values of two reducers; make one of them whole first");
  EXPECT_EQ(error_of([] {
              make_layout(mesh_of({2, 2}), parse_nd_sbp("[B]"), Shape{4});
            }),
            "[B] has 1 parts, but the mesh 2x2 [0, 1, 2, 3] has 2 axes; give one part an axis");
}

// Naming rule 19 of TDL.md: the boxes decide.
TEST(Layout, TheBoxesDecideTheName) {
  Layout l{mesh_of({2}), {{10}}, {{{0, 4}}, {{4, 9}}}, {std::nullopt}};  // 10 rows pooled by 2: not the cut
  EXPECT_FALSE(name_of(l));
  EXPECT_EQ(to_string(l), "2 [0, 1] {[0,4), [4,9)}");
  l.boxes = {{{0, 5}}, {{5, 10}}};
  EXPECT_EQ(to_string(*name_of(l)), "[S(0)]");
  l.boxes = {{{5, 10}}, {{0, 5}}};  // flipped
  EXPECT_FALSE(name_of(l));
  l.boxes = {{{0, 6}}, {{4, 10}}};  // a halo
  EXPECT_FALSE(name_of(l));
  l.boxes = {{{0, 10}}, {{0, 10}}};
  EXPECT_EQ(to_string(*name_of(l)), "[B]");
  l.kinds = {tdl::Reducer::kSum};
  EXPECT_EQ(to_string(*name_of(l)), "[P(sum)]");
  // An empty part is empty, however its box is written.
  Layout e{mesh_of({2}), {{1}, {3}}, {{{0, 0}, {0, 0}}, {{0, 1}, {0, 3}}}, {std::nullopt}};
  EXPECT_EQ(to_string(*name_of(e)), "[S(0)]");
}

TEST(Layout, EveryNamedLayoutHasANameOfTheSameBoxes) {
  const uint64_t seed = 11;
  Rng rng(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> extents;
    for (int64_t a = rng.between(0, 3); a > 0; --a) extents.push_back(static_cast<int>(rng.between(1, 3)));
    std::vector<Shape> radices;
    for (int64_t a = rng.between(0, 3); a > 0; --a) {
      radices.push_back({rng.between(1, 7)});
      if (rng.below(3) == 0) radices.back().push_back(rng.between(1, 4));
    }
    NdSbp sbp;
    for (size_t a = 0; a < extents.size(); ++a) {
      uint64_t kind = rng.below(4);
      int axis = radices.empty() ? 0 : static_cast<int>(rng.below(radices.size()));
      sbp.push_back(kind == 0 ? Sbp::partial()
                    : kind == 1 || radices.empty()
                        ? Sbp::broadcast()
                        : Sbp::split(axis, static_cast<int>(rng.below(radices[axis].size()))));
    }
    Layout layout = make_layout(mesh_of(extents), sbp, radices);
    auto name = name_of(layout);
    ASSERT_TRUE(name) << "seed " << seed << " round " << round;
    EXPECT_TRUE(same_placement(make_layout(layout.mesh, *name, radices), layout))
        << to_string(sbp) << " seed " << seed << " round " << round;
  }
}

TEST(Radices, RefineToACommonFactoringOrToNone) {
  using R = std::vector<Shape>;
  EXPECT_EQ(common_radices({{12}}, {{3, 4}}), (R{{3, 4}}));
  EXPECT_EQ(common_radices({{2, 6}}, {{6, 2}}), (R{{2, 3, 2}}));
  EXPECT_EQ(common_radices({{3, 4}}, {{4, 3}}), std::nullopt);
  EXPECT_EQ(common_radices({{3}, {12}}, {{3}, {2, 6}}), (R{{3}, {2, 6}}));
  EXPECT_EQ(common_radices({{12}}, {{13}}), std::nullopt);
  EXPECT_EQ(common_radices({{1, 12}}, {{3, 4}}), (R{{3, 4}}));
  EXPECT_EQ(common_radices({}, {}), R{});

  Layout plain = make_layout(mesh_of({3}), {Sbp::split(0)}, R{{12}});
  EXPECT_TRUE(same_placement(plain, make_layout(mesh_of({3}), {Sbp::split(0)}, R{{3, 4}})));
  EXPECT_FALSE(same_placement(plain, make_layout(mesh_of({3}), {Sbp::split(0, 1)}, R{{3, 4}})));
  EXPECT_EQ(boxes_text(*over_radices(plain, {{6, 2}})), "[0,2)x[0,2) [2,4)x[0,2) [4,6)x[0,2)");
  EXPECT_FALSE(
      over_radices(make_layout(mesh_of({2}), {Sbp::split(0)}, R{{12}}), {{3, 4}}));  // [0,6) is one gate and a half
}

TEST(Radices, RefinedAndStoredBoxesAreTheSameElements) {
  const uint64_t seed = 5;
  Rng rng(seed);
  for (int round = 0; round < 500; ++round) {
    Shape fine = {rng.between(1, 4), rng.between(1, 4), rng.between(1, 3)};
    int64_t n = volume(fine);
    Interval range{rng.between(0, n), 0};
    range.hi = rng.between(range.lo, n);
    std::vector<char> seen(n);
    for (const Box& b : refined_boxes({range}, {{n}}, {fine}))
      for (const Box& s : stored_boxes(b, {fine}))
        for (int64_t i = s[0].lo; i < s[0].hi; ++i)
          EXPECT_FALSE(std::exchange(seen[i], 1)) << "seed " << seed << " round " << round;
    for (int64_t i = 0; i < n; ++i)
      EXPECT_EQ(seen[i], range.lo <= i && i < range.hi) << "seed " << seed << " round " << round;
  }
}

namespace {

// "strategy: signature" for each strategy of a formula on a mesh axis of that extent.
std::string signatures_text(std::string_view formula, const std::vector<Shape>& shapes, int p) {
  tdl::Bound bound = tdl::bind(formula, shapes);
  std::string text;
  for (const tdl::AxisStrategy& s : tdl::strategies(bound, p)) {
    auto derived = tdl::derive(bound, {p}, {s});
    if (!derived) continue;
    auto signature = signature_of(bound, *derived, mesh_of({p}));
    text += to_string(s) + ": " + (signature ? to_string(*signature) : "no name") + "\n";
  }
  return text;
}

std::string signature_text(std::string_view formula, const std::vector<Shape>& shapes, const std::vector<int>& mesh,
                           const std::vector<std::string>& axes) {
  tdl::Bound bound = tdl::bind(formula, shapes);
  std::vector<tdl::AxisStrategy> strategies;
  for (const std::string& s : axes) strategies.push_back(tdl::parse_strategy(s));
  auto derived = tdl::derive(bound, mesh, strategies);
  if (!derived) return "not derived";
  auto signature = signature_of(bound, *derived, mesh_of(mesh));
  return signature ? to_string(*signature) : "no name";
}

constexpr std::string_view kMatmul = "matmul(x, w)[i, j] = sum(k) x[i, k] * w[k, j]";

}  // namespace

// OneFlow's Table 1: the signatures of Y = X W.
TEST(Signature, OneFlowsTable1) {
  for (int p : {2, 3, 4})
    EXPECT_EQ(signatures_text(kMatmul, {{12, 8}, {8, 13}}, p),
              "i: S(0), B -> S(0)\n"
              "k: S(1), S(0) -> P(sum)\n"
              "j: B, S(1) -> S(1)\n"
              "partial{x}: P(sum), B -> P(sum)\n"
              "partial{w}: B, P(sum) -> P(sum)\n"
              "replicate: B, B -> B\n");
}

// OneFlow section 3.3's two axes: data parallel outside, model parallel inside.
TEST(Signature, OneFlowsTwoAxisTable) {
  std::vector<Shape> shapes = {{12, 8}, {8, 16}};
  EXPECT_EQ(signature_text(kMatmul, shapes, {2, 2}, {"i", "j"}), "[S(0),B], [B,S(1)] -> [S(0),S(1)]");
  EXPECT_EQ(signature_text(kMatmul, shapes, {2, 2}, {"i", "k"}), "[S(0),S(1)], [B,S(0)] -> [S(0),P(sum)]");
  EXPECT_EQ(signature_text(kMatmul, shapes, {2, 3}, {"i", "i"}), "[S(0),S(0)], [B,B] -> [S(0),S(0)]");
}

TEST(Signature, HalosHaveNoName) {
  std::string_view conv = "conv(x, w)[y] where y < x.0 - 2 = sum(r) x[y + r] * w[r]";
  EXPECT_EQ(signature_text(conv, {{12}, {3}}, {2}, {"y"}), "no name");
  tdl::Bound bound = tdl::bind(conv, {{12}, {3}});
  auto derived = tdl::derive(bound, {2}, {tdl::parse_strategy("y")});
  ASSERT_TRUE(derived);
  OpLayouts layouts = layouts_of(bound, *derived, mesh_of({2}));
  EXPECT_EQ(boxes_text(layouts.operands[0]), "[0,7) [5,12)");
  EXPECT_EQ(to_string(*name_of(layouts.operands[1])), "[B]");
  EXPECT_EQ(to_string(*name_of(layouts.results[0])), "[S(0)]");
}

TEST(Signature, FactoredAxesNameSubAxes) {
  std::string_view merge = "merge(x)[n, s * 4 + h] = x[n, s, h]";
  EXPECT_EQ(signature_text(merge, {{2, 3, 4}}, {2}, {"h"}), "S(2) -> S(1.1)");
  EXPECT_EQ(signature_text(merge, {{2, 3, 4}}, {3}, {"s"}), "S(1) -> S(1)");
  // Two packed halves: a split of j is one inside each half.
  EXPECT_EQ(signature_text("unpack(x)[g, i, j] where g < 2, j < 4 = x[i, g * 4 + j]", {{6, 8}}, {2}, {"j"}),
            "S(1.1) -> S(2)");
}

}  // namespace partita
