// Prepares each firing of each task: the memory that it touches, and its kernel's prepared call. All of it is the same
// at every step, so it is found once, before the first.
#pragma once
#include <vector>

#include "partita/runtime/kernel.h"
#include "partita/runtime/memory.h"

namespace partita {

struct ActWrite {
  View view;                    // in the register
  bool buffered = false;        // results lie in a buffer of the firing's own first
  bool adds = false;            // and are then added to those of earlier firings (an accumulated register)
  std::byte* addend = nullptr;  // that buffer, if the task has scratch for it
};

struct Firing {
  // Per access: one view, or one a use if a task reads once a step the results of several firings. A kernel's are in
  // `call`.
  std::vector<std::vector<View>> reads;
  std::vector<ActWrite> writes;
  KernelCall call;  // for a kernel, without its random key and buffers
};

struct Firings {
  const PhysicalGraph& graph;
  std::vector<std::vector<Firing>> by_task;       // [task][firing]
  std::vector<std::vector<TaskId>> participants;  // by CollectiveId, in rank order
  const Firing& at(TaskId task, int firing) const { return by_task[task.index()][static_cast<std::size_t>(firing)]; }
};

// Prepares firings on these kernels. The memory must outlive the result.
Firings prepare_firings(const Memory& memory, Kernels* kernels);

}  // namespace partita
