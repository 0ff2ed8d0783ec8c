// Watches kernels' results, and reports those that are not finite.
#include "partita/train/not_finite.h"

#include <cmath>

#include "partita/base/error.h"
#include "partita/graph/infer.h"
#include "partita/runtime/views.h"

namespace partita {

void WatchingKernels::run(const KernelCall& call) {
  kernels_.run(call);
  if (!watch.load(std::memory_order_relaxed)) return;
  for (const View& write : call.writes) {
    if (!is_float(write.dtype) || is_empty(write.box)) continue;
    const Finiteness found = finiteness_of(write);
    const bool forward = call.task->phase == Phase::kForward;
    if (found == Finiteness::kFinite || (forward && found == Finiteness::kInfinite)) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    weights_lost_ |= call.task->phase == Phase::kUpdate;
    if (!first_ || call.task->op.index() < first_->index()) first_ = call.task->op;
  }
}

std::optional<OpId> WatchingKernels::first() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_;
}

bool WatchingKernels::weights_lost() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return weights_lost_;
}

std::string first_step_report(const Graph& graph, const WatchingKernels& kernels, double loss) {
  const bool lost = !std::isfinite(loss);
  const std::optional<OpId> id = kernels.first();
  if (!lost && !kernels.weights_lost()) return "";
  if (!id) return "the loss of step 1 is not finite, whatever the learning rate";
  const Op& op = graph.op(*id);
  if (op.phase == Phase::kUpdate) return "";  // from finite gradients: the step was too long
  const std::string place = describe(graph, op);
  if (op.phase == Phase::kForward)
    return fmt::format("the {} of step 1 {} not finite, whatever the learning rate: {} is the first with a NaN",
                       lost ? "loss" : "gradients", lost ? "is" : "are", place);
  return fmt::format(
      "the gradients of step 1 are not finite, so the weights are lost, whatever the learning rate: {} is the first "
      "with such a result; its derivative may be infinite at these numbers, as that of a root, a logarithm or a "
      "quotient is at 0",
      place);
}

std::string later_step_report(int64_t step, double before, double first, bool watched) {
  const char* why = "a smaller learning rate may help";
  if (step > 1 && before <= first)
    why = "losses had not grown before: a derivative may be infinite at this step's samples";
  else if (!watched)
    why = "a smaller learning rate may help, if no derivative is infinite (a root, a logarithm or a quotient of 0)";
  return fmt::format("the loss is not finite since step {}; {}", step + 1, why);
}

}  // namespace partita
