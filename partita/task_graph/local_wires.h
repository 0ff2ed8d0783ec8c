// Finds the parts of a model's local task graph that no configuration changes, internal to task_graph/. They are its
// wires, and the ops on which a tensor's fragment depends.
//
// Example: y = relu(h), h = linear(x, w), with training. The parties of h are itself, linear, relu and relu's gradient.
// w and its replacement w' are a family: w' is kept where w is. So the fragment of w' depends on linear as well, which
// reads w, beside its own parties.
#pragma once
#include <vector>

#include "partita/graph/graph.h"
#include "partita/task_graph/task_graph.h"

namespace partita {

// Returns the value's index; the list's size if it is absent.
int place_in(const std::vector<int>& list, int value);
// Returns by tensor its family: it and the tensor that it replaces, or that replaces it; the replaced one first. They
// share one buffer, and so one placement and one set of axes.
std::vector<std::vector<TensorId>> tensor_families(const Graph& graph);
// Returns the graph without fragments.
TaskGraph wired_graph(const Graph& graph, const std::vector<std::vector<Reader>>& read_by, int queues);
// Returns by tensor the ops on whose configurations its tasks depend, without edges to or from them. They read or write
// a tensor that shares its buffer.
std::vector<std::vector<int>> ops_of_families(const Graph& graph, const TaskGraph& wired,
                                              const std::vector<std::vector<TensorId>>& families,
                                              const std::vector<std::vector<Reader>>& read_by);

}  // namespace partita
