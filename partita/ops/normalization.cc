// Batch norm over all axes but the second. Its statistics are over the global batch, whatever the plan.
#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/ops/declare.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

std::vector<TensorId> batch_norm_gradient(GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
  if (g[1].valid() || g[2].valid())
    fail("batch_norm '{}': no gradient flows through the batch's mean and variance", forward.name);
  const std::vector<TensorId> d = build.ops(
      "batch_norm_grad", {forward.operands[0], forward.operands[1], forward.results[1], forward.results[2], g[0]},
      {{"eps", forward.attributes.at("eps")}}, forward.name + ".grad");
  return {d[0], d[1], d[2]};
}

// With the running statistics that the training op's running_averages write.
std::vector<TensorId> batch_norm_evaluation(GraphBuilder& build, const Graph& graph, const Op& forward,
                                            const std::vector<TensorId>& operands) {
  auto running = [&](TensorId statistic) {
    for (const Op& op : graph.ops)
      if (op.definition == "running_average" && op.operands[1] == statistic) return graph.tensor(op.operands[0]);
    fail("batch_norm '{}' has no running statistics to be evaluated with", forward.name);
  };
  auto state = [&](const Tensor& t) {
    if (TensorId id = build.graph().find_tensor(t.name); id.valid()) return id;
    const TensorId id = build.state(t.name, t.shape, t.initial_fill, t.dtype);
    build.graph().tensor(id).values = t.values;
    build.graph().tensor(id).role = t.role;
    return id;
  };
  const TensorId mean = state(running(forward.results[1])), variance = state(running(forward.results[2]));
  const TensorId y = build.op("batch_norm_inference", {operands[0], operands[1], operands[2], mean, variance},
                              {{"eps", forward.attributes.at("eps")}}, forward.name);
  return {y, {}, {}};
}

}  // namespace

void declare_normalization(OpRegistry& registry) {
  declare(registry, "batch_norm",
          "(x - mean) / sqrt(variance + eps) * w + b with the batch's statistics, which are results too")
      .formula(
          "batch_norm(x, w, b) -> y, mu, va =\n"
          "mu[c] = (sum(n, ..s) x[n, c, ..s]) / (ext(n) * ext(..s))\n"
          "va[c] = (sum(n, ..s) (x[n, c, ..s] - mu[c])^2) / (ext(n) * ext(..s))\n"
          "y[n, c, ..s] = (x[n, c, ..s] - mu[c]) / sqrt(va[c] + eps) * w[c] + b[c]")
      .attribute("eps", 1e-5)
      .gradient(batch_norm_gradient)
      .evaluation(batch_norm_evaluation)
      .example({{5, 3, 2, 4}, {3}, {3}})
      .example({{5, 7}, {7}, {7}});
  declare(registry, "batch_norm_grad", "gradients of batch_norm from its saved statistics")
      .formula(
          "batch_norm_grad(x, w, mu, va, g) -> dx, dw, db =\n"
          "z[n, c, ..s] = (x[n, c, ..s] - mu[c]) / sqrt(va[c] + eps)\n"
          "db[c] = sum(n, ..s) g[n, c, ..s]\n"
          "dw[c] = sum(n, ..s) g[n, c, ..s] * z[n, c, ..s]\n"
          "dx[n, c, ..s] = w[c] / sqrt(va[c] + eps) * (g[n, c, ..s] - (db[c] + z[n, c, ..s] * dw[c]) / (ext(n) * "
          "ext(..s)))")
      .attribute("eps", 1e-5)
      .not_differentiable()
      .domain(0.4, 1.9)
      .example({{5, 3, 2, 4}, {3}, {3}, {3}, {5, 3, 2, 4}})
      .example({{5, 7}, {7}, {7}, {7}, {5, 7}});
  declare(registry, "batch_norm_inference", "(x - rm) / sqrt(rv + eps) * w + b with given statistics")
      .formula(
          "batch_norm_inference(x, w, b, rm, rv)[n, c, ..s] = (x[n, c, ..s] - rm[c]) / sqrt(rv[c] + eps) * w[c] + b[c]")
      .attribute("eps", 1e-5)
      .domain(0.4, 1.9)
      .example({{5, 3, 2, 4}, {3}, {3}, {3}, {3}});
  declare(registry, "running_average", "r' = (1 - momentum) r + momentum scale s, in place")
      .formula("running_average(r, s)[..i] = (1 - momentum) * r[..i] + momentum * scale * s[..i]")
      .attribute("momentum", 0.1)
      .attribute("scale", 1)
      .not_differentiable()
      .replaces({0})
      .example({{7}, {7}}, {{"scale", 1.25}});
}

TensorId batch_norm_training(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                             TensorId running_variance, double eps, double momentum, std::string name) {
  const Shape shape = build.shape(x);
  const std::vector<TensorId> results = build.ops("batch_norm", {x, scale, bias}, {{"eps", eps}}, std::move(name));
  const std::string op = build.graph().ops.back().name;
  const double count = static_cast<double>(volume(shape)) / static_cast<double>(shape.at(1));
  if (count < 2) fail("batch_norm '{}': one value a channel has no variance (input [{}])", op, fmt::join(shape, "x"));
  build.set_phase(Phase::kUpdate);
  build.op("running_average", {running_mean, results[1]}, {{"momentum", momentum}}, op + ".running_mean");
  build.op("running_average", {running_variance, results[2]}, {{"momentum", momentum}, {"scale", count / (count - 1)}},
           op + ".running_var");
  build.set_phase(Phase::kForward);
  return results[0];
}

}  // namespace partita
