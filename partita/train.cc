#include "partita/train.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "partita/base/error.h"
#include "partita/graph/batch.h"
#include "partita/physical/shortage.h"
#include "partita/plan/rules.h"
#include "partita/rounding.h"
#include "partita/runtime/safetensors.h"
#include "partita/runtime/weights.h"
#include "partita/weights_of_model.h"

namespace partita {

namespace {

// Steps run without a look at the stop flag, and overlap: one at first, then what about a second holds. A trace is of
// the first ten.
constexpr int64_t kStepsAtOnce = 10;
constexpr double kSecondsAtOnce = 1;
constexpr double kSmallWeight = 0.01;  // docs/cli.md: errors are relative to max(max|serial|, 0.01)
// Rounding of a parallel run is of the size that three drawn ones show, but for luck: of the largest of three, 30 times
// are exceeded by none. A loss is one number, where tensors are many: 10 times.
constexpr int kRoundedRuns = 3;
constexpr double kRoundingFactor = 30, kLossRoundingFactor = 10;

// Bad input: an op met a number of a place that its tensor does not have.
void refuse_outside(const Graph& graph, const RunReport& report) {
  if (!report.outside) return;
  const Outside& o = *report.outside;
  const Op& op = graph.op(o.op);
  const Tensor& tensor = graph.tensor(op.operands[static_cast<size_t>(o.operand)]);
  fail("op '{}': '{}' has {} at [{}]; it takes {} to {}", op.name, tensor.name, o.value,
       fmt::join(position_of(o.element, tensor.shape), ", "), o.taken.lo, o.taken.hi - 1);
}

// Feeds graph inputs, and keeps what comes out.
struct Feed {
  const Graph& graph;
  const Dataset& data;
  std::function<std::vector<int64_t>(int64_t step)> items;
  std::function<void(TensorId output, int64_t step, Values value)> keep;
  std::mutex mutex;

