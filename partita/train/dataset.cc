// Reads a training run's samples and validates them against the model's inputs, or makes them up.
#include "partita/train/dataset.h"

#include <algorithm>
#include <optional>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/batch.h"
#include "partita/graph/index_limit.h"
#include "partita/runtime/npz.h"

namespace partita {
namespace {

constexpr int64_t kSyntheticBatches = 4;
constexpr uint64_t kIgnoredOneIn = 4;

// Axis 0 of an input's array in one step; an input without axes is one number.
int64_t rows_a_step(const Tensor& input) { return input.shape.empty() ? 1 : input.shape[0]; }

// The inputs that have an array.
std::vector<TensorId> fed(const Graph& graph) {
  std::vector<TensorId> inputs;
  for (TensorId id : graph.inputs)
    if (!graph.tensor(id).same_as.valid()) inputs.push_back(id);
  return inputs;
}

Shape without_rows(const Shape& shape) { return shape.empty() ? Shape{} : Shape(shape.begin() + 1, shape.end()); }

// The shape of an array of several steps: [4 x the number of batches, 3].
std::string many_steps(const Tensor& input) {
  if (input.shape.empty()) return "[batches]";
  std::string text = fmt::format("[{} x batches", input.shape[0]);
  for (int64_t extent : without_rows(input.shape)) text += fmt::format(", {}", extent);
  return text + "]";
}

// Tells whether row i along axis 0 belongs to sample i, as far as the graph says. An input of the model has the batch
// along axis 0; labels lie as their output does.
bool has_samples_in_rows(const Graph& graph, TensorId input, int64_t batch) {
  const Tensor& tensor = graph.tensor(input);
  if (tensor.shape.empty() || tensor.shape[0] != batch) return false;
  const TensorId output = output_of_labels(graph, input);
  return !output.valid() || graph.tensor(output).sample_axis == 0;
}

// Tells whether the input is the same in every step. Labels never are.
bool is_shared(const Graph& graph, TensorId input) {
  return graph.tensor(input).sample_axis != 0 && !output_of_labels(graph, input).valid();
}

// The loss that compares an output with these labels.
OpId loss_that_reads(const Graph& training, TensorId labels) {
  static const std::set<std::string> losses{"bce_with_logits", "cross_entropy", "masked_cross_entropy", "mse"};
  for (std::size_t i = 0; i < training.ops.size(); ++i) {
    const Op& op = training.ops[i];
    if (op.phase == Phase::kForward && op.operands.size() >= 2 && op.operands[1] == labels &&
        op.operands[0] != labels && losses.contains(op.definition))
      return OpId(i);
  }
  return {};
}

template <typename T>
void append(std::vector<T>& out, const std::vector<T>& from, int64_t first, int64_t count) {
  out.insert(out.end(), from.begin() + first, from.begin() + first + count);
}

void check_array(const Values& array, const Tensor& input, bool shared, const std::string& origin) {
  if (shared && array.shape != input.shape)
    fail("{}: array '{}' has shape [{}], the model's input, which has no samples along axis 0, takes [{}]", origin,
         input.name, fmt::join(array.shape, ", "), fmt::join(input.shape, ", "));
  const bool one_number = array.shape.empty() && input.shape.empty();
  if (!one_number && (array.shape.empty() || without_rows(array.shape) != without_rows(input.shape)))
    fail("{}: array '{}' has shape [{}]; the model takes [{}] a batch, so {} in all", origin, input.name,
         fmt::join(array.shape, ", "), fmt::join(input.shape, ", "), many_steps(input));
  if (is_float(array.dtype) != is_float(input.dtype))
    fail("{}: array '{}' is {}, the model's input is {}", origin, input.name, name_of(array.dtype),
         name_of(input.dtype));
}

}  // namespace

int64_t batch_of(const Graph& graph) {
  if (const auto batch = find_batch(graph)) return *batch;
  fail("model '{}' has no input with samples along axis 0", graph.name);
}

Shape position_of(int64_t element, const Shape& shape) {
  Shape position(shape.size());
  for (size_t a = shape.size(); a-- > 0; element /= shape[a]) position[a] = element % shape[a];
  return position;
}

namespace {

// The remedy for labels of -100, if a value is one and the loss is the mean over all labels.
std::string remedy_for(const Graph& graph, TensorId input, int64_t value) {
  const OpId loss = loss_that_reads(graph, input);
  if (value != kIgnoredLabel || !loss.valid() || graph.op(loss).definition != "cross_entropy") return "";
  return fmt::format("; labels of {} are left out by --loss masked_cross_entropy", kIgnoredLabel);
}

}  // namespace

void check_numbers(const Graph& graph, TensorId input, const Values& values, const std::string& origin) {
  const std::optional<IndexRange> taken = index_range(graph, input);
  if (!taken) return;
  const auto [range, ignored] = *taken;
  for (size_t i = 0; i < values.integer.size(); ++i) {
    const int64_t value = values.integer[i];
    if ((value >= range.lo && value < range.hi) || value == ignored) continue;
    fail("{}array '{}' has {} at [{}]; the model takes {} to {}{}{}", origin, graph.tensor(input).name, value,
         fmt::join(position_of(static_cast<int64_t>(i), values.shape), ", "), range.lo, range.hi - 1,
         ignored ? fmt::format(", and {} for what does not count", *ignored) : "", remedy_for(graph, input, value));
  }
}

TensorId output_of_labels(const Graph& training, TensorId labels) {
  const OpId loss = loss_that_reads(training, labels);
  return loss.valid() ? training.op(loss).operands[0] : TensorId();
}

void Dataset::check(const Graph& graph, const std::string& origin) {
  const int64_t batch = batch_of(graph);
  TensorId whole;  // an input of which only whole batches can be drawn
  for (TensorId id : fed(graph)) {
    const auto found = arrays_.find(graph.tensor(id).name);
    if (found == arrays_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, values] : arrays_) names.push_back(name);
      fail("{}: no array '{}' for the model's input; it has: {}", origin, graph.tensor(id).name,
           fmt::join(names, ", "));
    }
    const bool shared = is_shared(graph, id);
    check_array(found->second, graph.tensor(id), shared, origin);
    if (shared) shared_.insert(graph.tensor(id).name);
    else if (!whole.valid() && !has_samples_in_rows(graph, id, batch)) whole = id;
  }
  items_a_step_ = whole.valid() ? 1 : batch;
  items_ = -1;
  std::string first;  // the input whose items were counted first
  for (TensorId id : fed(graph)) {
    const Tensor& input = graph.tensor(id);
    if (shared_.contains(input.name)) continue;
    const Values& array = arrays_.at(input.name);
    const int64_t rows = array.shape.empty() ? 1 : array.shape[0], each = whole.valid() ? rows_a_step(input) : 1;
    if (each > 0 && rows % each != 0)
      fail(
          "{}: array '{}' has {} rows, which are not whole batches of {}; input '{}' [{}] is one of each batch of {} "
          "samples, not of each "
          "sample, so the arrays hold whole batches",
          origin, input.name, rows, each, graph.tensor(whole).name, fmt::join(graph.tensor(whole).shape, ", "), batch);
    const int64_t items = each > 0 ? rows / each : 0;
    if (items_ >= 0 && items != items_)
      fail("{}: array '{}' has {} {}, '{}' has {}", origin, input.name, items, whole.valid() ? "batches" : "samples",
           first, items_);
    items_ = items;
    if (first.empty()) first = input.name;
  }
  if (items_ < 1) fail("{}: there are no samples", origin);
}

