// Counts the slots that each register needs (docs/inside/PHYSICAL.md section 3).
#include <algorithm>
#include <limits>

#include "partita/physical/passes.h"

namespace partita {

void make_counts(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options) {
  const std::vector<int> place = places(graph, table);

  std::vector<bool> at_transfer(graph.registers.size(), false);
  for (const Task& task : graph.tasks) {
    if (graph.queues[task.queue.index()].kind != QueueKind::kLink) continue;
    for (const Access& read : task.reads) at_transfer[read.reg.index()] = true;
    for (const Access& write : task.writes) at_transfer[write.reg.index()] = true;
  }

  for (std::size_t r = 0; r < graph.registers.size(); ++r) {
    Register& reg = graph.registers[r];
    reg.count = 1;
    if (reg.carried || reg.uses == 1) continue;
    std::vector<int> first, last;  // by use: the place of its first write, of its last use
    for (const Use& use : uses[r]) {
      int lo = std::numeric_limits<int>::max(), hi = -1;
      for (const Node& w : use.writers) {
        lo = std::min(lo, place[table.number(w)]);
        hi = std::max(hi, place[table.number(w)]);
      }
      for (const Node& x : use.readers) hi = std::max(hi, place[table.number(x)]);
      first.push_back(lo);
      last.push_back(hi);
    }
    const auto too_few = [&](int count) {
      for (int n = 0; n + count < reg.uses; ++n)
        if (last[n] >= first[n + count]) return true;
      return false;
    };
    while (too_few(reg.count)) ++reg.count;
    if (options.transfer_slack && at_transfer[r]) reg.count = std::min(reg.count + 1, reg.uses);
  }
}

}  // namespace partita
