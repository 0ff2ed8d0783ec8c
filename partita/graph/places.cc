// Compares places of experts in a plan and in a run, and finds the share of them that is used.
#include "partita/graph/places.h"

#include <algorithm>
#include <cmath>

#include "partita/graph/autodiff.h"
#include "partita/graph/infer.h"

namespace partita {

namespace {

bool is_dispatch(const Op& op) { return op.definition == "expert_dispatch"; }
bool is_combine(const Op& op) { return op.definition == "expert_combine"; }

struct Routing {
  double tokens, choices, experts, places;  // of a group; places of an expert

  double used() const { return std::min(1.0, choices * tokens / (experts * places)); }
  double chosen() const { return choices / experts; }
};

Routing routing_of(const Graph& graph, const Op& dispatch) {
  const Shape& chosen = graph.tensor(dispatch.operands[1]).shape;  // [groups, tokens, choices]
  return {static_cast<double>(chosen[1]), static_cast<double>(chosen[2]), dispatch.attributes.at("experts"),
          dispatch.attributes.at("capacity")};
}

bool has_planned_places(const Graph& graph, const Op& op) {
  return is_dispatch(op) && op.attributes.at("dropless") != 0 &&
         op.attributes.at("capacity") < routing_of(graph, op).tokens;
}

// By op number: the dispatch that gave each tensor its places; -1 if none did. A combination puts tokens back in order.
std::vector<int> dispatches(const Graph& graph) {
  std::vector<int> from(graph.tensors.size(), -1);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    int dispatch = is_dispatch(op) ? static_cast<int>(i) : -1;
    if (!is_dispatch(op) && !is_combine(op))
      for (const TensorId t : op.operands) dispatch = std::max(dispatch, from[t.index()]);
    for (const TensorId t : op.results) from[t.index()] = dispatch;
  }
  return from;
}

// The tensor behind ops of one operand: a parameter behind its cast.
TensorId origin(const Graph& graph, TensorId t) {
  for (OpId producer = graph.tensor(t).producer; producer.valid() && graph.op(producer).operands.size() == 1;
       producer = graph.tensor(t).producer)
    t = graph.op(producer).operands[0];
  return t;
}

}  // namespace

bool has_experts(const Graph& graph) { return std::any_of(graph.ops.begin(), graph.ops.end(), is_dispatch); }

bool has_planned_places(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return has_planned_places(graph, op); });
}

Graph with_all_places(const Graph& forward) {
  Graph graph = forward;
  for (Op& op : graph.ops) {
    const bool changes = has_planned_places(graph, op);
    if (changes) op.attributes["capacity"] = routing_of(graph, op).tokens;
    const bool follows = std::any_of(op.operands.begin(), op.operands.end(),
                                     [&](TensorId t) { return graph.tensor(t).shape != forward.tensor(t).shape; });
    if (!changes && !follows) continue;
    op.bound = bind_op(graph, op);
    const Inferred inferred = infer(graph, op);
    for (std::size_t r = 0; r < op.results.size(); ++r) graph.tensor(op.results[r]).shape = inferred.shapes[r];
  }
  verify(graph);
  return graph;
}

std::vector<double> used_shares(const Graph& graph) {
  std::vector<double> shares;
  for (const int dispatch : dispatches(graph))
    shares.push_back(dispatch < 0 ? 1 : routing_of(graph, graph.ops[static_cast<std::size_t>(dispatch)]).used());
  return shares;
}

int64_t active_parameters(const Graph& forward) {
  const std::vector<int> from = dispatches(forward);
  std::vector<double> active(forward.tensors.size(), 1);
  for (const Op& op : forward.ops) {
    const int dispatch = op.results.empty() ? -1 : from[op.results[0].index()];
    if (dispatch < 0 || is_dispatch(op)) continue;
    for (const TensorId t : op.operands)
      if (from[t.index()] < 0)
        active[origin(forward, t).index()] =
            routing_of(forward, forward.ops[static_cast<std::size_t>(dispatch)]).chosen();
  }
  double sum = 0;
  for (std::size_t t = 0; t < forward.tensors.size(); ++t)
    if (forward.tensors[t].role == Role::kParameter)
      sum += active[t] * static_cast<double>(volume(forward.tensors[t].shape));
  return std::llround(sum);
}

}  // namespace partita
