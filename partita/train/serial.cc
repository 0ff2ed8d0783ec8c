// Compares a parallel run with the same training on one device, and measures how much of the difference is rounding.
#include "partita/train/serial.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/cluster/cluster.h"
#include "partita/plan/rules.h"
#include "partita/schedule/lower.h"
#include "partita/train/inputs.h"
#include "partita/train/rounding.h"
#include "partita/train/steps.h"

namespace partita {

namespace {

constexpr double kSmallWeight = 0.01;  // docs/reference/cli.md: errors are relative to max(max|serial|, 0.01)
// The rounding of a parallel run is of the size that three drawn runs show, but for luck: none exceeds 30 times the
// largest of three. A loss is one number, tensors are many: 10 times.
constexpr int kRoundedRuns = 3;
constexpr double kRoundingFactor = 30, kLossRoundingFactor = 10;

// |a - b|; 0 if both are NaN or the same infinity, infinite if only one is not finite.
double difference_of(double a, double b) {
  if (a == b || (a != a && b != b)) return 0;
  const double d = std::abs(a - b);
  return d == d ? d : INFINITY;
}

// max|parallel - serial| / max(max|serial|, kSmallWeight) of one tensor. Serial numbers that are not finite do not
// count in the divisor.
double error_of(const Values& parallel, const Values& serial) {
  double scale = kSmallWeight, difference = 0;
  for (size_t i = 0; i < serial.real.size(); ++i) {
    if (std::isfinite(serial.real[i])) scale = std::max(scale, std::abs(serial.real[i]));
    difference = std::max(difference, difference_of(parallel.real[i], serial.real[i]));
  }
  return difference / scale;
}

double loss_error(double loss, double serial) {
  return difference_of(loss, serial) / std::max(std::isfinite(serial) ? std::abs(serial) : 0, kSmallWeight);
}

SerialRun serial_run(const Graph& graph, const Dataset& data, const Arrays& start, const TrainOptions& options,
                     Kernels& kernels) {
  const Cluster one = load_cluster("local:1");
  const PhysicalGraph physical = lower(graph, single_plan(graph, one), one);
  StepsReport run = run_steps(graph, physical, data, start, options, kernels, false);
  return {std::move(run.losses), std::move(run.weights)};
}

// The serial run again, kRoundedRuns times, with other roundings of one phase's results.
template <typename Visit>
void for_rounded_runs(const Graph& graph, const Dataset& data, const Arrays& start, const TrainOptions& options,
                      Kernels& kernels, Phase phase, Visit visit) {
  for (int run = 0; run < kRoundedRuns; ++run) {
    RoundingKernels rounded(kernels, phase, options.seed + static_cast<uint64_t>(run));
    visit(serial_run(graph, data, start, options, rounded));
  }
}

// For a float64 run whose errors are above kFloat64Tolerance. Each tensor may differ by kRoundingFactor times its
// difference under other roundings of the backward pass.
void measure_rounding(const Graph& graph, const Dataset& data, const Arrays& start, const SerialRun& serial,
                      const TrainOptions& options, Kernels& kernels, TrainReport& report) {
  std::map<std::string, double> rounding;
  for_rounded_runs(graph, data, start, options, kernels, Phase::kBackward, [&](const SerialRun& other) {
    for (const auto& [name, values] : serial.weights)
      rounding[name] = std::max(rounding[name], error_of(other.weights.at(name), values));
  });
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

// For a run in a shorter type whose first loss differs by more than is allowed: its difference under other roundings of
// the first step's forward pass.
double loss_rounding(const Graph& graph, const Dataset& data, const Arrays& start, const SerialRun& serial,
                     TrainOptions options, Kernels& kernels) {
  options.steps = 1;
  double rounding = 0;
  for_rounded_runs(graph, data, start, options, kernels, Phase::kForward, [&](const SerialRun& other) {
    rounding = std::max(rounding, loss_error(other.losses[0], serial.losses[0]));
  });
  return rounding;
}

double loss_tolerance(DType dtype) { return is_low(dtype) ? kLowUnits * epsilon_of(dtype) : kFirstLossTolerance; }

}  // namespace

SerialRun train_serial(const Graph& graph, const TrainOptions& options, Kernels& kernels) {
  return serial_run(graph, training_data(graph, options), starting_weights(graph, {}, options), options, kernels);
}

void compare_with(const SerialRun& serial, TrainReport& report) {
  double worst = 0, worst_loss = 0;
  for (const auto& [name, values] : serial.weights) worst = std::max(worst, error_of(report.weights.at(name), values));
  for (size_t i = 0; i < report.losses.size(); ++i) {
    const double e = loss_error(report.losses[i], serial.losses[i]);
    worst_loss = std::max(worst_loss, e);
    if (i == 0) report.first_loss_error_vs_serial = e;
  }
  report.max_error_vs_serial = worst;
  report.max_loss_error_vs_serial = worst_loss;
}

void verify_serial(const Graph& graph, const Dataset& data, const Arrays& start, DType dtype,
                   const TrainOptions& options, Kernels& kernels, TrainReport& report) {
  const SerialRun serial = serial_run(graph, data, start, options, kernels);
  compare_with(serial, report);
  if (dtype == DType::kFloat64 && !(*report.max_error_vs_serial <= kFloat64Tolerance))
    measure_rounding(graph, data, start, serial, options, kernels, report);
  if (dtype != DType::kFloat64 && !(*report.first_loss_error_vs_serial <= loss_tolerance(dtype)))
    report.loss_rounding_error = loss_rounding(graph, data, start, serial, options, kernels);
}

double allowed_first_loss(const TrainReport& report, DType dtype) {
  return std::max(loss_tolerance(dtype), kLossRoundingFactor * report.loss_rounding_error.value_or(0));
}

void check_matches_serial(const TrainReport& report, DType dtype) {
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

}  // namespace partita
