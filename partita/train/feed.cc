// Feeds a run's inputs and takes its outputs, as values.
#include "partita/train/feed.h"

#include <map>
#include <memory>
#include <mutex>

#include "partita/base/error.h"
#include "partita/graph/places.h"
#include "partita/runtime/views.h"
#include "partita/runtime/weights.h"
#include "partita/train/dataset.h"

namespace partita {

namespace {

// An output that comes in pieces, as far as it has come.
class Gathered {
 public:
  Gathered(DType dtype, const Shape& axes) : dtype_(dtype), axes_(axes), bytes_(volume(axes) * bytes_of(dtype)) {}
  void add(const View& part) {
    copy_box(part, part_of(view(), part.box));
    elements_ += volume(part.box);
  }
  bool is_whole() const { return elements_ == volume(axes_); }
  View view() { return {bytes_.data(), dtype_, full_box(axes_), dense_strides(axes_), axes_}; }

 private:
  DType dtype_;
  Shape axes_;
  std::vector<std::byte> bytes_;
  int64_t elements_ = 0;
};

struct Taken {
  std::mutex mutex;
  std::map<std::pair<TensorId, int64_t>, Gathered> parts;  // by output and step
};

}  // namespace

Values elements_of(const Values& whole, Interval elements) {
  const auto part = [&](const auto& all) {
    return std::decay_t<decltype(all)>(all.begin() + elements.lo, all.begin() + elements.hi);
  };
  Values values{whole.dtype, {elements.size()}, {}, {}};
  if (is_float(whole.dtype)) values.real = part(whole.real);
  else values.integer = part(whole.integer);
  return values;
}

Hooks hooks_of(const Graph& graph, Feed feed, Kernels& kernels, uint64_t seed) {
  ensure(!has_planned_places(graph.whole_graph()), "'{}' has places for an even load only: runnable() first",
         graph.name);
  Hooks hooks;
  hooks.kernels = &kernels;
  hooks.seed = seed;
  hooks.load = [load = std::move(feed.load)](TensorId input, int64_t step, const View& into) {
    const Interval elements = linear_range(into.box, into.axes);
    if (elements.empty()) return;
    std::vector<std::byte> bytes;
    View part = view_of(load(input, step, elements), {elements.size()}, bytes);
    copy_box({part.data, part.dtype, into.box, dense_strides(into.axes), into.axes}, into);
  };
  hooks.take = [&whole = graph.whole_graph(), keep = std::move(feed.keep), taken = std::make_shared<Taken>()](
                   TensorId output, int64_t step, const View& value) {
    const std::lock_guard<std::mutex> lock(taken->mutex);
    const Shape& shape = whole.tensor(output).shape;
    if (volume(value.box) == volume(shape)) return keep(output, step, values_of(value, shape));
    const auto at = taken->parts.try_emplace({output, step}, value.dtype, value.axes).first;
    at->second.add(value);
    if (!at->second.is_whole()) return;
    keep(output, step, values_of(at->second.view(), shape));
    taken->parts.erase(at);
  };
  return hooks;
}

void validate_indices(const Graph& graph, const RunReport& report) {
  if (!report.outside) return;
  const Outside& o = *report.outside;
  const Op& op = graph.op(o.op);
  const Tensor& tensor = graph.tensor(op.operands[static_cast<size_t>(o.operand)]);
  fail("op '{}': '{}' has {} at [{}]; it takes {} to {}", op.name, tensor.name, o.value,
       fmt::join(position_of(o.element, tensor.shape), ", "), o.taken.lo, o.taken.hi - 1);
}

}  // namespace partita
