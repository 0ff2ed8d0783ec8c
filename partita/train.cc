#include "partita/train.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "partita/base/error.h"
#include "partita/graph/batch.h"
#include "partita/graph/index_limit.h"
#include "partita/plan/rules.h"
#include "partita/runtime/safetensors.h"
#include "partita/runtime/npz.h"
#include "partita/runtime/weights.h"
#include "partita/weights_of_model.h"

namespace partita {

namespace {

constexpr int64_t kStepsAtOnce = 10;  // run without a look at the stop flag; steps overlap inside
constexpr double kSmallWeight = 0.01;  // docs/cli.md: errors are relative to max(max|serial|, 0.01)

// The coordinates of an element by its row-major number.
Shape position_of(int64_t element, const Shape& shape) {
  Shape position(shape.size());
  for (size_t a = shape.size(); a-- > 0; element /= shape[a]) position[a] = element % shape[a];
  return position;
}

// Bad input: an op met a number of a place that its tensor does not have.
void refuse_outside(const Graph& graph, const RunReport& report) {
  if (!report.outside) return;
  const Outside& o = *report.outside;
  const Op& op = graph.op(o.op);
  const Tensor& tensor = graph.tensor(op.operands[static_cast<size_t>(o.operand)]);
  fail("op '{}': '{}' has {} at [{}]; it takes {} to {}", op.name, tensor.name, o.value,
       fmt::join(position_of(o.element, tensor.shape), ", "), o.taken.lo, o.taken.hi - 1);
}

// Rows `rows` of an array, as values of the tensor's dtype.
Values take_rows(const Values& array, const std::vector<int64_t>& rows, DType dtype) {
  Values out{dtype, array.shape, {}, {}};
  out.shape[0] = static_cast<int64_t>(rows.size());
  int64_t row = array.shape[0] ? volume(array.shape) / array.shape[0] : 0;
  for (int64_t r : rows) {
    if (is_float(dtype)) out.real.insert(out.real.end(), array.real.begin() + r * row, array.real.begin() + (r + 1) * row);
    else out.integer.insert(out.integer.end(), array.integer.begin() + r * row, array.integer.begin() + (r + 1) * row);
  }
  return out;
}

// Whether an input is fed by rows; what has no samples, or has them along another axis, is fed as it is.
bool is_fed_by_rows(const Tensor& input) { return input.sample_axis == 0; }

// Feeds graph inputs by rows, and keeps what comes out.
struct Feed {
  const Graph& graph;
  std::function<std::vector<int64_t>(int64_t step)> rows;
  std::function<const Values&(const std::string& input)> array;
  std::function<void(TensorId output, int64_t step, Values value)> keep;
  std::mutex mutex;

