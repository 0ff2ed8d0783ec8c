// Models device memory for tests: every element carries the register, use and step that were written there last.
#pragma once
#include <string>
#include <vector>

#include "partita/physical/physical.h"

namespace partita::testing {

class TaggedMemory {
 public:
  // Registers that live from step to step hold what step 0 expects. Keeps a reference to the graph.
  explicit TaggedMemory(const PhysicalGraph& graph);
  // The task's firing number `firings`, counted over all steps, begins. Its reads must be there, and its writes' old
  // values are gone.
  void begin(TaskId task, int64_t firings);
  // It ends: its reads must be there still, and its writes are there now.
  void end(TaskId task, int64_t firings);
  // The first read that saw foreign elements; empty: none.
  const std::string& corrupt() const { return corrupt_; }

 private:
  int64_t tag(RegisterId id, int use, int64_t step) const;
  template <typename F>
  void each(RegisterId id, int use, const Box* part, F&& visit);
  void fill(RegisterId id, int use, const Box* part, int64_t value);
  void expect(const Task& task, int firing, RegisterId id, int use, int64_t step, const Box* part, const char* what);
  void check_reads(const Task& task, int firing, int64_t step);

  const PhysicalGraph& graph_;
  std::vector<std::vector<int64_t>> tags_;  // by device
  std::string corrupt_;
};

}  // namespace partita::testing
