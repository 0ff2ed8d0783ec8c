// Makes the forward graph for evaluation: ops in their evaluation forms, running statistics read.
#include <map>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"

namespace partita {

namespace {

// The results of an op in its evaluation form; a result that evaluation does not have is not valid.
std::vector<TensorId> evaluate_op(GraphBuilder& build, const Graph& forward, const Op& op,
                                  const std::vector<TensorId>& operands) {
  build.set_source(op.source);
  build.set_cell(op.time_step, op.cell);
  const OpDefinition* definition = forward.registry->find(op.definition);
  if (definition && definition->evaluation) {
    std::vector<TensorId> results = definition->evaluation(build, forward, op, operands);
    ensure(results.size() == op.results.size(), "the evaluation form of {} has {} results, not {}", op.definition,
           results.size(), op.results.size());
    return results;
  }
  if (op.formula.empty()) return build.ops(op.definition, operands, op.attributes, op.name);
  return build.formula(op.definition, op.formula, operands, op.name, op.attributes);
}

}  // namespace

Graph evaluation_graph(const Graph& forward) {
  if (forward.loss.valid())
    fail("graph '{}' is a training graph: the evaluation graph is made of the forward graph", forward.name);
  const auto read_by = readers_by_tensor(forward);
  GraphBuilder build(forward.name, forward.registry);
  std::map<TensorId, TensorId> now;  // forward tensor -> its tensor in evaluation
  auto source = [&](TensorId id) {
    const Tensor& t = forward.tensor(id);
    if (now.contains(id) || t.producer.valid()) return;
    if (t.role == Role::kInput) {
      now[id] = build.input(t.name, t.shape, t.dtype, t.sample_axis);
      return;
    }
    now[id] = build.parameter(t.name, t.shape, t.initial_bound, t.initial_fill, t.dtype);
    Tensor& copy = build.graph().tensor(now[id]);
    copy.role = t.role;
    copy.values = t.values;
    copy.sample_axis = t.sample_axis;
  };
  for (TensorId id : forward.inputs) source(id);
  std::map<TensorId, std::string> gone;  // forward tensor that evaluation lacks -> why
  for (std::size_t i = 0; i < forward.ops.size(); ++i) {
    const Op& op = forward.ops[i];
    if (op.phase != Phase::kForward) continue;  // running statistics are written in training only
    std::vector<TensorId> operands;
    std::string why;
    for (TensorId id : op.operands) {
      source(id);
      operands.push_back(now.at(id));
      if (operands.back().valid() || !why.empty()) continue;
      const auto before = gone.find(id);
      why = before != gone.end()
                ? before->second
                : fmt::format("'{}' reads '{}', which does not exist in evaluation", op.name, forward.tensor(id).name);
    }
    if (!why.empty()) {
      for (TensorId id : op.results) now[id] = TensorId(), gone[id] = why;
      continue;
    }
    const std::vector<TensorId> results = evaluate_op(build, forward, op, operands);
    for (std::size_t r = 0; r < results.size(); ++r) now[op.results[r]] = results[r];
  }
  std::vector<TensorId> outputs;
  for (TensorId id : forward.outputs) {
    source(id);
    if (!now.at(id).valid()) {
      const auto why = gone.find(id);
      fail("graph '{}': {}", forward.name,
           why != gone.end() ? why->second
                             : fmt::format("output '{}' does not exist in evaluation", forward.tensor(id).name));
    }
    outputs.push_back(now.at(id));
    Tensor& output = build.graph().tensor(now.at(id));
    if (output.producer.valid() && !build.has_tensor(forward.tensor(id).name)) output.name = forward.tensor(id).name;
  }
  return drop_unread(build.finish(outputs));
}

}  // namespace partita
