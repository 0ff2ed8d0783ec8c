// Declares batch norm over all axes but the second. Its statistics are over the global batch, or over each group of its
// consecutive samples, whatever the plan. Its gradients are declared: they read the saved mean and variance.
//
// Example: 8 samples in 4 groups, x [8, 3, 5, 5]. Samples 0 and 1 have one mean and variance a channel, which are row 0
// of mu [4, 3] and va [4, 3]. Devices, or micro-batches, with whole groups exchange nothing. PyTorch's running mean
// after the four, one after another, is (1-a)^4 r + sum(g) a (1-a)^(3-g) mu[g]. Each group adds its term to one tensor
// [3], and one op a step adds that to the decayed r.
#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"
#include "partita/graph/batch.h"
#include "partita/graph/builder.h"
#include "partita/graph/infer.h"
#include "partita/ops/declare.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

std::vector<TensorId> batch_norm_gradient(GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
  if (g[1].valid() || g[2].valid())
    fail("{} '{}': no gradient flows through the batch's mean and variance", forward.definition, forward.name);
  const std::vector<TensorId> d =
      build.ops(forward.definition + "_grad",
                {forward.operands[0], forward.operands[1], forward.results[1], forward.results[2], g[0]},
                forward.attributes, forward.name + ".grad");
  return {d[0], d[1], d[2]};
}

// The tensor that running_average of a statistic, a result of `forward`, writes.
TensorId running(GraphBuilder& build, const Graph& graph, const Op& forward, TensorId statistic) {
  for (const Op& op : graph.ops)
    if (op.definition == "group_average" && op.operands[0] == statistic) statistic = op.results[0];
  const auto average = std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    return op.definition == "running_average" && op.operands[1] == statistic;
  });
  if (average == graph.ops.end())
    fail("{} '{}' has no running statistics to be evaluated with", forward.definition, forward.name);
  const Tensor& t = graph.tensor(average->operands[0]);
  if (TensorId id = build.graph().find_tensor(t.name); id.valid()) return id;
  const TensorId id = build.state(t.name, t.shape, t.initial_fill, t.dtype);
  build.graph().tensor(id).values = t.values;
  build.graph().tensor(id).role = t.role;
  return id;
}

// Evaluates with the running statistics that the training op's running_averages write.
std::vector<TensorId> batch_norm_evaluation(GraphBuilder& build, const Graph& graph, const Op& forward,
                                            const std::vector<TensorId>& operands) {
  const TensorId mean = running(build, graph, forward, forward.results[1]),
                 variance = running(build, graph, forward, forward.results[2]);
  const TensorId y = build.op("batch_norm_inference", {operands[0], operands[1], operands[2], mean, variance},
                              {{"eps", forward.attributes.at("eps")}}, forward.name);
  return {y, {}, {}};
}

// The dtypes: x's, and statistics in float32 at least.
std::vector<DType> forward_dtypes(const OpInstance& op) {
  const DType statistics = compute_dtype(promoted_dtype({op.dtypes.at(0), op.dtypes.at(1)}));
  return {op.dtypes.at(0), statistics, statistics};
}

std::vector<DType> gradient_dtypes(const OpInstance& op) { return {op.dtypes.at(0), op.dtypes.at(1), op.dtypes.at(1)}; }

// ---------------------------------------------------------------- in groups of samples

// Rows of each group; axis 0 of x is (group, row), or group alone if each has one row.
int64_t rows_of_group(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const int64_t groups = op.integer("groups");
  if (x.size() < 2) fail("batch norm takes x [n, c, ..], not [{}]", fmt::join(x, "x"));
  if (groups < 1 || x[0] % groups) fail("{} samples are not {} equal groups", x[0], groups);
  return x[0] / groups;
}

// The texts that make formulas of x in groups.
struct Groups {
  std::string all, inside;  // subscripts of x; the indices that are summed in a group
  std::string where;        // " where ..", or nothing
  std::string count;        // how many values have one mean
};

