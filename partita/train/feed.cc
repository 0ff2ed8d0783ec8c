// Feeds a run's inputs and takes its outputs, as values.
#include "partita/train/feed.h"

#include <memory>
#include <mutex>

#include "partita/base/error.h"
#include "partita/runtime/weights.h"
#include "partita/train/dataset.h"

namespace partita {

Hooks hooks_of(const Graph& graph, Feed feed, Kernels& kernels, uint64_t seed) {
  Hooks hooks;
  hooks.kernels = &kernels;
  hooks.seed = seed;
  hooks.load = [load = std::move(feed.load)](TensorId input, int64_t step, const View& into) {
    const Values values = load(input, step);
    std::vector<std::byte> bytes;
    copy_box(view_of(values, into.axes, bytes), into);
  };
  hooks.take = [&graph, keep = std::move(feed.keep), mutex = std::make_shared<std::mutex>()](
                   TensorId output, int64_t step, const View& value) {
    const std::lock_guard<std::mutex> lock(*mutex);
    keep(output, step, values_of(value, graph.tensor(output).shape));
  };
  return hooks;
}

void refuse_outside(const Graph& graph, const RunReport& report) {
  if (!report.outside) return;
  const Outside& o = *report.outside;
  const Op& op = graph.op(o.op);
  const Tensor& tensor = graph.tensor(op.operands[static_cast<size_t>(o.operand)]);
  fail("op '{}': '{}' has {} at [{}]; it takes {} to {}", op.name, tensor.name, o.value,
       fmt::join(position_of(o.element, tensor.shape), ", "), o.taken.lo, o.taken.hi - 1);
}

}  // namespace partita
