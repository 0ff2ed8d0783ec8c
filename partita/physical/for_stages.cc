// Makes the step in micro-batches again, for the stages of a plan.
#include "partita/physical/for_stages.h"

#include <algorithm>

#include "partita/graph/autodiff.h"
#include "partita/graph/micro_batches.h"
#include "partita/physical/may_factor.h"

namespace partita {

namespace {

// Drops recomputed clones of other stages. The backward pass reads the result that the forward pass has sent.
Graph without_clones_of_others(Graph graph, const std::vector<int>& stages) {
  for (size_t i = 0; i < graph.ops.size(); ++i)
    for (TensorId& t : graph.ops[i].operands) {
      const OpId producer = graph.tensor(t).producer;
      if (!producer.valid() || !is_clone(graph, graph.op(producer)) || stages[producer.index()] == stages[i]) continue;
      const std::vector<TensorId>& cloned = graph.op(producer).results;
      const auto result = std::find(cloned.begin(), cloned.end(), t) - cloned.begin();
      t = graph.op(graph.op(producer).forward).results[static_cast<size_t>(result)];
    }
  return graph;
}

}  // namespace

Graph for_stages(const Graph& graph, const Plan& plan) {
  std::vector<int> stages;
  for (const OpChoice& choice : plan.ops) stages.push_back(choice.stage);
  if (!graph.whole || std::all_of(stages.begin(), stages.end(), [](int s) { return s == 0; })) return graph;
  return in_micro_batches(without_clones_of_others(*graph.whole, stages), graph.micro_batches(), may_factor, stages);
}

}  // namespace partita