Groups groups_of(const OpInstance& op) {
  const int64_t rows = rows_of_group(op), groups = op.integer("groups");
  if (rows == 1 && op.shapes[0].size() == 2) fail("one value a channel has no variance ({} groups)", groups);
  if (rows == 1) return {"u, c, ..s", "..s", "", "ext(..s)"};
  return {fmt::format("u*{} + n, c, ..s", rows), "n, ..s", fmt::format(" where u < {}, n < {}", groups, rows),
          fmt::format("({} * ext(..s))", rows)};
}

std::string in_groups(const OpInstance& op) {
  const Groups g = groups_of(op);
  return fmt::format(
      "batch_norm_in_groups(x, w, b) -> y, mu, va{2} =\n"
      "mu[u, c] = (sum({1}) x[{0}]) / {3}\n"
      "va[u, c] = (sum({1}) (x[{0}] - mu[u, c])^2) / {3}\n"
      "y[{0}] = (x[{0}] - mu[u, c]) / sqrt(va[u, c] + eps) * w[c] + b[c]",
      g.all, g.inside, g.where, g.count);
}

std::string in_groups_grad(const OpInstance& op) {
  const Groups g = groups_of(op);
  return fmt::format(
      "batch_norm_in_groups_grad(x, w, mu, va, g) -> dx, dw, db{2} =\n"
      "z[{0}] = (x[{0}] - mu[u, c]) / sqrt(va[u, c] + eps)\n"
      "p[u, c] = sum({1}) g[{0}]\n"
      "q[u, c] = sum({1}) g[{0}] * z[{0}]\n"
      "db[c] = sum(u) p[u, c]\n"
      "dw[c] = sum(u) q[u, c]\n"
      "dx[{0}] = w[c] / sqrt(va[u, c] + eps) * (g[{0}] - (p[u, c] + z[{0}] * q[u, c]) / {3})",
      g.all, g.inside, g.where, g.count);
}

void declare_groups(OpRegistry& registry) {
  declare(registry, "batch_norm_in_groups",
          "batch norm with the statistics of each of `groups` groups of consecutive samples, which are results too")
      .formula(in_groups)
      .dtypes(forward_dtypes)
      .required("groups")
      .attribute("eps", 1e-5)
      .gradient(batch_norm_gradient)
      .evaluation(batch_norm_evaluation)
      .example({{6, 3, 2, 4}, {3}, {3}}, {{"groups", 2}})
      .example({{8, 5}, {5}, {5}}, {{"groups", 4}})
      .example({{4, 3, 5}, {3}, {3}}, {{"groups", 4}});
  declare(registry, "batch_norm_in_groups_grad", "gradients of batch_norm_in_groups from its saved statistics")
      .formula(in_groups_grad)
      .dtypes(gradient_dtypes)
      .required("groups")
      .attribute("eps", 1e-5)
      .not_differentiable()
      .domain(0.4, 1.9)
      .example({{6, 3, 2, 4}, {3}, {2, 3}, {2, 3}, {6, 3, 2, 4}}, {{"groups", 2}})
      .example({{8, 5}, {5}, {4, 5}, {4, 5}, {8, 5}}, {{"groups", 4}})
      .example({{4, 3, 5}, {3}, {4, 3}, {4, 3}, {4, 3, 5}}, {{"groups", 4}});
  declare(registry, "group_average",
          "what `groups` running averages by `momentum`, one after another, add to what is left of the first value")
      .formula([](const OpInstance& op) {
        return fmt::format("group_average(s)[..i] = sum(u) momentum * scale * (1 - momentum)^({} - u) * s[u, ..i]",
                           op.shapes.at(0).at(0) - 1);
      })
      .dtypes(dtype_of_first)
      .attribute("momentum", 0.1)
      .attribute("scale", 1)
      .not_differentiable()
      .example({{4, 7}}, {{"scale", 1.25}});
}

}  // namespace