Values Dataset::take(const Graph& graph, TensorId id, const std::vector<int64_t>& items) const {
  const Shape& shape = graph.tensor(id).shape;
  Values values = take(graph, id, items, {0, volume(shape)});
  values.shape = shape;
  return values;
}

Values Dataset::take(const Graph& graph, TensorId id, const std::vector<int64_t>& items, Interval elements) const {
  const Tensor& input = graph.tensor(graph.tensor(id).same_as.valid() ? graph.tensor(id).same_as : id);
  const Values& from = arrays_.at(input.name);
  Values out{input.dtype, {elements.size()}, {}, {}};
  const auto add = [&](int64_t first, int64_t count) {
    if (is_float(input.dtype)) append(out.real, from.real, first, count);
    else append(out.integer, from.integer, first, count);
  };
  if (shared_.contains(input.name)) {
    add(elements.lo, elements.size());
    return out;
  }
  const int64_t each = volume(from.shape) / items_;  // elements an item
  ensure(static_cast<int64_t>(items.size()) * each == volume(input.shape),
         "input '{}': {} items of {} elements for [{}]", input.name, items.size(), each, fmt::join(input.shape, "x"));
  for (int64_t at = elements.lo; at < elements.hi;) {
    const int64_t item = items[static_cast<size_t>(at / each)], within = at % each;
    ensure(item >= 0 && item < items_, "item {} of {}", item, items_);
    const int64_t count = std::min(each - within, elements.hi - at);
    add(item * each + within, count);
    at += count;
  }
  return out;
}