  void load(TensorId input, int64_t step, const View& into) {
    const Tensor& tensor = graph.tensor(input);
    const Values& all = array(tensor.name);
    Values batch = is_fed_by_rows(tensor) ? take_rows(all, rows(step), tensor.dtype) : all;
    batch.dtype = tensor.dtype;
    if (batch.shape != tensor.shape)
      fail("input '{}' takes [{}], and a batch of its array is [{}]", tensor.name, fmt::join(tensor.shape, ", "),
           fmt::join(batch.shape, ", "));
    std::vector<std::byte> bytes;
    copy_box(view_of(batch, into.axes, bytes), into);
  }
  void take(TensorId output, int64_t step, const View& value) {
    std::lock_guard<std::mutex> lock(mutex);
    keep(output, step, values_of(value, graph.tensor(output).shape));
  }
};

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, Values> weights;
  std::vector<int64_t> peak_bytes;
  Trace trace;
  double seconds = 0;
  bool interrupted = false;
};

Outcome run_steps(const Graph& graph, const PhysicalGraph& physical, const Dataset& data, const std::map<std::string, Values>& start,
                  const TrainOptions& options, Kernels& kernels, bool visible) {
  Memory memory(physical);
  write_initial(memory, graph, options.seed, start);
  Outcome out;
  std::mutex batches_mutex;
  Batches batches(data.samples(), batch_of(graph), options.seed, options.shuffle);
  const int64_t steps = options.steps > 0 ? options.steps : static_cast<int64_t>(std::clamp(options.epochs * static_cast<double>(batches.per_epoch()), 1.0, 1e15));
  out.losses.assign(static_cast<size_t>(steps), NAN);
  // The second output, where there is one, is finite where all gradients are (Loss::scale).
  int64_t overflowed = INT64_MAX;
  const TensorId gradients = graph.outputs.size() > 1 ? graph.outputs[1] : TensorId();
  Feed feed{graph,
            [&](int64_t step) {
              std::lock_guard<std::mutex> lock(batches_mutex);
              return batches.at(step);
            },
            [&](const std::string& name) -> const Values& { return data.array(name); },
            [&](TensorId output, int64_t step, Values value) {
              if (output == graph.loss) out.losses[static_cast<size_t>(step)] = value.real.at(0);
              else if (output == gradients && !std::isfinite(value.real.at(0))) overflowed = std::min(overflowed, step);
            },
            {}};
  Hooks hooks;
  hooks.kernels = &kernels;
  hooks.load = [&](TensorId t, int64_t step, const View& v) { feed.load(t, step, v); };
  hooks.take = [&](TensorId t, int64_t step, const View& v) { feed.take(t, step, v); };
  hooks.seed = options.seed;
  auto began = std::chrono::steady_clock::now();
  int64_t done = 0;
  while (done < steps && !out.interrupted) {
    int64_t now = std::min(kStepsAtOnce, steps - done);
    hooks.first_step = done;
    RunReport report = run_threads(physical, memory, hooks, {now, visible && options.trace && done == 0});
    refuse_outside(graph, report);
    if (done == 0) out.trace = report.trace;
    out.peak_bytes.resize(report.peak_bytes.size());
    for (size_t d = 0; d < report.peak_bytes.size(); ++d) out.peak_bytes[d] = std::max(out.peak_bytes[d], report.peak_bytes[d]);
    for (int64_t s = done; s < std::min(done + now, overflowed); ++s)
      if (visible && options.progress) options.progress(s, steps, out.losses[static_cast<size_t>(s)]);
    if (overflowed < INT64_MAX)
      fail("model '{}': the gradients of step {} are not finite, so the weights are lost; use a smaller --loss-scale or learning rate, or bfloat16 in "
           "place of float16, whose largest number is 65504", graph.name, overflowed + 1);
    done += now;
    out.interrupted = visible && options.stop && options.stop->load() && done < steps;
  }
  out.losses.resize(static_cast<size_t>(done));
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  out.weights = read_weights(memory, graph);
  return out;
}

double largest_error(const std::map<std::string, Values>& parallel, const std::map<std::string, Values>& serial) {
  double worst = 0;
  for (const auto& [name, values] : serial) {
    const Values& other = parallel.at(name);
    double scale = kSmallWeight, difference = 0;
    for (size_t i = 0; i < values.real.size(); ++i) {
      scale = std::max(scale, std::abs(values.real[i]));
      double d = std::abs(values.real[i] - other.real[i]);
      if (d != d && !(values.real[i] != values.real[i] && other.real[i] != other.real[i])) d = INFINITY;  // a NaN on one side only
      if (d == d) difference = std::max(difference, d);
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

// The share of labels that belong to the largest output. The last batch is filled up with samples that don't count.
double accuracy(const Planned& planned, const Dataset& data, const std::map<std::string, Values>& weights, uint64_t seed, Kernels& kernels) {
  Graph graph = evaluation_of(planned);
  Plan plan = evaluation_plan(graph, planned);
  check(graph, plan, planned.cluster);
  PhysicalGraph physical = lower(graph, plan, planned.cluster);
  check_capacity(physical, planned.cluster);
  Memory memory(physical);
  write_initial(memory, graph, seed, weights);
  int64_t batch = batch_of(graph), steps = (data.samples() + batch - 1) / batch, right = 0;
  const Values& labels = data.array("labels");
  const int64_t each = volume(labels.shape) / std::max<int64_t>(data.samples(), 1);  // labels a sample
  TensorId output = graph.outputs[0];
  Feed feed{graph,
            [&](int64_t step) {
              std::vector<int64_t> rows;
              for (int64_t i = 0; i < batch; ++i) rows.push_back(std::min(step * batch + i, data.samples() - 1));
              return rows;
            },
            [&](const std::string& name) -> const Values& { return data.array(name); },
            [&](TensorId t, int64_t step, Values value) {
              if (t != output) return;
              int64_t classes = value.shape.back();
              for (int64_t i = 0; i < batch * each && step * batch * each + i < data.samples() * each; ++i) {
                auto row = value.real.begin() + i * classes;
                right += std::max_element(row, row + classes) - row == labels.integer[static_cast<size_t>(step * batch * each + i)];
              }
            },
            {}};
  Hooks hooks;
  hooks.kernels = &kernels;
  hooks.load = [&](TensorId t, int64_t step, const View& v) { feed.load(t, step, v); };
  hooks.take = [&](TensorId t, int64_t step, const View& v) { feed.take(t, step, v); };
  hooks.seed = seed;
  refuse_outside(graph, run_threads(physical, memory, hooks, {steps, false}));
  return static_cast<double>(right) / static_cast<double>(data.samples() * each);
}

}  // namespace

int64_t batch_of(const Graph& graph) {
  if (const auto batch = find_batch(graph)) return *batch;
  fail("model '{}' has no input with samples along axis 0", graph.name);
}

namespace {

// Bad input: a number of a place, of a class or a token, that the model does not have.
void check_numbers(const Graph& graph, TensorId input, const Values& values, const std::string& origin) {
  const std::optional<Interval> taken = index_range(graph, input);
  if (!taken) return;
  for (size_t i = 0; i < values.integer.size(); ++i)
    if (values.integer[i] < taken->lo || values.integer[i] >= taken->hi)
      fail("{}array '{}' has {} at [{}]; the model takes {} to {}", origin, graph.tensor(input).name, values.integer[i],
           fmt::join(position_of(static_cast<int64_t>(i), values.shape), ", "), taken->lo, taken->hi - 1);
}

}  // namespace

void Dataset::check(const Graph& graph, const std::string& origin) {
  samples_ = -1;
  for (TensorId id : graph.inputs) {
    const Tensor& tensor = graph.tensor(id);
    auto found = arrays_.find(tensor.name);
    if (found == arrays_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, values] : arrays_) names.push_back(name);
      fail("{}: no array '{}' for the model's input; it has: {}", origin, tensor.name, fmt::join(names, ", "));
    }
    Values& array = found->second;
    if (is_float(array.dtype) != is_float(tensor.dtype))
      fail("{}: array '{}' is {}, the model's input is {}", origin, tensor.name, name_of(array.dtype), name_of(tensor.dtype));
    if (!is_fed_by_rows(tensor)) {
      if (array.shape != tensor.shape)
        fail("{}: array '{}' has shape [{}], the model's input, which has no samples along axis 0, takes [{}]", origin,
             tensor.name, fmt::join(array.shape, ", "), fmt::join(tensor.shape, ", "));
      continue;
    }
    if (array.shape.empty() || Shape(array.shape.begin() + 1, array.shape.end()) != Shape(tensor.shape.begin() + 1, tensor.shape.end()))
      fail("{}: array '{}' has shape [{}], the model's input takes [samples, {}]", origin, tensor.name, fmt::join(array.shape, ", "),
           fmt::join(Shape(tensor.shape.begin() + 1, tensor.shape.end()), ", "));
    if (samples_ >= 0 && array.shape[0] != samples_) fail("{}: array '{}' has {} samples, others have {}", origin, tensor.name, array.shape[0], samples_);
    samples_ = array.shape[0];
  }
  if (samples_ < 1) fail("{}: there are no samples", origin);
}

Dataset Dataset::read(const std::string& path, const Graph& graph) {
  Dataset data;
  data.arrays_ = read_arrays(path);
  data.check(graph, path);
  for (TensorId id : graph.inputs) check_numbers(graph, id, data.array(graph.tensor(id).name), path + ": ");
  return data;
}

Dataset Dataset::synthetic(const Graph& graph, uint64_t seed) {
  Dataset data;
  Rng rng(seed ^ hash_name("synthetic data"));
  int64_t samples = 4 * batch_of(graph);
  for (TensorId id : graph.inputs) {
    const Tensor& tensor = graph.tensor(id);
    Values values{tensor.dtype, tensor.shape, {}, {}};
    if (is_fed_by_rows(tensor)) values.shape[0] = samples;
    const int64_t limit = index_range(graph, id).value_or(Interval{0, 2}).hi;
    for (int64_t i = 0; i < volume(values.shape); ++i) {
      if (is_float(tensor.dtype)) values.real.push_back(rng.normal());
      else values.integer.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(limit))));
    }
    data.arrays_[tensor.name] = std::move(values);
  }
  data.check(graph, "synthetic data");
  return data;
}

