// Compares a model that was made for another batch than its file's with the file's own, by running both.
#include "partita/train/batch_check.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/plan/rules.h"
#include "partita/runtime/weights.h"
#include "partita/schedule/lower.h"
#include "partita/train/dataset.h"
#include "partita/train/feed.h"

namespace partita {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kTolerance = 1e-3;  // relative to an output's largest value: other sizes sum in other orders
// The share of an output's integers that may differ: an index changes if two values are nearly equal.
constexpr double kIntegersApart = 1.0 / 16;

// Places first to first + count - 1 along an axis. Places beyond its end repeat the last one.
Values taken(const Values& whole, std::size_t axis, int64_t first, int64_t count) {
  Values piece{.dtype = whole.dtype, .shape = whole.shape};
  piece.shape[axis] = count;
  const int64_t inside = volume(Shape(whole.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, whole.shape.end())),
                extent = whole.shape[axis];
  for (int64_t at = 0; at < volume(whole.shape); at += extent * inside)
    for (int64_t place = first; place < first + count; ++place) {
      const int64_t begin = at + std::min(place, extent - 1) * inside;
      for (int64_t i = begin; i < begin + inside; ++i) {
        if (is_float(whole.dtype)) piece.real.push_back(whole.real[static_cast<std::size_t>(i)]);
        else piece.integer.push_back(whole.integer[static_cast<std::size_t>(i)]);
      }
    }
  return piece;
}

// The axes in which two shapes differ.
std::vector<std::size_t> other_axes(const Shape& own, const Shape& other) {
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < own.size(); ++a)
    if (own[a] != other[a]) axes.push_back(a);
  return axes;
}

using Outputs = std::vector<Arrays>;  // by step, then by name

// Runs one graph on one device, each step on inputs of its own. Empty if a drawn index names no place.
Outputs outputs_of(const Graph& forward, int64_t steps,
                   const std::function<Values(TensorId input, int64_t step)>& input, Kernels& kernels) {
  const Graph graph = evaluation_graph(forward);
  const Cluster one = load_cluster("local:1");
  const PhysicalGraph physical = lower(graph, single_plan(graph, one), one);
  Memory memory(physical);
  write_initial(memory, graph, kSeed, {});
  Outputs outputs(static_cast<std::size_t>(steps));
  Feed feed;
  feed.load = [&](TensorId id, int64_t step, Interval elements) {
    return elements_of(input(forward.find_tensor(graph.tensor(id).name), step), elements);
  };
  feed.keep = [&](TensorId id, int64_t step, Values value) {
    outputs[static_cast<std::size_t>(step)][graph.tensor(id).name] = std::move(value);
  };
  const Hooks hooks = hooks_of(graph, std::move(feed), kernels, kSeed);
  if (run_threads(physical, memory, hooks, {steps, false}).outside) return {};
  return outputs;
}

bool agree(const Values& a, const Values& b, double scale) {
  if (a.shape != b.shape || a.dtype != b.dtype) return false;
  std::size_t apart = 0;
  for (std::size_t i = 0; i < a.integer.size(); ++i) apart += a.integer[i] != b.integer[i];
  if (static_cast<double>(apart) > kIntegersApart * static_cast<double>(a.integer.size())) return false;
  for (std::size_t i = 0; i < a.real.size(); ++i) {
    const double x = a.real[i], y = b.real[i];
    const bool equal = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= kTolerance * scale;
    if (!equal) return false;
  }
  return true;
}

double largest(const Values& values) {
  double most = 0;
  for (double v : values.real)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

// The batch of the file and that of its graph, from the inputs' extents; 0 if they are equal.
struct Batch {
  int64_t own = 0, other = 0;
};
Batch sizes_of(const OtherBatch& batch) {
  Batch sizes;
  for (TensorId id : batch.own.inputs) {
    const Shape& own = batch.own.tensor(id).shape;
    const Shape& other = batch.other.tensor(batch.other.find_tensor(batch.own.tensor(id).name)).shape;
    for (const std::size_t axis : other_axes(own, other)) sizes = {own[axis], other[axis]};
  }
  return sizes;
}

// Compares sample by sample of one output: `whole` of the other graph, `parts` of the file's own, one a step. If
// samples of some inputs meet those of others, it compares the places at which both are number s.
void check_same_samples(const Tensor& output, const Batch& batch, const Values& whole, const Outputs& parts) {
  const std::vector<std::size_t> axes = other_axes(output.shape, whole.shape);
  const auto sample = [&](Values of, int64_t s) {
    for (const std::size_t axis : axes) {
      const int64_t each = output.shape[axis] / batch.own;
      of = taken(of, axis, s * each, each);
    }
    return of;
  };
  for (int64_t s = 0; s < batch.other; ++s) {
    const Values& part = parts[static_cast<std::size_t>(s / batch.own)].at(output.name);
    if (!agree(sample(whole, s), sample(part, s % batch.own), largest(whole)))
      fail(
          "output '{}', sample {}: the model made for a batch of {} differs from the file's own, which is for {}; "
          "export with a dynamic batch",
          output.name, s, batch.other, batch.own);
  }
}

}  // namespace

void check_other_batch(const OtherBatch& batch, Kernels& kernels) {
  const Graph &own = batch.own, &other = batch.other;
  const Batch sizes = sizes_of(batch);
  if (sizes.own < 1) return;
  std::map<TensorId, Values> inputs;  // of the other batch, by the own graph's inputs
  for (TensorId id : own.inputs) {
    const TensorId same = other.find_tensor(own.tensor(id).name);
    Rng rng(kSeed ^ hash_name(own.tensor(id).name));
    inputs[id] = drawn_values(other, same, other.tensor(same).shape, rng);
  }
  const Outputs all = outputs_of(
      other, 1, [&](TensorId id, int64_t) { return inputs.at(own.find_tensor(other.tensor(id).name)); }, kernels);
  const Outputs parts = outputs_of(
      own, (sizes.other + sizes.own - 1) / sizes.own,
      [&](TensorId id, int64_t step) {
        const Values& whole = inputs.at(id);
        const auto axes = other_axes(own.tensor(id).shape, whole.shape);
        return axes.empty() ? whole : taken(whole, axes[0], step * sizes.own, sizes.own);
      },
      kernels);
  if (all.empty() || parts.empty()) return;
  for (TensorId id : own.outputs) check_same_samples(own.tensor(id), sizes, all[0].at(own.tensor(id).name), parts);
}

}  // namespace partita