Dataset Dataset::read(const std::string& path, const Graph& graph) {
  Dataset data;
  data.arrays_ = read_arrays(path);
  data.check(graph, path);
  for (TensorId id : fed(graph)) check_numbers(graph, id, data.array(graph.tensor(id).name), path + ": ");
  return data;
}

Dataset Dataset::synthetic(const Graph& graph, uint64_t seed) {
  Dataset data;
  Rng rng(seed ^ hash_name("synthetic data"));
  for (TensorId id : fed(graph)) {
    const Tensor& tensor = graph.tensor(id);
    Shape shape = tensor.shape;
    if (!is_shared(graph, id)) {
      if (shape.empty()) shape = {1};
      shape[0] *= kSyntheticBatches;
    }
    data.arrays_[tensor.name] = drawn_values(graph, id, std::move(shape), rng);
  }
  data.check(graph, "synthetic data");
  return data;
}

Values drawn_values(const Graph& graph, TensorId input, Shape shape, Rng& rng) {
  Values values{graph.tensor(input).dtype, std::move(shape), {}, {}};
  const auto [range, ignored] = index_range(graph, input).value_or(IndexRange{{0, 2}, {}});
  for (int64_t i = 0; i < volume(values.shape); ++i) {
    if (is_float(values.dtype)) {
      values.real.push_back(rng.normal());
      continue;
    }
    values.integer.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(range.hi))));
    if (ignored && rng.below(kIgnoredOneIn) == 0) values.integer.back() = *ignored;
  }
  return values;
}

Batches::Batches(int64_t items, int64_t items_a_step, uint64_t seed, bool shuffle)
    : items_(items), items_a_step_(items_a_step), seed_(seed), shuffle_(shuffle) {
  if (items < items_a_step)
    fail("the data has {} samples, fewer than one batch of {}; use --batch", items, items_a_step);
}

const std::vector<int64_t>& Batches::order(int64_t epoch) {
  if (epoch == known_) return order_;
  order_.resize(static_cast<size_t>(items_));
  for (int64_t i = 0; i < items_; ++i) order_[static_cast<size_t>(i)] = i;
  if (shuffle_) {
    Rng rng(seed_ + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(epoch + 1));
    rng.shuffle(order_);
  }
  known_ = epoch;
  return order_;
}

std::vector<int64_t> Batches::at(int64_t step) {
  const std::vector<int64_t>& all = order(step / per_epoch());
  auto first = all.begin() + step % per_epoch() * items_a_step_;
  return {first, first + items_a_step_};
}

}  // namespace partita
