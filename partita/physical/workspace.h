// Counts the scratch that a graph's kernels need besides their operands and results.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "partita/kernel_plan/request.h"
#include "partita/physical/physical.h"

namespace partita {

// Returns a kernel's access in one firing: the register's box, and the box inside it that is accessed.
std::pair<const Box&, const Box&> boxes_of(const Access& access, const Register& reg, int firing);

// Makes the request to a kernel for one firing, which has these ranges. It refers to `work` and `ranges`.
KernelRequest request_of(const KernelWork& work, const std::vector<Interval>& ranges,
                         const std::vector<PlacedShard>& reads, const std::vector<PlacedShard>& writes);

// Counts the bytes that each task of a graph needs besides its operands and results. Its kernel may use no more
// (PHYSICAL.md section 1: everything is a register). Calls that are alike in all that this depends on are planned once.
// Formulas must outlive it.
class Workspaces {
 public:
  int64_t bytes_of(const Task& task, const PhysicalGraph& graph);

 private:
  std::unordered_map<std::string, int64_t> known_;  // by all that a call's bytes depend on
  std::string call_;                                // the same of the last call
};

}  // namespace partita
