// Names kernels by formula, extents and elements.
#include "partita/cost/kernel_id.h"

#include <fmt/format.h>

#include <cctype>

#include "partita/base/rng.h"
#include "partita/graph/kept_gradients.h"
#include "partita/physical/workspace.h"

namespace partita {

namespace {

int64_t elements_of(const PhysicalGraph& graph, const Access& access, int firing) {
  return volume(boxes_of(access, graph.reg(access.reg), firing).second);
}

}  // namespace

std::string formula_hash(const tdl::Bound& bound) {
  std::string text;
  bool in_number = false;
  for (const char c : tdl::to_text(bound)) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit || !in_number) text += digit ? '0' : c;
    in_number = digit;
  }
  return fmt::format("{:016x}", hash_name(text));
}

KernelId kernel_id(const std::string& definition, const tdl::Attributes& attributes, const tdl::Bound& bound,
                   std::string form, int first_stage, int last_stage, const std::vector<Interval>& ranges,
                   const std::vector<TensorAccess>& tensors) {
  KernelId id;
  id.definition = definition;
  id.form = std::move(form);
  for (const auto& [name, value] : attributes)
    if (name != kKeptGradient) id.attributes += fmt::format("{}{}={}", id.attributes.empty() ? "" : ", ", name, value);
  id.first_stage = first_stage, id.last_stage = last_stage;
  for (size_t i = 0; i < ranges.size(); ++i) id.indices.emplace_back(bound.indices[i].name, ranges[i].size());
  for (const bool written : {false, true})
    for (const TensorAccess& tensor : tensors)
      if (tensor.written == written)
        id.operands.push_back({bound.tensors[tensor.tensor].name, tensor.dtype, tensor.elements, written});
  return id;
}

KernelId kernel_id(const PhysicalGraph& graph, const Task& task, const KernelWork& work, std::string form, int firing) {
  std::vector<TensorAccess> tensors;
  for (const Access& access : task.reads)
    tensors.push_back({access.tensor, graph.reg(access.reg).dtype, elements_of(graph, access, firing), false});
  for (const Access& access : task.writes)
    tensors.push_back({access.tensor, graph.reg(access.reg).dtype, elements_of(graph, access, firing), true});
  return kernel_id(work.definition, work.attributes, *work.bound, std::move(form), work.first_stage, work.last_stage,
                   work.ranges[work.ranges.size() == 1 ? 0 : static_cast<size_t>(firing)], tensors);
}

const std::string& FormulaHashCache::of(const std::shared_ptr<const tdl::Bound>& bound) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [found, fresh] = known_.try_emplace(bound);
  if (fresh) found->second = formula_hash(*bound);
  return found->second;
}

}  // namespace partita