Batches::Batches(int64_t samples, int64_t batch, uint64_t seed, bool shuffle) : samples_(samples), batch_(batch), seed_(seed), shuffle_(shuffle) {
  if (samples < batch) fail("the data has {} samples, fewer than one batch of {}; use --batch", samples, batch);
}

const std::vector<int64_t>& Batches::order(int64_t epoch) {
  if (epoch == known_) return order_;
  order_.resize(static_cast<size_t>(samples_));
  for (int64_t i = 0; i < samples_; ++i) order_[static_cast<size_t>(i)] = i;
  if (shuffle_) {
    Rng rng(seed_ + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(epoch + 1));
    rng.shuffle(order_);
  }
  known_ = epoch;
  return order_;
}

std::vector<int64_t> Batches::at(int64_t step) {
  const std::vector<int64_t>& all = order(step / per_epoch());
  auto first = all.begin() + step % per_epoch() * batch_;
  return {first, first + batch_};
}

namespace {

Dataset training_data(const Graph& graph, const TrainOptions& options) {
  return options.data.empty() ? Dataset::synthetic(graph, options.seed) : Dataset::read(options.data, graph);
}

Arrays starting_weights(const Graph& graph, const WeightNames& names, const TrainOptions& options) {
  if (options.weights.empty()) return {};
  ModelWeights weights = load_weights(options.weights, graph, names);
  for (const std::string& note : weights.notes)
    if (options.note) options.note(note);
  return std::move(weights.values);
}

SerialRun serial_run(const Graph& graph, const Arrays& start, const TrainOptions& options, Kernels& kernels) {
  Cluster one = load_cluster("local:1");
  PhysicalGraph physical = lower(graph, single_plan(graph, one), one);
  Outcome serial = run_steps(graph, physical, training_data(graph, options), start, options, kernels, false);
  return {serial.losses, serial.weights};
}

}  // namespace

