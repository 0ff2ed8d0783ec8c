// Declares reductions over `axes` (none given: all), which stay with extent 1 under `keepdims`.
#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

struct Reduction {
  std::string all;      // the operand's subscripts: "i0, r1, i2"
  std::string kept;     // the result's: "i0, i2", or with keepdims "i0, u1, i2"
  std::string reduced;  // "r1"
  std::string others;   // "i0, i2" also under keepdims
  std::string read;     // the subscripts that read the result back: "i0, i2", or "i0, 0, i2"
  std::string where;    // " where u1 < 1", or nothing
  std::string number;   // the element's row-major number among the reduced: "r1*4 + r3"
  std::string again;    // `reduced` and `all` under second names: "a1"
  std::string all_again;
  std::string number_again;
  std::string where_again;  // extents of both names
  int64_t count = 1;        // elements reduced to one
};

Reduction reduction(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const int64_t rank = static_cast<int64_t>(x.size());
  std::vector<bool> is_reduced(x.size(), op.list("axes").empty());
  for (int64_t axis : op.list("axes")) {
    if (axis < -rank || axis >= rank) fail("axis {} of {} axes", axis, rank);
    is_reduced[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  const bool keepdims = op.integer("keepdims") != 0;
  std::vector<std::string> all, kept, reduced, others, read, where, again, all_again, where_again;
  for (std::size_t a = 0; a < x.size(); ++a) {
    all.push_back(fmt::format("{}{}", is_reduced[a] ? "r" : "i", a));
    all_again.push_back(fmt::format("{}{}", is_reduced[a] ? "a" : "i", a));
    if (!is_reduced[a]) {
      kept.push_back(all.back());
      others.push_back(all.back());
      read.push_back(all.back());
      continue;
    }
    reduced.push_back(all.back());
    again.push_back(all_again.back());
    where_again.push_back(fmt::format("r{0} < {1}, a{0} < {1}", a, x[a]));
    if (!keepdims) continue;
    kept.push_back(fmt::format("u{}", a));
    where.push_back(fmt::format("u{} < 1", a));
    read.push_back("0");
  }
  if (reduced.empty()) fail("a reduction of a scalar");
  Reduction r;
  std::vector<std::string> number, number_again;
  for (std::size_t a = x.size(); a-- > 0;) {
    if (!is_reduced[a]) continue;
    const std::string stride = r.count == 1 ? "" : fmt::format("*{}", r.count);
    number.insert(number.begin(), fmt::format("r{}{}", a, stride));
    number_again.insert(number_again.begin(), fmt::format("a{}{}", a, stride));
    r.count *= x[a];
  }
  auto list = [](const std::vector<std::string>& items, const char* separator = ", ") {
    return fmt::format("{}", fmt::join(items, separator));
  };
  r.all = list(all), r.kept = list(kept), r.reduced = list(reduced), r.others = list(others), r.read = list(read);
  r.where = where.empty() ? "" : " where " + list(where);
  r.number = list(number, " + "), r.again = list(again), r.all_again = list(all_again),
  r.number_again = list(number_again, " + ");
  r.where_again = list(where_again);
  return r;
}

// The gradient goes to one winner, the first in row-major order, as in PyTorch.
std::string extremum_grad(const OpInstance& op) {
  const Reduction r = reduction(op);
  return fmt::format(
      "extremum_grad(x, y, g)[{0}] =\n"
      "k[{1}] = min({2}) if(x[{0}] == y[{3}], {4}, inf)\n"
      "if(k[{1}] == {4}, g[{3}], 0)",
      r.all, r.others, r.reduced, r.read, r.number);
}

// g times the product of all others, correct even if some are 0.
std::string prod_grad(const OpInstance& op) {
  const Reduction r = reduction(op);
  return fmt::format(
      "prod_grad(x, g)[{0}] where {1} =\n"
      "g[{2}] * (prod({3}) if({4} == {5}, 1, x[{6}]))",
      r.all, r.where_again, r.read, r.again, r.number_again, r.number, r.all_again);
}

// arg max over the last axis, the first of equals.
constexpr const char* kArgmax =
    "argmax(x)[..b] =\n"
    "m[..b] = max(j) x[..b, j]\n"
    "min(j) if(x[..b, j] == m[..b], j, inf)";

}  // namespace

void declare_reduce(OpRegistry& registry) {
  const std::vector<std::pair<Shape, tdl::Attributes>> examples{
      {{3, 5, 4}, {{"axes.0", 1}}}, {{3, 5, 4}, {{"axes.0", 0}, {"axes.1", -1}, {"keepdims", 1}}}, {{5, 7}, {}}};
  struct Kind {
    const char *name, *summary, *reducer;
    bool mean;
    const char* gradient;
  };
  for (const Kind& kind : {Kind{"reduce_sum", "sum over `axes`", "sum", false, ""},
                           Kind{"reduce_mean", "mean over `axes`", "sum", true, ""},
                           Kind{"reduce_max", "largest over `axes`", "max", false, "extremum_grad"},
                           Kind{"reduce_min", "smallest over `axes`", "min", false, "extremum_grad"},
                           Kind{"reduce_prod", "product over `axes`", "prod", false, "prod_grad"}}) {
    Declaration declaration(registry, kind.name, kind.summary);
    declaration.list("axes").attribute("keepdims", 0).formula([kind](const OpInstance& op) {
      const Reduction r = reduction(op);
      const std::string body = fmt::format("{}({}) x[{}]", kind.reducer, r.reduced, r.all);
      return fmt::format("{}(x)[{}]{} = {}", kind.name, r.kept, r.where,
                         kind.mean ? fmt::format("({}) / {}", body, r.count) : body);
    });
    if (kind.name == std::string_view("reduce_sum") || kind.name == std::string_view("reduce_prod"))
      declaration.full_precision();
    const std::string gradient = kind.gradient;
    if (!gradient.empty())
      declaration.gradient(
          [gradient](GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) -> std::vector<TensorId> {
            std::vector<TensorId> operands{forward.operands[0]};
            if (gradient == "extremum_grad") operands.push_back(forward.results[0]);
            operands.push_back(g[0]);
            return {build.op(gradient, operands, forward.attributes, forward.name + ".grad.x")};
          });
    for (const auto& [shape, attributes] : examples) declaration.example({shape}, attributes);
  }
  declare(registry, "extremum_grad", "gradient of reduce_max and reduce_min: to the first of the winners")
      .formula(extremum_grad)
      .list("axes")
      .attribute("keepdims", 0)
      .not_differentiable()
      .example({{3, 5, 4}, {3, 4}, {3, 4}}, {{"axes.0", 1}})
      .example({{3, 5, 4}, {1, 5, 1}, {1, 5, 1}}, {{"axes.0", 0}, {"axes.1", -1}, {"keepdims", 1}});
  declare(registry, "prod_grad", "gradient of reduce_prod, right also where factors are 0")
      .formula(prod_grad)
      .list("axes")
      .attribute("keepdims", 0)
      .not_differentiable()
      .example({{3, 5, 4}, {3, 4}}, {{"axes.0", 1}})
      .example({{3, 5, 4}, {1, 5, 1}}, {{"axes.0", 0}, {"axes.1", -1}, {"keepdims", 1}});
  declare(registry, "argmax", "the number of the largest along the last axis, the first of equals")
      .formula(kArgmax)
      .dtypes([](const OpInstance&) { return std::vector<DType>{DType::kInt64}; })
      .not_differentiable()
      .example({{5, 7}});
}

}  // namespace partita
