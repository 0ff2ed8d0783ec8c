// Adds the backward pass: gradients from the loss down to the parameters, derived or declared, one op at a time.
#include "partita/graph/autodiff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "partita/base/error.h"
#include "partita/graph/batch.h"
#include "partita/graph/builder.h"

namespace partita {
namespace {

// A derived gradient, under the name of the registered definition that it equals if there is one.
struct DerivedOp {
  std::string definition, text;
  tdl::Attributes attributes;
  std::vector<std::string> operands;  // names: the forward op's operands, g_RESULT
};

// The gradient's text with its operands in another order: "f(b, g)[i] = .." -> "f(g, b)[i] = ..".
std::string with_operands(const std::string& text, const std::vector<std::string>& operands) {
  const std::size_t open = text.find('('), close = text.find(')');
  return fmt::format("{}({}{}", text.substr(0, open), fmt::join(operands, ", "), text.substr(close));
}

// Finds the definition whose instance at these shapes has the same canonical form, for some order of the operands.
// Definitions are tried by name, orders lexicographically.
class DefinitionFinder {
 public:
  explicit DefinitionFinder(const OpRegistry& registry) {
    for (const OpDefinition* definition : registry.all())
      if (definition->match) candidates_.push_back(definition);
  }

  DerivedOp find(DerivedOp gradient, const std::vector<Shape>& shapes, const std::vector<DType>& dtypes,
                 const tdl::Attributes& forward) {
    const std::tuple key(gradient.text, shapes, forward);
    if (auto known = found_.find(key); known != found_.end()) return known->second;
    return found_.emplace(key, search(std::move(gradient), shapes, dtypes, forward)).first->second;
  }

 private:
  DerivedOp search(DerivedOp gradient, const std::vector<Shape>& shapes, const std::vector<DType>& dtypes,
                   const tdl::Attributes& forward) const {
    if (shapes.size() > 3) return gradient;
    std::vector<std::size_t> order(shapes.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      DerivedOp permuted = gradient;
      std::vector<Shape> permuted_shapes;
      std::vector<DType> permuted_dtypes;
      for (std::size_t k = 0; k < order.size(); ++k) {
        permuted.operands[k] = gradient.operands[order[k]];
        permuted_shapes.push_back(shapes[order[k]]);
        permuted_dtypes.push_back(dtypes[order[k]]);
      }
      permuted.text = with_operands(gradient.text, permuted.operands);
      const tdl::Bound bound = tdl::bind(permuted.text, permuted_shapes);
      const Shape& result = bound.tensors[bound.results[0]].shape;
      std::string form;
      for (const OpDefinition* candidate : candidates_) {
        if (!takes(*candidate, permuted_shapes)) continue;
        tdl::Attributes attributes = candidate->match(forward, result);
        const auto instance = instance_of(*candidate, attributes, permuted_shapes, permuted_dtypes);
        if (!instance || instance->tensors[instance->results[0]].shape != result ||
            instance->stages.size() != bound.stages.size())
          continue;
        if (form.empty()) form = tdl::canonical(bound);
        if (tdl::canonical(*instance) != form) continue;
        permuted.definition = candidate->name;
        permuted.attributes = std::move(attributes);
        return permuted;
      }
    } while (std::next_permutation(order.begin(), order.end()));
    return gradient;
  }

  // Tells whether some example has as many operands: others are not worth binding.
  static bool takes(const OpDefinition& candidate, const std::vector<Shape>& shapes) {
    return std::any_of(candidate.examples.begin(), candidate.examples.end(),
                       [&](const auto& example) { return example.shapes.size() == shapes.size(); });
  }

  // Null if these shapes do not fit the definition.
  static std::shared_ptr<const tdl::Bound> instance_of(const OpDefinition& candidate, tdl::Attributes& attributes,
                                                       const std::vector<Shape>& shapes,
                                                       const std::vector<DType>& dtypes) {
    try {
      return bind_instance(candidate, attributes, shapes, dtypes);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      return nullptr;
    }
  }

  std::vector<const OpDefinition*> candidates_;
  std::map<std::tuple<std::string, std::vector<Shape>, tdl::Attributes>, DerivedOp> found_;
};

// Adds the backward ops of one graph, from the last op to the first.
class Backward {
 public:
  explicit Backward(GraphBuilder& build) : build_(build), finder_(*build.graph().registry) {
    const Graph& graph = build.graph();
    forward_ops_ = graph.ops.size();
    wanted_.resize(graph.tensors.size());
    for (std::size_t i = 0; i < graph.tensors.size(); ++i)
      wanted_[i] = graph.tensors[i].role == Role::kParameter && is_float(graph.tensors[i].dtype);
    for (const Op& op : graph.ops) {
      if (op.phase != Phase::kForward || !differentiable(op)) continue;
      const bool reached =
          std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId t) { return wanted_[t.index()]; });
      for (TensorId result : op.results)
        if (reached && is_float(graph.tensor(result).dtype)) wanted_[result.index()] = true;
    }
    gradients_.resize(graph.tensors.size());
  }