SerialRun train_serial(const Graph& graph, const TrainOptions& options, Kernels& kernels) {
  return serial_run(graph, starting_weights(graph, {}, options), options, kernels);
}

void compare_with(const SerialRun& serial, TrainReport& report) {
  report.max_error_vs_serial = largest_error(report.weights, serial.weights);
  double worst = 0;
  for (size_t i = 0; i < report.losses.size(); ++i) {
    double e = std::abs(report.losses[i] - serial.losses[i]) / std::max(std::abs(serial.losses[i]), kSmallWeight);
    if (e != e && !(report.losses[i] != report.losses[i] && serial.losses[i] != serial.losses[i])) e = INFINITY;
    if (e == e) worst = std::max(worst, e);
    if (i == 0) report.first_loss_error_vs_serial = e;
  }
  report.max_loss_error_vs_serial = worst;
}

TrainReport train(const Planned& planned, const TrainOptions& options, Kernels& kernels) {
  if (!planned.is_timed()) fail("plan for '{}' on '{}': {} devices make too many tasks to run", planned.training.name, planned.cluster.name, planned.cluster.compute_count);
  const Graph& graph = planned.training;
  Dataset data = training_data(graph, options);
  const Arrays start = starting_weights(graph, planned.weight_names, options);
  std::optional<Dataset> test;
  if (!options.test_data.empty()) test = Dataset::read(options.test_data, graph);

  Outcome out = run_steps(graph, planned.physical, data, start, options, kernels, true);
  TrainReport report;
  report.steps = static_cast<int64_t>(out.losses.size());
  report.losses = out.losses;
  report.interrupted = out.interrupted;
  report.samples_per_second = out.seconds > 0 ? static_cast<double>(report.steps * batch_of(graph)) / out.seconds : 0;
  report.peak_bytes.assign(out.peak_bytes.begin(), out.peak_bytes.begin() + planned.cluster.compute_count);
  report.trace = std::move(out.trace);
  report.weights = out.weights;
  if (!options.save.empty()) write_safetensors(options.save, as_in_files(out.weights, planned.weight_names));
  if (report.interrupted) return report;
  if (options.verify_serial) compare_with(serial_run(graph, start, options, kernels), report);
  if (test) report.test_accuracy = accuracy(planned, *test, out.weights, options.seed, kernels);
  return report;
}

Arrays run_forward(const Graph& graph, const Plan& plan, const Cluster& cluster, const Arrays& inputs, const Arrays& weights, uint64_t seed, Kernels& kernels) {
  for (TensorId id : graph.inputs)
    if (const auto found = inputs.find(graph.tensor(id).name); found != inputs.end()) check_numbers(graph, id, found->second, "");
  PhysicalGraph physical = lower(graph, plan, cluster);
  check_capacity(physical, cluster);
  Memory memory(physical);
  write_initial(memory, graph, seed, weights);
  Arrays outputs;
  std::mutex mutex;
  Hooks hooks;
  hooks.kernels = &kernels;
  hooks.seed = seed;
  hooks.load = [&](TensorId t, int64_t, const View& into) {
    const Tensor& tensor = graph.tensor(t);
    auto found = inputs.find(tensor.name);
    if (found == inputs.end()) fail("no array '{}' for the model's input", tensor.name);
    if (found->second.shape != tensor.shape)
      fail("array '{}' has shape [{}], the model's input has [{}]; bind its extents or use --batch", tensor.name, fmt::join(found->second.shape, ", "), fmt::join(tensor.shape, ", "));
    if (is_float(found->second.dtype) != is_float(tensor.dtype))
      fail("array '{}' is {}, the model's input is {}", tensor.name, name_of(found->second.dtype), name_of(tensor.dtype));
    Values values = found->second;
    values.dtype = tensor.dtype;
    std::vector<std::byte> bytes;
    copy_box(view_of(values, into.axes, bytes), into);
  };
  hooks.take = [&](TensorId t, int64_t, const View& v) {
    std::lock_guard<std::mutex> lock(mutex);
    outputs[graph.tensor(t).name] = values_of(v, graph.tensor(t).shape);
  };
  refuse_outside(graph, run_threads(physical, memory, hooks, {1, false}));
  return outputs;
}

}  // namespace partita