  void load(TensorId input, int64_t step, const View& into) {
    const Tensor& tensor = graph.tensor(input);
    const Values batch = data.take(tensor, items(step));
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

Outcome run_steps(const Graph& graph, const PhysicalGraph& physical, const Dataset& data,
                  const std::map<std::string, Values>& start, const TrainOptions& options, Kernels& kernels,
                  bool visible) {
  Memory memory(physical);
  write_initial(memory, graph, options.seed, start);
  Outcome out;
  std::mutex batches_mutex;
  Batches batches(data.items(), data.items_a_step(), options.seed, options.shuffle);
  const int64_t steps =
      options.steps > 0
          ? options.steps
          : static_cast<int64_t>(std::clamp(options.epochs * static_cast<double>(batches.per_epoch()), 1.0, 1e15));
  out.losses.assign(static_cast<size_t>(steps), NAN);
  // The second output, where there is one, is finite where all gradients are (Loss::scale).
  int64_t overflowed = INT64_MAX;
  const TensorId gradients = graph.outputs.size() > 1 ? graph.outputs[1] : TensorId();
  Feed feed{graph,
            data,
            [&](int64_t step) {
              std::lock_guard<std::mutex> lock(batches_mutex);
              return batches.at(step);
            },
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
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  int64_t done = 0, at_once = options.trace ? kStepsAtOnce : 1;
  while (done < steps && !out.interrupted) {
    const int64_t now = std::min(at_once, steps - done);
    hooks.first_step = done;
    RunReport report = run_threads(physical, memory, hooks, {now, visible && options.trace && done == 0});
    refuse_outside(graph, report);
    if (done == 0) out.trace = report.trace;
    out.peak_bytes.resize(report.peak_bytes.size());
    for (size_t d = 0; d < report.peak_bytes.size(); ++d)
      out.peak_bytes[d] = std::max(out.peak_bytes[d], report.peak_bytes[d]);
    for (int64_t s = done; s < std::min(done + now, overflowed); ++s)
      if (visible && options.progress) options.progress(s, steps, out.losses[static_cast<size_t>(s)]);
    if (overflowed < INT64_MAX)
      fail(
          "model '{}': the gradients of step {} are not finite, so the weights are lost; use a smaller --loss-scale or "
          "learning rate, or bfloat16 in "
          "place of float16, whose largest number is 65504",
          graph.name, overflowed + 1);
    done += now;
    const double steps_a_second = static_cast<double>(done) / std::max(seconds(), 1e-9);
    at_once = static_cast<int64_t>(std::clamp(kSecondsAtOnce * steps_a_second, 1.0, static_cast<double>(kStepsAtOnce)));
    out.interrupted = visible && options.stop && options.stop->load() && done < steps;
  }
  out.losses.resize(static_cast<size_t>(done));
  out.seconds = seconds();
  out.weights = read_weights(memory, graph);
  return out;
}

// Of two numbers; none where both are infinite alike or NaN, infinite where one alone is.
double difference_of(double a, double b) {
  if (a == b || (a != a && b != b)) return 0;
  const double d = std::abs(a - b);
  return d == d ? d : INFINITY;
}

// max|parallel - serial| / max(max|serial|, kSmallWeight) of one tensor; serial numbers that are not finite count
// nothing in the divisor.
double error_of(const Values& parallel, const Values& serial) {
  double scale = kSmallWeight, difference = 0;
  for (size_t i = 0; i < serial.real.size(); ++i) {
    if (std::isfinite(serial.real[i])) scale = std::max(scale, std::abs(serial.real[i]));
    difference = std::max(difference, difference_of(parallel.real[i], serial.real[i]));
  }
  return difference / scale;
}

double largest_error(const std::map<std::string, Values>& parallel, const std::map<std::string, Values>& serial) {
  double worst = 0;
  for (const auto& [name, values] : serial) worst = std::max(worst, error_of(parallel.at(name), values));
  return worst;
}

// The output of the evaluation graph that the loss compares with the labels.
TensorId judged_output(const Planned& planned, const Graph& evaluation) {
  const Graph& training = planned.training;
  const TensorId labels = training.find_tensor("labels");
  TensorId judged = labels.valid() ? judged_by(training, labels) : TensorId();
  while (judged.valid() &&
         !planned.forward.find_tensor(training.tensor(judged).name).valid()) {  // a cast to the loss's dtype
    const OpId producer = training.tensor(judged).producer;
    ensure(producer.valid() && !training.op(producer).operands.empty(), "'{}' is made of no output",
           training.tensor(judged).name);
    judged = training.op(producer).operands[0];
  }
  for (size_t i = 0; judged.valid() && i < planned.forward.outputs.size(); ++i)
    if (planned.forward.tensor(planned.forward.outputs[i]).name == training.tensor(judged).name)
      return evaluation.outputs[i];
  return {};
}

// The share of labels that belong to the largest output. The last batch is filled up with samples that don't count.
double accuracy(const Planned& planned, const Dataset& data, const std::map<std::string, Values>& weights,
                uint64_t seed, Kernels& kernels) {
  Graph graph = evaluation_of(planned);
  Plan plan = evaluation_plan(graph, planned);
  check(graph, plan, planned.cluster);
  PhysicalGraph physical = lower(graph, plan, planned.cluster);
  check_capacity(graph, physical, planned.cluster);
  Memory memory(physical);
  write_initial(memory, graph, seed, weights);
  const int64_t each = data.items_a_step(), steps = (data.items() + each - 1) / each;
  const std::vector<int64_t>& labels = data.array("labels").integer;
  const TensorId output = judged_output(planned, graph);
  ensure(output.valid(), "no output is compared with the labels");
  int64_t right = 0;
  Feed feed{graph,
            data,
            [&](int64_t step) {
              std::vector<int64_t> items;
              for (int64_t i = 0; i < each; ++i) items.push_back(std::min(step * each + i, data.items() - 1));
              return items;
            },
            [&](TensorId t, int64_t step, Values value) {
              if (t != output) return;
              const int64_t classes = value.shape.back(), rows = static_cast<int64_t>(value.real.size()) / classes;
              for (int64_t i = 0; i < rows && step * rows + i < static_cast<int64_t>(labels.size()); ++i) {
                auto row = value.real.begin() + i * classes;
                right += std::max_element(row, row + classes) - row == labels[static_cast<size_t>(step * rows + i)];
              }
            },
            {}};
  Hooks hooks;
  hooks.kernels = &kernels;
  hooks.load = [&](TensorId t, int64_t step, const View& v) { feed.load(t, step, v); };
  hooks.take = [&](TensorId t, int64_t step, const View& v) { feed.take(t, step, v); };
  hooks.seed = seed;
  refuse_outside(graph, run_threads(physical, memory, hooks, {steps, false}));
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

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

double loss_error(double loss, double serial) {
  return difference_of(loss, serial) / std::max(std::isfinite(serial) ? std::abs(serial) : 0, kSmallWeight);
}

}  // namespace

SerialRun train_serial(const Graph& graph, const TrainOptions& options, Kernels& kernels) {
  return serial_run(graph, starting_weights(graph, {}, options), options, kernels);
}

void compare_with(const SerialRun& serial, TrainReport& report) {
  report.max_error_vs_serial = largest_error(report.weights, serial.weights);
  double worst = 0;
  for (size_t i = 0; i < report.losses.size(); ++i) {
    const double e = loss_error(report.losses[i], serial.losses[i]);
    worst = std::max(worst, e);
    if (i == 0) report.first_loss_error_vs_serial = e;
  }
  report.max_loss_error_vs_serial = worst;
}

namespace {

// Of a float64 run whose errors are above kFloat64Tolerance: the serial run is made again kRoundedRuns times with other
// roundings, and each tensor may differ by kRoundingFactor times what it then differed by, at most.
void measure_rounding(const Arrays& start, const Graph& graph, const SerialRun& serial, const TrainOptions& options,
                      Kernels& kernels, TrainReport& report) {
  std::map<std::string, double> rounding;
  for (int run = 0; run < kRoundedRuns; ++run) {
    RoundingKernels rounded(kernels, Phase::kBackward, options.seed + static_cast<uint64_t>(run));
    const SerialRun other = serial_run(graph, start, options, rounded);
    for (const auto& [name, values] : serial.weights)
      rounding[name] = std::max(rounding[name], error_of(other.weights.at(name), values));
  }
  report.rounding_error = 0;
  double worst = 1;
  for (const auto& [name, values] : serial.weights) {
    report.rounding_error = std::max(*report.rounding_error, rounding[name]);
    const double error = error_of(report.weights.at(name), values),
                 allowed = std::max(kFloat64Tolerance, kRoundingFactor * rounding[name]);
    if (error / allowed <= worst) continue;
    worst = error / allowed;
    report.beyond_rounding = Differing{name, error, allowed};
  }
}

// Of a run in a shorter type whose first loss differs by more than is allowed: the serial run's first step is made
// again with other roundings of its forward pass.
double loss_rounding(const Arrays& start, const Graph& graph, const SerialRun& serial, TrainOptions options,
                     Kernels& kernels) {
  options.steps = 1;
  double rounding = 0;
  for (int run = 0; run < kRoundedRuns; ++run) {
    RoundingKernels rounded(kernels, Phase::kForward, options.seed + static_cast<uint64_t>(run));
    rounding = std::max(rounding, loss_error(serial_run(graph, start, options, rounded).losses[0], serial.losses[0]));
  }
  return rounding;
}

double loss_tolerance(DType dtype) { return is_low(dtype) ? kLowUnits * epsilon_of(dtype) : kFirstLossTolerance; }

}  // namespace

double allowed_first_loss(const TrainReport& report, DType dtype) {
  return std::max(loss_tolerance(dtype), kLossRoundingFactor * report.loss_rounding_error.value_or(0));
}

void expect_as_serial(const TrainReport& report, DType dtype) {
  if (dtype == DType::kFloat64) {
    if (*report.max_error_vs_serial <= kFloat64Tolerance || (report.rounding_error && !report.beyond_rounding)) return;
    const Differing differing =
        report.beyond_rounding.value_or(Differing{"weights", *report.max_error_vs_serial, kFloat64Tolerance});
    fail("parallel differs from serial: '{}' by {:.3g}, allowed {:.3g} in float64", differing.name, differing.error,
         differing.allowed);
  }
  const double allowed = allowed_first_loss(report, dtype);
  if (!(*report.first_loss_error_vs_serial <= allowed))
    fail("parallel differs from serial: the first step's loss by {:.3g}, allowed {:.1e} in {}",
         *report.first_loss_error_vs_serial, allowed, name_of(dtype));
}

TrainReport train(const Planned& planned, const TrainOptions& options, Kernels& kernels) {
  if (!planned.is_timed())
    fail("plan for '{}' on '{}': {} devices make too many tasks to run", planned.training.name, planned.cluster.name,
         planned.cluster.compute_count);
  const Graph& graph = planned.training;
  Dataset data = training_data(graph, options);
  const Arrays start = starting_weights(graph, planned.weight_names, options);
  std::optional<Dataset> test;
  if (!options.test_data.empty()) {
    if (planned.plan.model.loss != "cross_entropy")
      fail(
          "{}: the share of right classes is counted where the loss is cross_entropy; this model's is {}: train "
          "without --test-data",
          options.test_data, planned.plan.model.loss);
    test = Dataset::read(options.test_data, graph);
  }

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
  if (options.verify_serial) {
    const SerialRun serial = serial_run(graph, start, options, kernels);
    compare_with(serial, report);
    const DType dtype = planned.plan.model.dtype;
    if (dtype == DType::kFloat64 && !(*report.max_error_vs_serial <= kFloat64Tolerance))
      measure_rounding(start, graph, serial, options, kernels, report);
    if (dtype != DType::kFloat64 && !(*report.first_loss_error_vs_serial <= loss_tolerance(dtype)))
      report.loss_rounding_error = loss_rounding(start, graph, serial, options, kernels);
  }
  if (test) report.test_accuracy = accuracy(planned, *test, out.weights, options.seed, kernels);
  return report;
}

Arrays run_forward(const Graph& graph, const Plan& plan, const Cluster& cluster, const Arrays& inputs,
                   const Arrays& weights, uint64_t seed, Kernels& kernels) {
  for (TensorId id : graph.inputs)
    if (const auto found = inputs.find(graph.tensor(id).name); found != inputs.end())
      check_numbers(graph, id, found->second, "");
  PhysicalGraph physical = lower(graph, plan, cluster);
  check_capacity(graph, physical, cluster);
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
      fail("array '{}' has shape [{}], the model's input has [{}]{}; bind its extents or use --batch", tensor.name,
           fmt::join(found->second.shape, ", "), fmt::join(tensor.shape, ", "),
           tensor.sample_axis > 0
               ? fmt::format(" with the samples on axis {}, since only there each goes its own way", tensor.sample_axis)
               : "");
    if (is_float(found->second.dtype) != is_float(tensor.dtype))
      fail("array '{}' is {}, the model's input is {}", tensor.name, name_of(found->second.dtype),
           name_of(tensor.dtype));
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
