// Internal to sim/: what the local task graph of a model has whatever the configurations: its wires, and on which ops a
// tensor's fragment depends.
//
// Example: y = relu(h), h = linear(x, w), with training. The parties of h are itself, linear, relu and relu's gradient.
// w and what replaces it, w', are a family: where w is kept, w' is. So the fragment of w' depends on linear as well,
// which reads w, beside its own parties.
#pragma once
#include <vector>

#include "partita/graph/graph.h"
#include "partita/task_graph/task_graph.h"

namespace partita {

// The list's size where it is not there.
int place_in(const std::vector<int>& list, int value);
// By tensor: it and what it replaces, or what replaces it; first what is replaced. They have one buffer, and so one
// place to be kept and one set of axes.
std::vector<std::vector<TensorId>> families(const Graph& graph);
// Without fragments.
TaskGraph wired_graph(const Graph& graph, const std::vector<std::vector<Reader>>& read_by, int queues);
// By tensor: the ops on whose configurations its tasks depend, without edges to or from them. They read or write what
// has one buffer with it.
std::vector<std::vector<int>> ops_of_families(const Graph& graph, const TaskGraph& wired,
                                              const std::vector<std::vector<TensorId>>& families,
                                              const std::vector<std::vector<Reader>>& read_by);

}  // namespace partita