void declare_batch_norm(OpRegistry& registry) {
  declare(registry, "batch_norm",
          "(x - mean) / sqrt(variance + eps) * w + b with the batch's statistics, which are results too")
      .formula(
          "batch_norm(x, w, b) -> y, mu, va =\n"
          "mu[c] = (sum(n, ..s) x[n, c, ..s]) / (ext(n) * ext(..s))\n"
          "va[c] = (sum(n, ..s) (x[n, c, ..s] - mu[c])^2) / (ext(n) * ext(..s))\n"
          "y[n, c, ..s] = (x[n, c, ..s] - mu[c]) / sqrt(va[c] + eps) * w[c] + b[c]")
      .dtypes(forward_dtypes)
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
          "dx[n, c, ..s] = w[c] / sqrt(va[c] + eps) * "
          "(g[n, c, ..s] - (db[c] + z[n, c, ..s] * dw[c]) / (ext(n) * ext(..s)))")
      .dtypes(gradient_dtypes)
      .attribute("eps", 1e-5)
      .not_differentiable()
      .domain(0.4, 1.9)
      .example({{5, 3, 2, 4}, {3}, {3}, {3}, {5, 3, 2, 4}})
      .example({{5, 7}, {7}, {7}, {7}, {5, 7}});
  declare(registry, "batch_norm_inference", "(x - rm) / sqrt(rv + eps) * w + b with given statistics")
      .formula(
          "batch_norm_inference(x, w, b, rm, rv)[n, c, ..s] = (x[n, c, ..s] - rm[c]) / sqrt(rv[c] + eps) * w[c] + b[c]")
      .dtypes(dtype_of_first)
      .attribute("eps", 1e-5)
      .domain(0.4, 1.9)
      .example({{5, 3, 2, 4}, {3}, {3}, {3}, {3}});
  declare(registry, "running_average", "r' = (1 - momentum) r + momentum scale s, in place")
      .formula("running_average(r, s)[..i] = (1 - momentum) * r[..i] + momentum * scale * s[..i]")
      .dtypes(dtype_of_first)
      .attribute("momentum", 0.1)
      .attribute("scale", 1)
      .not_differentiable()
      .replaces({0})
      .example({{7}, {7}}, {{"scale", 1.25}});
  declare(registry, "batch_statistic", "s, a mean or variance of the batch; in evaluation its running average")
      .full_precision()
      .formula("batch_statistic(s)[..i] = s[..i]")
      .dtypes(dtype_of_first)
      .evaluation([](GraphBuilder& build, const Graph& graph, const Op& forward, const std::vector<TensorId>&) {
        return std::vector<TensorId>{running(build, graph, forward, forward.results[0])};
      })
      .example({{7}});
  declare_groups(registry);
}

namespace {

// The factor from the biased variance of a channel's values to the unbiased one, in each group; none for a single
// value.
std::optional<double> unbiased_scale(const Shape& x, int64_t groups = 1) {
  const double count = static_cast<double>(volume(x)) / static_cast<double>(x.at(1) * groups);
  return count < 2 ? std::nullopt : std::optional(count / (count - 1));
}

[[noreturn]] void fail_for_one_value(const std::string& op, const Shape& x, int64_t groups = 1) {
  fail("batch_norm '{}': one value a channel has no variance (input [{}]{})", op, fmt::join(x, "x"),
       groups == 1 ? std::string() : fmt::format(" in {} groups", groups));
}

}  // namespace

TensorId batch_norm_of_any_batch(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                                 TensorId running_variance, double eps, double momentum, std::string name) {
  const double unbiased = unbiased_scale(build.shape(x)).value_or(1);
  const std::vector<TensorId> results = build.ops("batch_norm", {x, scale, bias}, {{"eps", eps}}, std::move(name));
  const std::string op = build.graph().ops.back().name;
  build.set_phase(Phase::kUpdate);
  build.op("running_average", {running_mean, results[1]}, {{"momentum", momentum}}, op + ".running_mean");
  build.op("running_average", {running_variance, results[2]}, {{"momentum", momentum}, {"scale", unbiased}},
           op + ".running_var");
  build.set_phase(Phase::kForward);
  return results[0];
}

