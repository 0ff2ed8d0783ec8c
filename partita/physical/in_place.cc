// Finds the element-wise tasks whose result may lie on an operand.
#include "partita/physical/in_place.h"

#include <algorithm>

#include "partita/physical/kept_gradients.h"

namespace partita {

InPlace::InPlace(const PhysicalGraph& graph)
    : graph_(graph), writer_(graph.registers.size(), -1), kept_(kept_gradient_registers(graph)) {
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    for (const Access& write : graph.tasks[t].writes) {
      int& writer = writer_[write.reg.index()];
      writer = writer == -1 ? static_cast<int>(t) : kSeveral;
    }
}

bool InPlace::can_alias(RegisterId operand, RegisterId result) const {
  const Register &a = graph_.reg(operand), &b = graph_.reg(result);
  const int writer = writer_[result.index()];
  if (kept_[operand.index()]) return false;
  if (writer < 0 || a.carried || b.carried || a.constant || b.constant || a.accumulated || b.accumulated) return false;
  const Task& task = graph_.tasks[writer];
  if (!task.elementwise || task.writes.size() != 1 || !task.writes[0].boxes.empty()) return false;
  if (a.uses != b.uses || task.rate != a.uses || a.bytes != b.bytes || a.dtype != b.dtype || a.axes != b.axes ||
      a.boxes != b.boxes)
    return false;
  bool reads = false;
  for (const Access& read : task.reads)
    if (read.reg == operand) {
      if (!read.boxes.empty()) return false;
      reads = true;
    }
  return reads;
}

std::vector<RegisterId> InPlace::operands_of(RegisterId result) const {
  std::vector<RegisterId> operands;
  const int writer = writer_[result.index()];
  if (writer < 0 || !graph_.tasks[writer].elementwise) return operands;
  for (const Access& read : graph_.tasks[writer].reads)
    if (can_alias(read.reg, result) && std::find(operands.begin(), operands.end(), read.reg) == operands.end())
      operands.push_back(read.reg);
  return operands;
}

}  // namespace partita
