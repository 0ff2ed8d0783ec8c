// Canonical forms of random formulas: equal however a formula is written, and different where formulas are.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/make_expr.h"
#include "partita/tdl/testing/formulas.h"

namespace partita::tdl {
namespace {

template <typename T>
void shuffle(std::vector<T>& list, Rng& rng) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[rng.below(i)]);
}

// The same formula written by somebody else: other names, other numbers of indices, and sides exchanged where that
// means the same.
class Rewriter {
 public:
  Rewriter(const Bound& bound, Rng& rng) : out_(bound), rng_(rng), number_(bound.indices.size()) {
    std::iota(number_.begin(), number_.end(), 0);
    shuffle(number_, rng);
  }

  std::string text() {
    std::vector<Index> indices = out_.indices;
    for (size_t i = 0; i < indices.size(); ++i) {
      out_.indices[static_cast<size_t>(number_[i])] = indices[i];
      out_.indices[static_cast<size_t>(number_[i])].name = fmt::format("n{}", number_[i]);
    }
    for (size_t t = 0; t < out_.tensors.size(); ++t) out_.tensors[t].name = fmt::format("t{}", t);
    for (Stage& stage : out_.stages) {
      for (Affine& a : stage.lhs) rewrite(a);
      rewrite(stage.body);
    }
    return to_text(out_);
  }

 private:
  void rewrite(Affine& a) {
    for (Affine::Term& term : a.terms) {
      if (term.atom.kind == Affine::Atom::Kind::kIndex) {
        term.atom.index = number_[static_cast<size_t>(term.atom.index)];
      } else {
        Affine inner = *term.atom.inner;
        rewrite(inner);
        term.atom.inner = std::make_shared<const Affine>(std::move(inner));
      }
    }
    shuffle(a.terms, rng_);
  }
  void rewrite(Expr& e) {
    static const std::map<std::string, std::string> kMirrored = {
        {"+", "+"},   {"*", "*"},   {"and", "and"}, {"or", "or"}, {"max", "max"}, {"min", "min"},
        {"==", "=="}, {"!=", "!="}, {"<", ">"},     {">", "<"},   {"<=", ">="},   {">=", "<="}};
    if (e.kind == ExprKind::kIndex) e.index = number_[static_cast<size_t>(e.index)];
    for (int& i : e.reduced) i = number_[static_cast<size_t>(i)];
    shuffle(e.reduced, rng_);
    for (Affine& a : e.subscripts) rewrite(a);
    for (Expr& a : e.args) rewrite(a);
    if (e.kind != ExprKind::kBinary || !kMirrored.contains(e.function)) return;
    // (a + b) + c is a + (b + c), and b + a. Two numbers side by side would be made one.
    if (e.function == kMirrored.at(e.function) && e.args[0].function == e.function && e.args[0].function != "==" &&
        e.args[0].function != "!=" && !is_number(e.args[0].args[1]) && !is_number(e.args[1]) && rng_.below(2) == 0) {
      Expr a = e.args[0].args[0];
      e.args[1] = Expr{.kind = ExprKind::kBinary, .function = e.function, .args = {e.args[0].args[1], e.args[1]}};
      e.args[0] = std::move(a);
    }
    if (rng_.below(2) == 0) return;
    std::swap(e.args[0], e.args[1]);
    e.function = kMirrored.at(e.function);
  }

  Bound out_;
  Rng& rng_;
  std::vector<int> number_;  // of each index in the new formula
};

void expect_equal_when_rewritten(const std::string& text, const std::vector<Shape>& shapes, Rng& rng, int times) {
  const Bound bound = tdl::bind(text, shapes);
  const std::string form = canonical(bound);
  for (int i = 0; i < times; ++i) {
    const std::string other = Rewriter(bound, rng).text();
    EXPECT_EQ(canonical(tdl::bind(other, shapes)), form) << text << "\nwritten as\n" << other;
  }
}

TEST(CanonicalForms, OfRandomFormulasAreEqualHoweverTheyAreWritten) {
  constexpr uint64_t kSeed = 20;
  fmt::print("seed {}\n", kSeed);
  int formulas = 0;
  for (uint64_t seed = kSeed; formulas < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const testing::Formula f = testing::random_formula(rng);
    try {
      tdl::bind(f.text, f.shapes);
    } catch (const Error&) {
      continue;  // not all of them bind
    }
    ++formulas;
    expect_equal_when_rewritten(f.text, f.shapes, rng, 5);
  }
}