TensorId batch_norm_training(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                             TensorId running_variance, double eps, double momentum, std::string name) {
  const Shape shape = build.shape(x);
  const TensorId y =
      batch_norm_of_any_batch(build, x, scale, bias, running_mean, running_variance, eps, momentum, std::move(name));
  if (!unbiased_scale(shape)) fail_for_one_value(build.graph().op(build.graph().tensor(y).producer).name, shape);
  return y;
}

TensorId elementary_batch_norm(GraphBuilder& build, TensorId x, TensorId scale, TensorId bias, TensorId running_mean,
                               TensorId running_variance, double eps, double momentum, std::string name) {
  const Shape shape = build.shape(x);
  const std::optional<double> unbiased = unbiased_scale(shape);
  if (!unbiased) fail_for_one_value(name, shape);
  tdl::Attributes others{{"axes.0", 0}};  // all axes but the channels'
  Shape column{shape[1]};                 // a value a channel, to be broadcast over them
  for (std::size_t a = 2; a < shape.size(); ++a) {
    others[fmt::format("axes.{}", a - 1)] = static_cast<double>(a);
    column.push_back(1);
  }
  const tdl::Attributes as_column = list_attributes("shape", {column.begin(), column.end()});
  auto statistic = [&](TensorId values, TensorId average, double of_batch, const std::string& what) {
    const TensorId mean = build.op("reduce_mean", {values}, others, name + ".batch_" + what);
    const TensorId used = build.op("batch_statistic", {mean}, {}, name + "." + what);
    build.set_phase(Phase::kUpdate);
    build.op("running_average", {average, used}, {{"momentum", momentum}, {"scale", of_batch}},
             name + ".running_" + what);
    build.set_phase(Phase::kForward);
    return build.op("reshape", {used}, as_column, name + "." + what + ".column");
  };
  const TensorId mean = statistic(x, running_mean, 1, "mean");
  const TensorId centred = build.op("sub", {x, mean}, {}, name + ".centred");
  const TensorId square = build.op("square", {centred}, {}, name + ".square");
  const TensorId variance = statistic(square, running_variance, *unbiased, "var");
  const TensorId small = build.scalar(name + ".eps", eps, build.graph().tensor(variance).dtype);
  const TensorId positive = build.op("add", {variance, small}, {}, name + ".positive");
  const TensorId z =
      build.op("mul", {centred, build.op("rsqrt", {positive}, {}, name + ".rsqrt")}, {}, name + ".normal");
  const TensorId w = build.op("reshape", {scale}, as_column, name + ".weight.column"),
                 b = build.op("reshape", {bias}, as_column, name + ".bias.column");
  return build.op("add", {build.op("mul", {z, w}, {}, name + ".scaled"), b}, {}, name);
}

void set_variance_corrections(Graph& graph) {
  for (Op& average : graph.ops) {
    if (average.definition != "running_average") continue;
    const OpId producer = graph.tensor(average.operands[1]).producer;
    if (!producer.valid() || graph.op(producer).definition != "batch_norm") continue;
    const Op& norm = graph.op(producer);
    const Shape& x = graph.tensor(norm.operands[0]).shape;
    const std::optional<double> unbiased = unbiased_scale(x);
    if (!unbiased) fail_for_one_value(norm.name, x);
    if (average.operands[1] != norm.results[2]) continue;
    average.attributes["scale"] = *unbiased;
    average.bound = bind_op(graph, average);
  }
}

// ---------------------------------------------------------------- a graph's batch norms in groups

namespace {

// The fraction of the first value that `groups` running averages by `momentum` leave, as a running average that leaves
// as much and adds one tensor to it without change.
tdl::Attributes after_groups(double momentum, int64_t groups) {
  const double once = 1 - std::pow(1 - momentum, static_cast<double>(groups));
  return {{"momentum", once}, {"scale", once == 0 ? 1 : 1 / once}};
}

// Copies a forward graph, op by op, with its batch norms in groups.
class InGroups {
 public:
  InGroups(const Graph& graph, int64_t groups)
      : old_(graph), groups_(groups), build_(graph.name, graph.registry), now_(graph.tensors.size()) {}

