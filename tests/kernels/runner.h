// Runs kernels in place of the reference evaluator, for tests, on buffers of their own and on exactly the scratch that
// they declare.
#pragma once
#include <string>
#include <vector>

#include "partita/kernels/kernels.h"
#include "partita/tdl/testing/check.h"

namespace partita::testing {

struct KernelOp {
  const tdl::Bound* bound = nullptr;
  std::string definition;
  tdl::Attributes attributes;
  std::vector<DType> results;    // in memory; empty: the formula's
  DType real = DType::kFloat64;  // of real operands in memory
  int64_t budget_bytes = kGenericBudgetBytes;
  bool registered = true;  // as the Kernels were made
  int64_t slice_bytes = kGenericSliceBytes;
};

// The use of scratch over all calls.
struct ScratchUse {
  int calls = 0, registered_calls = 0, sliced_calls = 0;
  int64_t declared_bytes = 0, used_bytes = 0;  // of the call with the largest declaration
  int64_t outside_bytes = 0;                   // allocated elsewhere, at most
  std::string above;                           // a call that used more than it declared
};

// Both must outlive the runner.
tdl::testing::StagesRunner kernel_runner(Kernels& kernels, const KernelOp& op, ScratchUse* use = nullptr);

// All results of the unsharded formula, in their stored shapes.
std::vector<tdl::Array> run_whole(Kernels& kernels, const KernelOp& op, const std::vector<tdl::Array>& operands,
                                  ScratchUse* use = nullptr);

}  // namespace partita::testing
