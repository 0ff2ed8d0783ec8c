// Finds the registers of kept gradients by the updates that read them.
#include "partita/physical/kept_gradients.h"

#include "partita/graph/kept_gradients.h"

namespace partita {

namespace {

// each(task, register) for every such register that an update reads.
template <typename Each>
void for_kept(const PhysicalGraph& graph, Each each) {
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const auto* kernel = std::get_if<KernelWork>(&graph.tasks[t].work);
    if (!kernel || !keeps_gradient(kernel->attributes)) continue;
    for (const Access& read : graph.tasks[t].reads)
      if (read.tensor == kGradientOperand && !graph.reg(read.reg).carried && !graph.reg(read.reg).constant)
        each(TaskId(t), read.reg);
  }
}

}  // namespace

std::vector<char> kept_gradient_registers(const PhysicalGraph& graph) {
  std::vector<char> kept(graph.registers.size(), false);
  for_kept(graph, [&](TaskId, RegisterId r) { kept[r.index()] = true; });
  return kept;
}

KeptGradients kept_gradients(const PhysicalGraph& graph, const NodeTable& table) {
  KeptGradients kept{kept_gradient_registers(graph),
                     std::vector<std::vector<int>>(static_cast<std::size_t>(graph.device_count))};
  for_kept(graph, [&](TaskId task, RegisterId r) {
    for (int firing = 0; firing < graph.task(task).rate; ++firing)
      kept.updates[graph.reg(r).device.index()].push_back(table.number(task, firing));
  });
  return kept;
}

}  // namespace partita
