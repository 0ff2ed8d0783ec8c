// Wires ops and tensors of a model's local task graph.
#include "partita/task_graph/local_wires.h"

#include <algorithm>

namespace partita {

namespace {

void add_party(TaskGraph::Wires& wires, int slot) {
  if (std::ranges::find(wires.parties, slot) == wires.parties.end()) wires.parties.push_back(slot);
}

}  // namespace

int place_in(const std::vector<int>& list, int value) {
  return static_cast<int>(std::ranges::find(list, value) - list.begin());
}

std::vector<std::vector<TensorId>> tensor_families(const Graph& graph) {
  std::vector<std::vector<TensorId>> out;
  for (size_t t = 0; t < graph.tensors.size(); ++t) out.push_back({TensorId(t)});
  for (size_t t = 0; t < graph.tensors.size(); ++t)
    if (const TensorId replaced = graph.tensors[t].replaces; replaced.valid())
      out[t] = out[replaced.index()] = {replaced, TensorId(t)};
  return out;
}

TaskGraph wired_graph(const Graph& graph, const std::vector<std::vector<Reader>>& read_by, int queues) {
  TaskGraph out;
  out.queue_count = queues;
  out.op_count = static_cast<int>(graph.ops.size());
  out.wires.resize(graph.ops.size() + graph.tensors.size());
  out.fragments.resize(out.wires.size());
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const int slot = out.op_count + static_cast<int>(t);
    TaskGraph::Wires& wires = out.wires[static_cast<size_t>(slot)];
    const OpId producer = graph.tensors[t].producer;
    wires.parties = {slot, producer.value};
    for (const Reader& reader : read_by[t]) add_party(wires, reader.op.value);
    // An input that nobody reads, and an output that nobody makes, belong to the last op.
    if (!producer.valid()) add_party(wires, out.op_count - 1);
    for (size_t p = 1; p < wires.parties.size(); ++p) {
      if (wires.parties[p] < 0) continue;
      TaskGraph::Wires& op = out.wires[static_cast<size_t>(wires.parties[p])];
      if (p == 1) op.results.push_back(slot);
      else op.operands.emplace_back(slot, static_cast<int>(p));
    }
  }
  return out;
}

std::vector<std::vector<int>> ops_of_families(const Graph& graph, const TaskGraph& wired,
                                              const std::vector<std::vector<TensorId>>& families,
                                              const std::vector<std::vector<Reader>>& read_by) {
  std::vector<std::vector<int>> out(graph.tensors.size());
  for (size_t t = 0; t < out.size(); ++t) {
    const std::vector<int>& parties = wired.wires[graph.ops.size() + t].parties;
    const auto add = [&](OpId op) {
      if (std::ranges::find(parties, op.value) == parties.end() && std::ranges::find(out[t], op.value) == out[t].end())
        out[t].push_back(op.value);
    };
    for (const TensorId other : families[t]) {
      for (const Reader& reader : read_by[other.index()]) add(reader.op);
      if (const OpId writer = graph.tensor(other).producer; writer.valid()) add(writer);
    }
  }
  return out;
}

}  // namespace partita
