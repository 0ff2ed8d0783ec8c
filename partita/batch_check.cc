// A model that was made for another batch than its file's, against the file's own, by running both.
#include "partita/batch_check.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/index_limit.h"
#include "partita/plan/rules.h"
#include "partita/runtime/weights.h"

namespace partita {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kTolerance = 1e-3;  // of an output's largest value: other sizes are summed in other orders
constexpr double kIntegersApart =
    1.0 / 16;  // of an output: a number of a place changes where two values are nearly equal

// Places first, first + 1, .. of an axis, the last of which stands for those behind it.
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

// The first axis that differs; none: there is none.
std::optional<std::size_t> other_axis(const Shape& own, const Shape& other) {
  for (std::size_t a = 0; a < own.size(); ++a)
    if (own[a] != other[a]) return a;
  return std::nullopt;
}

Values drawn(const Graph& graph, TensorId id) {
  const Tensor& t = graph.tensor(id);
  Rng rng(kSeed ^ hash_name(t.name));
  Values values{.dtype = t.dtype, .shape = t.shape};
  const int64_t limit = index_range(graph, id).value_or(Interval{0, 2}).hi;
  for (int64_t i = 0; i < volume(t.shape); ++i) {
    if (is_float(t.dtype)) values.real.push_back(rng.normal());
    else values.integer.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(limit))));
  }
  return values;
}

using Outputs = std::vector<std::map<std::string, Values>>;  // a step

// Runs of one graph, each on inputs of its own, on one device; none where a made-up number names no place.
Outputs run_steps(const Graph& forward, int64_t steps, const std::function<Values(TensorId input, int64_t step)>& input,
                  Kernels& kernels) {
  const Graph graph = evaluation_graph(forward);
  const Cluster one = load_cluster("local:1");
  const PhysicalGraph physical = lower(graph, single_plan(graph, one), one);
  Memory memory(physical);
  write_initial(memory, graph, kSeed, {});
  Outputs outputs(static_cast<std::size_t>(steps));
  std::mutex mutex;
  Hooks hooks;
  hooks.kernels = &kernels;
  hooks.seed = kSeed;
  hooks.load = [&](TensorId id, int64_t step, const View& into) {
    const Values values = input(forward.find_tensor(graph.tensor(id).name), step);
    std::vector<std::byte> bytes;
    copy_box(view_of(values, into.axes, bytes), into);
  };
  hooks.take = [&](TensorId id, int64_t step, const View& value) {
    const std::lock_guard<std::mutex> lock(mutex);
    outputs[static_cast<std::size_t>(step)][graph.tensor(id).name] = values_of(value, graph.tensor(id).shape);
  };
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

}  // namespace

void check_other_batch(const OtherBatch& batch, Kernels& kernels) {
  const Graph &own = batch.own, &other = batch.other;
  std::map<TensorId, Values> inputs;  // of the other batch, by the own graph's inputs
  int64_t from = 0, to = 0;
  for (TensorId id : own.inputs) {
    const TensorId same = other.find_tensor(own.tensor(id).name);
    inputs[id] = drawn(other, same);
    if (const auto axis = other_axis(own.tensor(id).shape, other.tensor(same).shape))
      from = own.tensor(id).shape[*axis], to = other.tensor(same).shape[*axis];
  }
  if (from < 1) return;
  const Outputs all = run_steps(
      other, 1, [&](TensorId id, int64_t) { return inputs.at(own.find_tensor(other.tensor(id).name)); }, kernels);
  const Outputs parts = run_steps(
      own, (to + from - 1) / from,
      [&](TensorId id, int64_t step) {
        const Values& whole = inputs.at(id);
        const auto axis = other_axis(own.tensor(id).shape, whole.shape);
        return axis ? taken(whole, *axis, step * from, from) : whole;
      },
      kernels);
  if (all.empty() || parts.empty()) return;
  for (TensorId id : own.outputs) {
    const std::string& name = own.tensor(id).name;
    const Values& whole = all[0].at(name);
    const auto axis = other_axis(own.tensor(id).shape, whole.shape);
    if (!axis) fail("output '{}' has no axis for the {} samples of the batch", name, to);
    const int64_t each = own.tensor(id).shape[*axis] / from;
    for (int64_t s = 0; s < to; ++s) {
      const Values expected = taken(parts[static_cast<std::size_t>(s / from)].at(name), *axis, s % from * each, each);
      if (!agree(taken(whole, *axis, s * each, each), expected, largest(whole)))
        fail(
            "output '{}', sample {}: the model made for a batch of {} differs from the file's own, which is for {}; "
            "export with a dynamic batch",
            name, s, to, from);
    }
  }
}

}  // namespace partita