TEST(CanonicalForms, OfSymmetricFormulasAreEqualHoweverTheyAreWritten) {
  constexpr uint64_t kSeed = 21;
  fmt::print("seed {}\n", kSeed);
  Rng rng(kSeed);
  for (const char* text : {
           "gram(x)[i, j] = sum(k) x[i, k] * x[j, k]",
           "two(x)[] = sum(a, b, c, d) x[a, b] * x[b, a] * x[c, d] * x[d, c]",
           "ring(x)[] = sum(a, b, c, d, e, f) x[a, b] * x[b, c] * x[c, d] * x[d, e] * x[e, f] * x[f, a]",
           "rings(x)[] = sum(a, b, c, d, e, f) x[a, b] * x[b, c] * x[c, a] * x[d, e] * x[e, f] * x[f, d]",
           "all(x)[] = sum(a, b, c, d, e) x[a, a] * x[b, b] * x[c, c] * x[d, d] * x[e, e]",
           "diagonal(x)[i, j] = if(i == j, x[i, j] + x[j, i], x[i, i] * x[j, j])",
           "equal(x)[] = sum(a, b, c, d) if(a == b and c == d and a + b != 2*c, x[a, b] * x[c, d], 0)",
           "steps(x)[] = sum(a, b, c) if((a + b) % 2 == 0 and (b + c) % 2 == 0 and (c + a) % 2 == 0, x[a, b] + x[c, "
           "c], 1)",
       })
    expect_equal_when_rewritten(text, {{4, 4}}, rng, 30);
  // Rows and columns alike, and a group of one channel.
  for (const int64_t stride : {1, 2})
    expect_equal_when_rewritten(
        fmt::format("grad(g, w)[n, q + c, u, v] where n < 2, q < 6, o < 2, c < 1, u < 9, v < 9 = sum(o, r, t) "
                    "if((u + 1 - r) % {0} == 0 and (v + 1 - t) % {0} == 0, "
                    "g[n, q*2 + o, (u + 1 - r)//{0}, (v + 1 - t)//{0}] * w[q*2 + o, c, r, t], 0)",
                    stride),
        {{2, 12, 5, 5}, {12, 1, 3, 3}}, rng, 30);
}

// x[a, b] for every edge from a to b, summed over the vertices: two are equal exactly if the graphs are isomorphic.
using Edges = std::vector<std::pair<int, int>>;

std::string text_of(const Edges& edges) {
  std::vector<int> vertices;
  std::vector<std::string> factors;
  for (const auto& [a, b] : edges) {
    factors.push_back(fmt::format("x[i{}, i{}]", a, b));
    for (int v : {a, b})
      if (std::find(vertices.begin(), vertices.end(), v) == vertices.end()) vertices.push_back(v);
  }
  std::string names;
  for (int v : vertices) names += fmt::format("{}i{}", names.empty() ? "" : ", ", v);
  return fmt::format("f(x)[] = sum({}) {}", names, fmt::join(factors, " * "));
}

bool isomorphic(Edges a, const Edges& b, int vertices) {
  std::sort(a.begin(), a.end());
  std::vector<int> to(static_cast<size_t>(vertices));
  std::iota(to.begin(), to.end(), 0);
  do {
    Edges moved;
    for (const auto& [from, till] : b) moved.emplace_back(to[static_cast<size_t>(from)], to[static_cast<size_t>(till)]);
    std::sort(moved.begin(), moved.end());
    if (moved == a) return true;
  } while (std::next_permutation(to.begin(), to.end()));
  return false;
}

TEST(CanonicalForms, OfProductsAreEqualExactlyIfTheirGraphsAreIsomorphic) {
  constexpr uint64_t kSeed = 22;
  constexpr int kVertices = 6, kGraphs = 60;
  fmt::print("seed {}\n", kSeed);
  Rng rng(kSeed);
  std::vector<Edges> graphs;
  std::vector<std::string> forms;
  for (int g = 0; g < kGraphs; ++g) {
    // Each vertex has an edge to another and one from another, so that refinement alone tells few of them apart.
    std::vector<int> to(kVertices);
    std::iota(to.begin(), to.end(), 0);
    Edges edges;
    for (int round = 0; round < 1 + g % 2; ++round) {
      shuffle(to, rng);
      for (int v = 0; v < kVertices; ++v) edges.emplace_back(v, to[static_cast<size_t>(v)]);
    }
    shuffle(edges, rng);
    graphs.push_back(edges);
    forms.push_back(canonical(tdl::bind(text_of(edges), {{3, 3}})));
  }
  int equal = 0;
  for (size_t a = 0; a < graphs.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      if (graphs[a].size() != graphs[b].size()) continue;
      const bool same = isomorphic(graphs[a], graphs[b], kVertices);
      equal += same;
      EXPECT_EQ(forms[a] == forms[b], same) << text_of(graphs[a]) << "\n" << text_of(graphs[b]);
    }
  EXPECT_GT(equal, 20);
}

// What a formula's axes factor into depends on how it is written; its form does not.
TEST(CanonicalForms, AreOfAxesAsStored) {
  const std::vector<Shape> shapes = {{6, 4}};
  EXPECT_EQ(canonical(tdl::bind("f(x)[q + o, j] where q < 6, o < 1 = x[q + o, j]", shapes)),
            canonical(tdl::bind("f(x)[i, j] = x[i, j]", shapes)));
  EXPECT_EQ(canonical(tdl::bind("f(x)[q, j] where q < 6, o < 1 = sum(o) x[q - o, j]", shapes)),
            canonical(tdl::bind("f(x)[i, j] = x[i, j]", shapes)));
  EXPECT_NE(canonical(tdl::bind("f(x)[q*2 + o, j] where q < 3, o < 2 = x[o*3 + q, j]", shapes)),
            canonical(tdl::bind("f(x)[q*2 + o, j] where q < 3, o < 2 = x[q*2 + o, j]", shapes)));
}

}  // namespace
}  // namespace partita::tdl
