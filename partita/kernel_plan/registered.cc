// Finds a definition's kernel in the list.
#include "partita/kernel_plan/registered.h"

#include <type_traits>

namespace partita {
namespace {

template <typename... Kernels>
bool is_any(const std::string& definition, std::type_identity<std::variant<Kernels...>>) {
  return ((definition == Kernels::kDefinition) || ...);
}

template <typename... Kernels>
std::optional<RegisteredKernel> plan_of_any(const KernelRequest& request,
                                            std::type_identity<std::variant<Kernels...>>) {
  std::optional<RegisteredKernel> plan;
  ((request.definition == Kernels::kDefinition && (plan = Kernels::plan(request), true)) || ...);
  return plan;
}

constexpr std::type_identity<RegisteredKernel> kAll;

}  // namespace

bool is_registered(const std::string& definition) { return is_any(definition, kAll); }

std::optional<RegisteredKernel> plan_registered(const KernelRequest& request) { return plan_of_any(request, kAll); }

}  // namespace partita