  Graph run() {
    for (std::size_t t = 0; t < old_.tensors.size(); ++t) {
      const Tensor& source = old_.tensors[t];
      if (source.producer.valid()) continue;
      now_[t] = build_.input(source.name, source.shape, source.dtype, source.sample_axis);
      build_.graph().tensor(now_[t]) = source;
    }
    build_.graph().inputs.clear();
    for (TensorId id : old_.inputs) build_.graph().inputs.push_back(now_[id.index()]);
    for (const Op& op : old_.ops) add(op);
    std::vector<TensorId> outputs;
    for (TensorId id : old_.outputs) outputs.push_back(now_[id.index()]);
    return build_.finish(std::move(outputs));
  }

 private:
  void add(const Op& op) {
    build_.set_phase(op.phase);
    build_.set_source(op.source);
    build_.set_cell(op.time_step, op.cell);
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(now_[id.index()]);
    tdl::Attributes attributes = op.attributes;
    std::string definition = op.definition;
    if (definition == "batch_norm") {
      validate_groups(op);
      definition = "batch_norm_in_groups";
      attributes["groups"] = static_cast<double>(groups_);
    } else if (const Op* norm = averaged_norm(op)) {
      operands[1] = group_average(op, *norm, operands[1]);
      attributes = after_groups(op.attributes.at("momentum"), groups_);
    }
    const std::vector<TensorId> results = op.formula.empty()
                                              ? build_.ops(definition, operands, attributes, op.name)
                                              : build_.formula(definition, op.formula, operands, op.name, attributes);
    for (std::size_t r = 0; r < results.size(); ++r) {
      now_[op.results[r].index()] = results[r];
      build_.graph().tensor(results[r]).name = old_.tensor(op.results[r]).name;
    }
  }

  // Groups of samples are groups of rows if samples are outermost along axis 0.
  void validate_groups(const Op& op) const {
    const Tensor& x = old_.tensor(op.operands[0]);
    const std::optional<int64_t> batch = find_batch(old_);
    if (x.sample_axis != 0 || !batch || x.shape[0] % *batch)
      fail("--batch-norm-groups: batch_norm '{}' reads '{}' [{}], whose samples do not lie along axis 0", op.name,
           x.name, fmt::join(x.shape, "x"));
    if (*batch % groups_)
      fail("--batch-norm-groups {}: the {} samples of batch_norm '{}' are not {} equal groups; use a divisor of {}",
           groups_, *batch, op.name, groups_, *batch);
    if (!unbiased_scale(x.shape, groups_)) fail_for_one_value(op.name, x.shape, groups_);
  }

  // The batch norm of the statistic that a running average reads; null if it reads another tensor.
  const Op* averaged_norm(const Op& op) const {
    if (op.definition != "running_average") return nullptr;
    const OpId producer = old_.tensor(op.operands[1]).producer;
    return producer.valid() && old_.op(producer).definition == "batch_norm" ? &old_.op(producer) : nullptr;
  }

  // The groups' terms of a running average. It runs in the forward pass, on each micro-batch.
  TensorId group_average(const Op& average, const Op& norm, TensorId statistic) {
    tdl::Attributes attributes{{"momentum", average.attributes.at("momentum")}};
    if (average.operands[1] == norm.results[2])
      attributes["scale"] = *unbiased_scale(old_.tensor(norm.operands[0]).shape, groups_);
    build_.set_phase(Phase::kForward);
    const TensorId terms = build_.op("group_average", {statistic}, attributes, average.name + ".groups");
    build_.set_phase(average.phase);
    return terms;
  }

  const Graph& old_;
  const int64_t groups_;
  GraphBuilder build_;
  std::vector<TensorId> now_;  // by the old graph's tensors
};

}  // namespace

Graph with_batch_norm_groups(const Graph& forward, int64_t groups) {
  if (groups < 1) fail("--batch-norm-groups {}: a batch has one group or more", groups);
  if (std::none_of(forward.ops.begin(), forward.ops.end(), [](const Op& op) { return op.definition == "batch_norm"; }))
    fail("--batch-norm-groups: model '{}' has no batch norm", forward.name);
  return groups == 1 ? forward : InGroups(forward, groups).run();
}

}  // namespace partita
