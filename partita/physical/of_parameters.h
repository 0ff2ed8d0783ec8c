// Recognises collectives of parameters, internal to physical/ (docs/inside/PHYSICAL.md section 5.3).
#pragma once
#include "partita/physical/physical.h"

namespace partita {

inline bool is_of_parameters(const PhysicalGraph& graph, const Task& task) {
  return graph.queues[task.queue.index()].kind == QueueKind::kParameterCollective;
}

// An all-reduce or a reduce-scatter of parameters: gradients.
inline bool is_reduction_of_parameters(const PhysicalGraph& graph, const Task& task) {
  if (!is_of_parameters(graph, task)) return false;
  const StepKind kind = std::get<CollectiveWork>(task.work).kind;
  return kind == StepKind::kAllReduce || kind == StepKind::kReduceScatter;
}

inline bool is_gather_of_parameters(const PhysicalGraph& graph, const Task& task) {
  return is_of_parameters(graph, task) && std::get<CollectiveWork>(task.work).kind == StepKind::kAllGather;
}

}  // namespace partita
