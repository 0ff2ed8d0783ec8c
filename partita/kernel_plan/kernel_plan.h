// Chooses what runs a call, and with how much scratch: a kernel of its own, or the generic stage kernel.
#pragma once
#include "partita/kernel_plan/generic.h"
#include "partita/kernel_plan/registered.h"

namespace partita {

// Lowering and a run take the defaults; tests and benchmarks compare kernels.
struct KernelOptions {
  bool registered = true;  // false: everything runs on the generic stage kernel
  int64_t budget_bytes = kGenericBudgetBytes;
  int64_t slice_bytes = kGenericSliceBytes;
};

struct KernelPlan {
  std::optional<RegisteredKernel> registered;
  GenericPlan generic;  // if there is no other
  int64_t workspace_bytes() const;
};
KernelPlan plan_kernel(const KernelRequest& request, const KernelOptions& options = {});

}  // namespace partita
