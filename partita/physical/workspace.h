// What kernels need beside their operands and results. kernels/ makes its plan of a call with the same functions.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "partita/physical/physical.h"
#include "partita/physical/stage_program.h"

namespace partita {

// A block's temporaries in the generic stage kernel stay below this where they can. Small enough for a core's cache to
// hold much of it, large enough that an instruction's own cost does not show (bench/kernels).
constexpr int64_t kGenericBudgetBytes = int64_t{4} << 20;

// One read or write of a kernel: a part of a tensor over its register's (factored) axes.
struct PlacedPart {
  int tensor = -1;  // of the bound formula
  Part part;
  Shape axes;  // the whole tensor's extents over the axes of `part`
};

// What a run of stages holds, per tensor of the formula and over its factored axes.
struct KernelParts {
  std::vector<std::optional<Part>> parts;
  std::vector<bool> written;
  // Of real arithmetic: the widest floating type held, at least float32; float64 where there is none.
  DType real = DType::kFloat64;
};
KernelParts kernel_parts(const tdl::Bound& bound, const std::vector<PlacedPart>& reads,
                         const std::vector<PlacedPart>& writes);

// How the generic stage kernel runs stages [first, last) over these ranges. A stage that is not written lies in memory
// of its own until the last stage that reads it has run.
struct GenericStep {
  enum class What { kNothing, kIdentity, kProgram } what = What::kProgram;  // an empty result; an empty reduction
  int stage = -1;
  StageProgram program;
  bool internal = false;  // its tensor is not written, and has memory of its own
  int shares =
      -1;  // its tensor is not written, and lies where this result will: the result reads it at its own index only
  std::vector<int> dead;  // internal tensors that end here
};
struct GenericPlan {
  std::vector<std::optional<Part>> parts;  // of internal tensors too
  std::vector<GenericStep> steps;
  int64_t workspace_bytes = 0;
};
GenericPlan plan_generic(const tdl::Bound& bound, int first, int last, const std::vector<Interval>& ranges,
                         const KernelParts& held, int64_t budget_bytes = kGenericBudgetBytes);

// Whether kernels/ has a kernel of its own for a definition.
bool is_registered(const std::string& definition);
// The scratch of that kernel for a call; empty where there is none, or where it declines the call and the generic stage
// kernel runs.
std::optional<int64_t> registered_workspace_bytes(const KernelWork& work, const std::vector<Interval>& ranges,
                                                  const KernelParts& held);

// What a call needs, whichever kernel runs it. registered: those of definitions are used.
int64_t workspace_bytes(const KernelWork& work, const std::vector<Interval>& ranges,
                        const std::vector<PlacedPart>& reads, const std::vector<PlacedPart>& writes,
                        int64_t budget_bytes = kGenericBudgetBytes, bool registered = true);

// Of a graph's tasks: bytes that each needs beside its operands and results; kernels may use no more (PHYSICAL.md:
// everything is a register). Most calls are like others in all that this depends on: those are looked at once. Formulas
// must stay.
class Workspaces {
 public:
  int64_t bytes_of(const Task& task, const PhysicalGraph& graph);

 private:
  std::unordered_map<std::string, int64_t> known_;  // by all of that
  std::string call_;                                // the same of the last call
};

// No read of the tensor in the expression is at other subscripts.
bool reads_only_at(const tdl::Expr& e, int tensor, const std::vector<tdl::Affine>& subscripts);

}  // namespace partita