  bool wanted(TensorId tensor) const { return wanted_[tensor.index()]; }
  // The sum of the contributions so far; none if there are none.
  TensorId gradient(TensorId tensor) const { return gradients_[tensor.index()]; }

  // Adds a contribution to the earlier ones right behind the op that makes it. So memory holds no more for one tensor
  // than the sum and one contribution (Tofu section 7.2: MXNet aggregates gradients of time steps in place).
  void contribute(TensorId tensor, TensorId contribution) {
    TensorId& sum = gradients_[tensor.index()];
    sum = sum.valid() ? build_.op("add", {sum, contribution}, {}, build_.graph().tensor(tensor).name + ".grad")
                      : contribution;
  }

  void run() {
    build_.set_phase(Phase::kBackward);
    for (std::size_t i = forward_ops_; i-- > 0;) {
      const Op op = build_.graph().ops[i];  // a copy: the graph grows
      if (op.phase != Phase::kForward || !differentiable(op)) continue;
      if (std::none_of(op.operands.begin(), op.operands.end(), [&](TensorId t) { return wanted(t); })) continue;
      std::vector<TensorId> result_gradients;
      bool reached = false;
      build_.set_forward(OpId(i));
      build_.set_cell(op.time_step, op.cell);
      build_.set_source(op.source);
      for (TensorId result : op.results) {
        result_gradients.push_back(gradient(result));
        reached |= result_gradients.back().valid();
      }
      if (reached) differentiate(op, result_gradients);
    }
  }

 private:
  bool differentiable(const Op& op) const {
    const OpDefinition* definition = build_.graph().registry->find(op.definition);
    return !definition || definition->differentiable;
  }

  void differentiate(const Op& op, const std::vector<TensorId>& result_gradients) {
    const OpDefinition* definition = build_.graph().registry->find(op.definition);
    if (definition && definition->gradient) {
      const std::vector<TensorId> gradients = definition->gradient(build_, op, result_gradients);
      ensure(gradients.size() == op.operands.size(), "the declared gradient of {} gives {} gradients for {} operands",
             op.definition, gradients.size(), op.operands.size());
      for (std::size_t k = 0; k < gradients.size(); ++k)
        if (gradients[k].valid() && wanted(op.operands[k]))
          contribute(op.operands[k], as(gradients[k], build_.graph().tensor(op.operands[k]).dtype));
      return;
    }
    for (std::size_t k = 0; k < op.operands.size(); ++k)
      if (wanted(op.operands[k])) derive(op, static_cast<int>(k), result_gradients);
  }

  void derive(const Op& op, int operand, const std::vector<TensorId>& result_gradients) {
    // Drops results that nothing reads: no term of the gradient comes from them.
    tdl::Bound bound = *op.bound;
    bound.results.clear();
    for (std::size_t r = 0; r < op.results.size(); ++r)
      if (result_gradients[r].valid()) bound.results.push_back(op.bound->results[r]);
    const std::string& name = bound.tensors[operand].name;
    std::optional<tdl::Gradient> gradient;
    try {
      gradient = tdl::gradient(bound, operand);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      fail("{} '{}': no gradient of operand '{}': {}", op.definition, op.name, name, error.what());
    }
    if (!gradient) return;
    std::map<std::string, TensorId> given;
    for (std::size_t k = 0; k < op.operands.size(); ++k) given[bound.tensors[k].name] = op.operands[k];
    for (std::size_t r = 0; r < op.results.size(); ++r)
      given["g_" + bound.tensors[op.bound->results[r]].name] = result_gradients[r];
    const Graph& graph = build_.graph();
    std::vector<Shape> shapes;
    std::vector<DType> dtypes;
    for (const std::string& o : gradient->operands) {
      ensure(given.contains(o), "the gradient of {} reads an unknown '{}'", op.definition, o);
      shapes.push_back(graph.tensor(given.at(o)).shape);
      dtypes.push_back(graph.tensor(given.at(o)).dtype);
    }
    DerivedOp derived{op.definition + ".grad." + name, gradient->text, {}, gradient->operands};
    derived = finder_.find(std::move(derived), shapes, dtypes, op.attributes);
    std::vector<TensorId> operands;
    for (const std::string& o : derived.operands) operands.push_back(given.at(o));
    const std::string result = op.name + ".grad." + name;
    const DType dtype = graph.tensor(op.operands[operand]).dtype;
    if (derived.definition == "identity" &&
        graph.tensor(operands[0]).dtype != dtype) {  // the gradient of a cast is the cast back
      contribute(op.operands[operand], build_.op("cast", operands, {{"to", static_cast<double>(dtype)}}, result));
      return;
    }
    TensorId value = build_.formula(derived.definition, derived.text, operands, result, derived.attributes)[0];
    contribute(op.operands[operand], as(value, dtype));
  }

