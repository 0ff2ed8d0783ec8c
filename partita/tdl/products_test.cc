// Tests which parts of formulas are matrix products, and the roles of their indices.
#include "partita/tdl/products.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace partita::tdl {
namespace {

using Lines = std::vector<std::string>;

// The operands that a unit for matrix products takes, by hand.
TEST(MatrixOperands, AreMultipliedUnderASumAndHaveEachAnIndexOfTheirOwn) {
  auto of = [](const char* text, const std::vector<Shape>& shapes) {
    const Bound bound = tdl::bind(text, shapes);
    Lines names;
    for (int t : matrix_operands(bound, 0, static_cast<int>(bound.stages.size())))
      names.push_back(bound.tensors[t].name);
    return names;
  };
  EXPECT_EQ(of("mm(a, b)[i, j] = sum(k) a[i, k] * b[k, j]", {{5, 7}, {7, 6}}), (Lines{"a", "b"}));
  EXPECT_EQ(of("mm(a, b, c)[i, j] = (sum(k) a[i, k] * b[k, j] * 2) + c[j]", {{5, 7}, {7, 6}, {6}}), (Lines{"a", "b"}));
  EXPECT_EQ(of("mm(a, b)[i, j] where i < 5 = sum(k) if(k <= i, a[i, k] * b[k, j], 0)", {{5, 7}, {7, 6}}),
            (Lines{"a", "b"}));
  EXPECT_EQ(of("conv(x, w)[o, y] where y < 7 = sum(c, r) x[c, y + r] * w[o, c, r]", {{3, 9}, {4, 3, 3}}),
            (Lines{"x", "w"}));
  EXPECT_EQ(of("gram(x)[i, j] = sum(k) x[i, k] * x[j, k]", {{5, 4}}), (Lines{"x"}));
  const char* const attention =
      "at(q, k, v)[i, d] =\n s[i, j] = sum(e) q[i, e] * k[j, e]\n p[i, j] = exp(s[i, j])\n sum(j) p[i, j] * v[j, d]";
  EXPECT_EQ(of(attention, {{5, 4}, {6, 4}, {6, 3}}), (Lines{"q", "k", "v", "p"}));
  const Bound bound = tdl::bind(attention, {{5, 4}, {6, 4}, {6, 3}});
  EXPECT_EQ(matrix_operands(bound, 0, 1), (std::vector<int>{0, 1}));
  EXPECT_TRUE(matrix_operands(bound, 1, 2).empty());
  for (const char* none : {"dot(a, b)[i] = sum(k) a[i, k] * b[i, k]", "outer(a, b)[i, j] = a[i, 0] * b[j, 0]",
                           "scaled(a, b)[i] = sum(k) a[i, k] * b[i, 0]", "sq(a, b)[i] = sum(k) (a[i, k]^2 + b[i, k])"})
    EXPECT_TRUE(of(none, {{5, 7}, {5, 7}}).empty()) << none;
}

// The indices of each product's batch, m, n and k, by hand.
TEST(MatrixProducts, RolesOfTheIndices) {
  auto of = [](const char* text, const std::vector<Shape>& shapes) {
    const Bound bound = tdl::bind(text, shapes);
    Lines products;
    for (const MatrixProduct& p : matrix_products(bound, 0, static_cast<int>(bound.stages.size()))) {
      std::string line;
      for (const auto* list : {&p.batch, &p.m, &p.n, &p.k}) {
        std::set<std::string> names;
        for (int i : *list) names.insert(bound.indices[static_cast<size_t>(i)].name);
        for (const std::string& name : names) line += name + " ";
        line += "|";
      }
      products.push_back(line);
    }
    return products;
  };
  EXPECT_EQ(of("mm(a, b)[h, i, j] = sum(k) a[h, i, k] * b[h, k, j]", {{2, 5, 7}, {2, 7, 6}}), (Lines{"h |i |j |k |"}));
  EXPECT_EQ(of("conv(x, w)[o, y] where y < 7 = sum(c, r) x[c, y + r] * w[o, c, r]", {{3, 9}, {4, 3, 3}}),
            (Lines{"|y |o |c r |"}));
  // Heads of q that share one of k are rows.
  EXPECT_EQ(
      of("s(q, k)[a*3 + r, i, j] where a < 2, r < 3 = sum(e) q[a*3 + r, i, e] * k[a, j, e]", {{6, 5, 4}, {2, 7, 4}}),
      (Lines{"a |i r |j |e |"}));
  // Data say which e counts for each t: a dot product, not a matrix.
  EXPECT_TRUE(of("d(g, y, ix)[t] = sum(e, d) if(ix[t] == e, g[t, d] * y[e, d], 0)", {{5, 4}, {3, 4}, {5}}).empty());
}

}  // namespace
}  // namespace partita::tdl
