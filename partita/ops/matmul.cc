// Declares matrix products. matmul_nt and matmul_tn are the two gradients of matmul, whose kernels take an operand
// transposed.
#include "partita/base/error.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

// The groups of batch axes of the two operands and of the result: the whole batch shares a matrix without them.
struct Batch {
  std::string a, b, result;
};

Batch batch(const OpInstance& op) {
  if (op.shapes.size() != 2 || op.shapes[0].size() < 2 || op.shapes[1].size() < 2)
    fail("a matrix product takes two operands of two or more axes");
  const bool a = op.shapes[0].size() > 2, b = op.shapes[1].size() > 2;
  return {a ? "..n, " : "", b ? "..n, " : "", a || b ? "..n, " : ""};
}

std::string matmul(const OpInstance& op) {
  const Batch n = batch(op);
  return fmt::format("matmul(a, b)[{}i, j] = sum(k) a[{}i, k] * b[{}k, j]", n.result, n.a, n.b);
}

std::string matmul_nt(const OpInstance& op) {
  const Batch n = batch(op);
  return fmt::format("matmul_nt(a, b)[{}i, j] = sum(k) a[{}i, k] * b[{}j, k]", n.result, n.a, n.b);
}

std::string matmul_tn(const OpInstance& op) {
  const Batch n = batch(op);
  return fmt::format("matmul_tn(a, b)[{}i, j] = sum(k) a[{}k, i] * b[{}k, j]", n.result, n.a, n.b);
}

// With shared weights, it sums over the batch axes too: the weight gradient of a batched product.
std::string matmul_tn_sum(const OpInstance& op) {
  if (op.shapes.size() != 2 || op.shapes[0].size() < 3) fail("matmul_tn_sum takes two operands of three or more axes");
  return "matmul_tn_sum(a, b)[i, j] = sum(..n, k) a[..n, k, i] * b[..n, k, j]";
}

std::string linear(const OpInstance& op) {
  if (op.shapes.size() != 2 && op.shapes.size() != 3)
    fail("linear takes x, w and perhaps a bias, not {} operands", op.shapes.size());
  const char* w = op.integer("transposed") ? "w[o, k]" : "w[k, o]";
  if (op.shapes.size() == 2) return fmt::format("linear(x, w)[..n, o] = sum(k) x[..n, k] * {}", w);
  return fmt::format("linear(x, w, b)[..n, o] = sum(k) (x[..n, k] * {}) + b[o]", w);
}

}  // namespace

void declare_matmul(OpRegistry& registry) {
  declare(registry, "matmul", "matrix product, batched over the axes before the last two")
      .low_precision()
      .formula(matmul)
      .match()
      .example({{5, 7}, {7, 6}})
      .example({{3, 1, 5, 4}, {2, 4, 6}})
      .example({{3, 5, 4}, {4, 6}});
  declare(registry, "matmul_nt", "matrix product with b transposed")
      .low_precision()
      .formula(matmul_nt)
      .match()
      .example({{5, 7}, {6, 7}})
      .example({{3, 5, 7}, {3, 6, 7}})
      .example({{3, 5, 7}, {6, 7}});
  declare(registry, "matmul_tn", "matrix product with a transposed")
      .low_precision()
      .formula(matmul_tn)
      .match()
      .example({{7, 5}, {7, 6}})
      .example({{3, 7, 5}, {3, 7, 6}});
  declare(registry, "matmul_tn_sum", "matrix product with a transposed, summed over the batch")
      .low_precision()
      .formula(matmul_tn_sum)
      .match()
      .example({{3, 7, 5}, {3, 7, 6}});
  declare(registry, "linear", "x w + b, the bias where there is one; `transposed`: w is [o, k]")
      .low_precision()
      .formula(linear)
      .attribute("transposed", 0)
      .example({{5, 7}, {7, 6}, {6}})
      .example({{3, 5, 7}, {7, 6}, {6}})
      .example({{5, 7}, {6, 7}, {6}}, {{"transposed", 1}})
      .example({{5, 7}, {6, 7}}, {{"transposed", 1}});
  declare(registry, "bias_grad", "sum over all axes but the last")
      .formula("bias_grad(g)[o] = sum(..n) g[..n, o]")
      .match()
      .example({{5, 7}})
      .example({{3, 5, 7}});
}

}  // namespace partita