  TensorId as(TensorId value, DType dtype) {
    const Tensor t = build_.graph().tensor(value);
    return t.dtype == dtype ? value : build_.op("cast", {value}, {{"to", static_cast<double>(dtype)}}, t.name);
  }

  GraphBuilder& build_;
  DefinitionFinder finder_;
  std::size_t forward_ops_ = 0;
  std::vector<bool> wanted_;         // whether a parameter lies behind the tensor
  std::vector<TensorId> gradients_;  // by tensor: the sum of the contributions so far
};

struct LossAndSeed {
  TensorId loss;
  TensorId tensor, gradient;  // the backward pass starts at this tensor, with this gradient
};

// A loss of an output and a graph input, which is `labels` unless stated otherwise.
struct LossDefinition {
  const char* name;
  const char* op;
  bool classes;  // labels are int64 class numbers, one for each last axis of the output; else values of its shape and
                 // dtype
  bool counted = false;  // the op's third operand is the number of labels that count
};
constexpr LossDefinition kLosses[] = {{"bce_with_logits", "bce_with_logits", false},
                                      {"cross_entropy", "cross_entropy", true},
                                      {"masked_cross_entropy", "masked_cross_entropy", true, true},
                                      {"mse", "mse", false}};

// An input of labels, and the number of labels that count if the loss reads it.
struct Labels {
  TensorId input, count;
};

// Casts to float32 at least: a loss is computed in no less.
TensorId wide(GraphBuilder& build, TensorId output) {
  const Tensor y = build.graph().tensor(output);
  if (!is_low(y.dtype)) return output;
  return build.op("cast", {output}, {{"to", static_cast<double>(DType::kFloat32)}}, y.name + ".float32");
}

// Labels of this shape have their samples where the output has them. If the output is not known to have any, the labels
// are rows, unless there are more or fewer labels than samples.
int samples_of(const Graph& graph, const Tensor& output, const Shape& labels) {
  if (output.sample_axis >= 0) return output.sample_axis;
  const std::optional<int64_t> batch = find_batch(graph);
  return batch && !labels.empty() && labels[0] != *batch ? -1 : 0;
}

// Adds the loss of one output. The first output that reads an input of labels makes it.
TensorId loss_of(GraphBuilder& build, const LossDefinition& loss, TensorId given, const std::string& labels_name,
                 std::map<std::string, Labels>& inputs, std::string name) {
  const TensorId output = wide(build, given);
  const Tensor y = build.graph().tensor(output);
  if (loss.classes && y.shape.empty())
    fail("graph '{}': {} needs an output with a class axis, '{}' is a scalar", build.graph().name, loss.name, y.name);
  const Shape shape = loss.classes ? Shape(y.shape.begin(), y.shape.end() - 1) : y.shape;
  auto& [labels, count] = inputs[labels_name];
  if (!labels.valid())
    labels =
        build.input(labels_name, shape, loss.classes ? DType::kInt64 : y.dtype, samples_of(build.graph(), y, shape));
  if (build.shape(labels) != shape)
    fail("graph '{}': output '{}' [{}] cannot be judged by labels [{}]", build.graph().name, y.name,
         fmt::join(y.shape, "x"), fmt::join(build.shape(labels), "x"));
  if (!loss.counted) return build.op(loss.op, {output, labels}, {}, std::move(name));
  if (!count.valid()) {  // of the whole batch: the labels may come in micro-batches
    const TensorId all = build.input_again(labels, labels_name + ".all");
    count = build.op("label_count", {all}, {}, labels_name + ".count");
  }
  return build.op(loss.op, {output, labels, count}, {}, std::move(name));
}

