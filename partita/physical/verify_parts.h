// Declares the checks that verify() consists of. Each file verifies one aspect of a graph, and throws bad input naming
// task or register and rule.
//
// Example: a copy from h@gpu0, box [0,8), to h@gpu1, box [0,4): "task 'h@gpu1<gpu0': reads [0,8) of 'h@gpu0' and writes
// [0,4) of 'h@gpu1'" (verify_work.cc).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/physical/uses.h"

namespace partita::verifying {

template <typename... Args>
void expect(const Task& task, bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) fail("task '{}': {}", task.name, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void expect(const Register& reg, bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) fail("register '{}': {}", reg.name, fmt::format(format, std::forward<Args>(args)...));
}

// The box of the register that a firing touches (of several uses: the first's), and the box inside it that the firing
// accesses.
const Box& held_box(const PhysicalGraph& graph, const Access& access, int rate, int firing);
const Box& part(const PhysicalGraph& graph, const Access& access, int rate, int firing);

// Returns what is left of `box` without the parts.
std::vector<Box> without(const Box& box, const std::vector<Box>& parts);

struct Writer {
  TaskId task;
  const Access* access;
};
using Writers = std::vector<std::vector<Writer>>;  // by register

// Verifies that every field is in range: verify.cc. The others rely on it.
void check_fields(const PhysicalGraph& graph);
// Verifies that kernels access their formula's regions (TDL.md rules 5 to 9): verify_kernel.cc.
void check_kernels(const PhysicalGraph& graph);
// Verifies that copies, combinations, loads, outputs and collectives cover what they write: verify_work.cc.
void check_work(const PhysicalGraph& graph, const Writers& writers);
// Verifies that every element that is read was written, and by one task: verify.cc.
void check_coverage(const PhysicalGraph& graph, const Writers& writers);

}  // namespace partita::verifying
