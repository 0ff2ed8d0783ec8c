// Chooses the kernel that runs a call.
#include "partita/kernel_plan/kernel_plan.h"

namespace partita {

KernelPlan plan_kernel(const KernelRequest& request, const KernelOptions& options) {
  KernelPlan plan;
  if (options.registered) plan.registered = plan_registered(request);
  if (!plan.registered) plan.generic = plan_generic(request, options.budget_bytes, options.slice_bytes);
  return plan;
}

int64_t KernelPlan::workspace_bytes() const {
  if (!registered) return generic.workspace_bytes;
  return std::visit([](const auto& kernel) { return kernel.workspace_bytes; }, *registered);
}

}  // namespace partita
