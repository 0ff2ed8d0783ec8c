// Finds the tasks of a plan's transfers.
#include "partita/physical/transfer_turns.h"

#include <map>
#include <set>

#include "partita/base/error.h"

namespace partita {

namespace {

bool is_on_a_link(const PhysicalGraph& physical, const Task& task) {
  return physical.queues[task.queue.index()].kind == QueueKind::kLink;
}

std::string text_of(const Graph& graph, const PlannedTransfer& transfer) {
  return fmt::format("'{}' to device {}{}", graph.tensor(transfer.tensor).name, transfer.to.value,
                     transfer.reader.valid() ? fmt::format(" for '{}'", graph.op(transfer.reader).name) : "");
}

}  // namespace

PlannedTransfer transfer_of(const Graph& graph, const Task& task) {
  const auto number = static_cast<size_t>(task.key.number);
  switch (task.key.of) {
    case TaskKey::Of::kLoad:
      return {graph.inputs[number], task.device, OpId()};
    case TaskKey::Of::kOutput:
      return {graph.outputs[number], task.device, OpId()};
    case TaskKey::Of::kOperand:
      return {graph.op(task.op).operands[number], task.device, task.op};
    case TaskKey::Of::kKept:
      return {graph.op(task.op).results[number], task.device, OpId()};
    default:
      // Within an op that is split over devices: a stage made whole, a halo. The op's first result stands for them.
      return {graph.op(task.op).results[0], task.device, task.op};
  }
}

std::vector<int> transfer_places(const Graph& graph, const PhysicalGraph& physical,
                                 const std::vector<PlannedTransfer>& transfers) {
  std::map<PlannedTransfer, int> place;
  for (size_t i = 0; i < transfers.size(); ++i) place.emplace(transfers[i], static_cast<int>(i));
  std::vector<int> places(physical.tasks.size(), -1);
  std::set<PlannedTransfer> made;
  for (size_t t = 0; t < physical.tasks.size(); ++t) {
    const Task& task = physical.tasks[t];
    if (!is_on_a_link(physical, task)) continue;
    const PlannedTransfer transfer = transfer_of(graph, task);
    const auto found = place.find(transfer);
    if (found == place.end())
      fail("plan: transfers: {} is missing; the list has all transfers over links, or is left out",
           text_of(graph, transfer));
    places[t] = found->second;
    made.insert(transfer);
  }
  for (const PlannedTransfer& transfer : transfers)
    if (!made.contains(transfer))
      fail("plan: transfers: {} does not cross a link in this plan", text_of(graph, transfer));
  return places;
}

}  // namespace partita
