// What each act of each task touches in memory, and what its kernel makes of the call. All of it is the same at every
// step, so it is found once, before the first.
#pragma once
#include <vector>

#include "partita/runtime/kernel.h"
#include "partita/runtime/memory.h"

namespace partita {

struct ActWrite {
  View view;                    // in the register
  bool buffered = false;        // what is computed lies in a buffer of the act's own first
  bool adds = false;            // and is then added to what earlier acts wrote (an accumulated register)
  std::byte* addend = nullptr;  // where that buffer is, if the task has scratch for it
};

struct Act {
  // Per access: one view, or one a use where a task reads once a step what several acts wrote. A kernel's are in
  // `call`.
  std::vector<std::vector<View>> reads;
  std::vector<ActWrite> writes;
  KernelCall call;  // of a kernel, but for its random key and for buffers
};

struct Acts {
  const PhysicalGraph& graph;
  std::vector<std::vector<Act>> by_task;          // [task][act]
  std::vector<std::vector<TaskId>> participants;  // by CollectiveId, in rank order
  const Act& at(TaskId task, int act) const { return by_task[task.index()][static_cast<std::size_t>(act)]; }
};

// For runs on these kernels. The memory must outlive the result.
Acts prepare_acts(const Memory& memory, Kernels* kernels);

}  // namespace partita
