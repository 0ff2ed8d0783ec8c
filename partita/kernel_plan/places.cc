// Plans the kernels of places: places of experts' choices, and places of numbers in lists.
#include "partita/base/error.h"
#include "partita/kernel_plan/registered.h"

namespace partita {
namespace {

bool are_integers(const KernelRequest& r, std::initializer_list<int> tensors) {
  for (int t : tensors)
    if (!r.held.shards[t] || r.held.shards[t]->dtype != DType::kInt64) return false;
  return true;
}

}  // namespace

std::optional<ExpertPlace> ExpertPlace::plan(const KernelRequest& r) {
  if (r.first_stage != 0 || r.last_stage != 3) return std::nullopt;
  const auto range = [&](const char* name) { return r.ranges[static_cast<size_t>(r.bound.find_index(name))]; };
  ExpertPlace plan;
  plan.ix = 0;
  plan.result = r.bound.results[0];
  plan.g = range("g"), plan.t = range("t"), plan.k = range("k"), plan.u = range("u"), plan.l = range("l");
  if (!are_integers(r, {plan.ix, plan.result})) return std::nullopt;
  for (int s : {0, 1})  // stages that others want
    if (r.held.written[r.bound.stages[s].tensor]) return std::nullopt;
  return plan;
}

std::optional<Places> Places::plan(const KernelRequest& r) {
  if (r.first_stage != 0 || r.last_stage != 1) return std::nullopt;
  Places plan;
  plan.result = r.bound.results[0];
  if (!are_integers(r, {plan.ids, plan.result})) return std::nullopt;
  plan.box = stage_box(r.bound, 0, r.ranges);
  plan.shape = r.bound.tensors[plan.ids].factored;
  if (!contains(r.held.shards[plan.ids]->box, plan.box)) return std::nullopt;
  for (int64_t k = 0; r.attributes.contains(fmt::format("extents.{}", k)); ++k)
    plan.extents.push_back(static_cast<int64_t>(r.attributes.at(fmt::format("extents.{}", k))));
  return plan.extents.empty() ? std::nullopt : std::optional(plan);
}

}  // namespace partita