LossAndSeed add_loss(GraphBuilder& build, const Loss& loss, TensorId output) {
  const Tensor y = build.graph().tensor(output);
  if (!is_float(y.dtype))
    fail("graph '{}': the output '{}' is {}; a loss needs a floating output", build.graph().name, y.name,
         name_of(y.dtype));
  if (loss.kind == "elementwise") {
    if (!loss.penalties.empty())
      fail("graph '{}': loss elementwise has no place for '{}'; take another loss, or turn it off", build.graph().name,
           build.graph().tensor(loss.penalties[0].first).name);
    const TensorId y32 = wide(build, output), value = build.op("half_mean_square", {y32}, {}, "loss");
    const TensorId scale =
        loss.scale == 1 ? TensorId() : build.scalar("loss.grad", loss.scale, build.graph().tensor(y32).dtype);
    return {value, y32, scale.valid() ? build.op("mul", {y32, scale}, {}, "loss.scaled") : y32};
  }
  const auto definition = std::find_if(std::begin(kLosses), std::end(kLosses),
                                       [&](const LossDefinition& d) { return d.name == loss.kind; });
  if (definition == std::end(kLosses))
    fail("unknown loss '{}'; there are: {}", loss.kind, fmt::join(loss_names(), ", "));
  std::map<std::string, Labels> labels;
  size_t left = loss.auxiliary.size() + loss.penalties.size();
  TensorId value = loss_of(build, *definition, output, "labels", labels, left == 0 ? "loss" : "loss.main");
  auto add = [&](TensorId given, double weight, const std::string& name) {
    const TensorId term = wide(build, given);
    const DType dtype = build.graph().tensor(term).dtype;
    const TensorId scaled = build.op("mul", {term, build.scalar(name, weight, dtype)});
    value = build.op("add", {value, scaled}, {}, --left == 0 ? "loss" : "loss.sum");
  };
  for (size_t i = 0; i < loss.auxiliary.size(); ++i) {
    const Loss::Auxiliary& further = loss.auxiliary[i];
    const TensorId term =
        loss_of(build, *definition, further.output, further.labels, labels, fmt::format("loss.auxiliary{}", i));
    add(term, further.weight, fmt::format("loss.weight{}", i));
  }
  for (size_t i = 0; i < loss.penalties.size(); ++i)
    add(loss.penalties[i].first, loss.penalties[i].second, fmt::format("loss.penalty{}", i));
  const DType dtype = build.graph().tensor(value).dtype;
  return {value, value, build.scalar("loss.grad", loss.scale, dtype)};
}

}  // namespace

double default_loss_scale(DType dtype) { return dtype == DType::kFloat16 ? 1024 : 1; }

std::vector<std::string> loss_names() {
  std::vector<std::string> names{"elementwise"};
  for (const LossDefinition& loss : kLosses) names.push_back(loss.name);
  std::sort(names.begin(), names.end());
  return names;
}

Graph add_backward(const Graph& forward, const Loss& loss, const Optimizer& optimizer) {
  if (forward.outputs.empty() && !loss.output.valid())
    fail("graph '{}' has no output to compute a loss of", forward.name);
  if (forward.loss.valid()) fail("graph '{}' is a training graph already", forward.name);
  check_optimizer(optimizer, *forward.registry);
  if (!(loss.scale > 0 && std::isfinite(loss.scale)))
    fail("the loss is scaled by a positive number, not {}", loss.scale);
  const TensorId output = loss.output.valid() ? loss.output : forward.outputs[0];

  GraphBuilder build{Graph(forward)};
  const LossAndSeed start = add_loss(build, loss, output);
  Backward backward(build);
  if (!backward.wanted(start.tensor))
    fail("graph '{}': no parameter lies behind the output '{}'", forward.name, forward.tensor(output).name);
  backward.contribute(start.tensor, start.gradient);
  backward.run();

  std::vector<std::pair<TensorId, TensorId>> gradients;
  for (std::size_t i = 0; i < forward.tensors.size(); ++i) {
    const TensorId parameter(i), gradient = backward.gradient(parameter);
    if (forward.tensors[i].role == Role::kParameter && gradient.valid()) gradients.emplace_back(parameter, gradient);
  }
  build.set_phase(Phase::kUpdate);
  build.set_forward({});
  build.set_cell(-1, -1);
  build.set_source({});
  const Graph& graph = build.graph();
  const bool watched = loss.scale != 1 || std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& t) {
                         return t.dtype == DType::kFloat16 && t.role == Role::kGradient;
                       });
  if (loss.scale != 1) {
    std::map<DType, TensorId> factors;
    for (auto& [parameter, gradient] : gradients) {
      const Tensor w = graph.tensor(parameter);
      TensorId& factor = factors[w.dtype];
      if (!factor.valid()) factor = build.scalar("loss.unscale", 1 / loss.scale, w.dtype);
      gradient = build.op("mul", {gradient, factor}, {}, w.name + ".grad.unscaled");
    }
  }
  const TensorId sum = add_updates(build, optimizer, gradients, watched);
  build.graph().loss = start.loss;
  return watched ? build.finish({start.loss, sum}) : build.finish({start.loss});
}

}  // namespace partita
