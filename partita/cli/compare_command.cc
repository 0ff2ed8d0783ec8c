// compare: prints a row a search, or a plan, and with --measure the plan's time on this machine.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "partita/base/cpu_use.h"
#include "partita/base/error.h"
#include "partita/base/interrupt.h"
#include "partita/base/output_file.h"
#include "partita/base/tell.h"
#include "partita/cli/commands.h"
#include "partita/cli/validation_figures.h"
#include "partita/measure/measure.h"
#include "partita/pipeline/idle_devices.h"
#include "partita/profile/profile.h"
#include "partita/train/engine.h"
#include "partita/train/measured_step.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

template <typename T>
std::string or_dash(fmt::format_string<const T&> format, const std::optional<T>& value) {
  return value ? fmt::format(format, *value) : "-";
}

// A plan's step on this machine, and how many times as long its kernels take now as when they were profiled.
struct Measurement {
  MeasuredStep step;
  double drift = 1;
};

// For a plan with a bound for placements of whole operations.
std::string gap_text(const Planned& p) {
  const auto gap = gap_of_placement(p);
  return gap ? fmt::format("{:.1f}%", 100 * *gap) : "-";
}

bool has_drift(const Arguments& a) { return a.measure && !a.request.profile_file.empty(); }

// The error of the prediction, times the drift.
double error_of(double predicted_ns, const Measurement& measured, double drift) {
  return predicted_ns * drift / 1e3 / measured.step.us - 1;
}

const std::vector<std::string>& names_of_rows(const Arguments& a) { return a.is_plan ? a.targets : a.searches; }

// Rows as they come, on standard output or for the JSON object. The table's header comes with the first: an error that
// ends the command has none above it.
class Rows {
 public:
  explicit Rows(const Arguments& a) : a_(a) {
    for (const std::string& name : names_of_rows(a)) width_ = std::max(width_, name.size());
    for (const std::string& search : a.searches)
      bounds_ = bounds_ || parse_search(search).entry->only_device_placement();
  }

  void without_plan(const std::string& name, const Error& error) {
    if (a_.json) rows_.push_back({{a_.is_plan ? "plan" : "search", name}, {"reason", error.what()}});
    else begin(), fmt::print("{:<{}} no plan: {}\n", name, width_, error.what());
  }

  void add(const std::string& name, const Planned& p, const std::optional<Measurement>& measured) {
    const auto predicted_ns = static_cast<double>(p.step_time_ns());
    if (a_.json) {
      Json row = plan_json(p, a_.is_plan ? name : "");
      if (measured)
        row.update({{"measured_step_time_us", measured->step.us},
                    {"measured_spread_us", measured->step.spread_us},
                    {"measured_steps", measured->step.steps},
                    {"others_cores", measured->step.others},
                    {"error", error_of(predicted_ns, *measured, 1)}});
      if (measured && has_drift(a_))
        row.update(
            {{"drift", measured->drift}, {"corrected_error", error_of(predicted_ns, *measured, measured->drift)}});
      rows_.push_back(row);
      return;
    }
    if (const std::string groups = batch_norm_groups_text(p); !groups.empty()) tell("{}: {}", name, groups);
    if (const std::string idle = idle_text(p); !idle.empty()) tell("{}: {}", name, idle);
    begin();
    fmt::print("{:<{}} {:>7} {:>13} {:>14} {:>10} ", name, width_, or_dash("{}", p.batch()), p.plan.model.micro_batches,
               megabytes(static_cast<double>(p.report.comm_bytes)), time_text(predicted_ns));
    if (measured)
      fmt::print("{:>10} {:>5.0f}% {:>+6.1f}% ", time_text(measured->step.us * 1e3),
                 100 * measured->step.spread_us / measured->step.us, 100 * error_of(predicted_ns, *measured, 1));
    if (measured && has_drift(a_))
      fmt::print("{:>6.2f} {:>+8.1f}% ", measured->drift, 100 * error_of(predicted_ns, *measured, measured->drift));
    if (bounds_) fmt::print("{:>6} ", gap_text(p));
    const auto used = p.utilization();
    fmt::print("{:>10} {:>10} {:>6} {:>14} {:>10}\n", or_dash("{:.2f}", p.samples_per_second()),
               or_dash("{:.0f}", tokens_per_second(p)), used ? fmt::format("{:.1f}%", 100 * used->part) : "-",
               megabytes(static_cast<double>(p.peak_memory_bytes())),
               a_.is_plan ? "-" : fmt::format("{:.3f}", p.search_seconds));
    std::fflush(stdout);
    if (!p.search.estimate) memory_.push_back(fmt::format("{:<{}} {}", name, width_, memory_text(p)));
  }

  void end() const {
    if (a_.json) return print_json({{"rows", rows_}});
    if (!memory_.empty()) fmt::print("\nmemory of the device that needs most\n{}\n", fmt::join(memory_, "\n"));
  }

 private:
  void begin() {
    if (std::exchange(begun_, true)) return;
    fmt::print("{:<{}} {:>7} {:>13} {:>14} {:>10} ", a_.is_plan ? "plan" : "search", width_, "batch", "micro-batches",
               "communication", "step time");
    if (a_.measure) fmt::print("{:>10} {:>6} {:>7} ", "measured", "spread", "error");
    if (has_drift(a_)) fmt::print("{:>6} {:>9} ", "drift", "corrected");
    if (bounds_) fmt::print("{:>6} ", "gap");
    fmt::print("{:>10} {:>10} {:>6} {:>14} {:>10}\n", "samples/s", "tokens/s", "MFU", "peak memory", "seconds");
  }

  const Arguments& a_;
  size_t width_ = 24;
  bool begun_ = false;
  std::vector<std::string> memory_;  // a line a plan
  bool bounds_ = false;              // some searches place operations whole: a column has the distance from their bound
  Json rows_ = Json::array();
};

Request request_for(const Arguments& a, const std::string& search) {
  Request request = a.request;
  request.search = search;
  return request;
}

// The plan of a search, or of a file. `for_all`: whether every row needs what is being read: model, cluster, pins.
Planned plan_of(const Arguments& a, const std::string& name, Runner& runner, bool& for_all) {
  if (interrupted)
    throw Error(ExitCode::kInterrupted, fmt::format("interrupted before this {} began", a.is_plan ? "plan" : "search"));
  if (a.is_plan) {
    for_all = false;
    return open_plan(name, runner, Follow::kAll, hardware_of(a));
  }
  const std::string& search = name;
  Request request = request_for(a, search);
  request.reads_for_all = [&](bool now) { for_all = now; };
  request.budget.deadline.reset();  // each has its own time
  if (!request.from_file.empty() && !parse_search(search).entry->warm) {
    tell("{} cannot begin with a plan: it makes its own without {}", search, request.from_file);
    request.from_file.clear();
  }
  Planned p = plan_watched(request, runner, false);
  if (interrupted) tell("{}: interrupted: this is the best plan so far", search);
  return p;
}

void validate_local_cluster(const std::string& cluster) {
  if (!cluster.starts_with("local:"))
    throw Error(ExitCode::kUsage, fmt::format("compare --measure runs the plans on this machine, whose devices are "
                                              "those of local:N, not of '{}'",
                                              cluster));
}

void validate_measurable(const Arguments& a) {
  if (!a.measure) {
    if (!a.trace.empty()) throw Error(ExitCode::kUsage, "compare --trace is of what --measure runs; give both");
    return;
  }
  if (!a.is_plan) validate_local_cluster(a.request.cluster);
  for (const std::string& search : a.searches)
    if (parse_search(search).entry->estimates)
      throw Error(ExitCode::kUsage,
                  fmt::format("compare --measure: search '{}' has no plan that could be run", search));
  if (a.request.profile_file.empty())
    tell("without --profile predicted times are nominal, not of this machine; `partita profile` measures it");
}

// Measures a plan on this machine; adds its traces on request.
Measurement measured(const Arguments& a, const std::string& search, Planned& p, Runner& runner,
                     std::vector<NamedTrace>& traces) {
  constexpr double kSecondsOfStep = 2;
  validate_local_cluster(p.cluster.name);
  p = runnable(std::move(p), runner);
  Measurement m;
  m.step = measure_step(p, a.measure_seconds.value_or(kSecondsOfStep), !a.trace.empty(), load_kernels(), &interrupted);
  if (m.step.others > kManyOfOthers)
    tell("{}: other programs used {:.1f} cores meanwhile; alone it would be faster", search, m.step.others);
  if (has_drift(a)) m.drift = drift_of(p.physical, *p.cluster.profile, load_kernels());
  if (a.trace.empty()) return m;
  traces.push_back({search + " predicted", p.predicted, p.physical});
  traces.push_back({search + " measured", m.step.trace, p.physical});
  return m;
}

bool is_wrong(const Error& e) { return e.code() == ExitCode::kUsage || e.code() == ExitCode::kBadInput; }

}  // namespace

int compare_command(const Arguments& a) {
  validate_measurable(a);
  validate_writable(a.trace);
  for (const std::string& search : a.searches) with_search_options(request_for(a, search));
  std::optional<CatchInterrupt> caught;  // once there are rows to keep
  Rows rows(a);
  bool any = false, first = true;
  std::optional<Error> without;
  std::vector<NamedTrace> traces;
  Cluster cluster;
  for (const std::string& name : names_of_rows(a)) {
    if (std::ferror(stdout)) break;  // nobody would see further rows
    Runner runner;
    bool for_all = true;
    try {
      Planned p = plan_of(a, name, runner, for_all);
      if (!caught) caught.emplace();
      if (!any) warn_of_profile(p.cluster);
      if (!any && !a.json) {
        for (const Validation& known : validations(p.cluster)) tell("{}", validation_text(known));
        for (const std::string& unlike : beyond_validation(p)) tell("{}", unlike);
      }
      std::optional<Measurement> step;
      if (a.measure) step = measured(a, name, p, runner, traces);
      rows.add(name, p, step);
      cluster = p.cluster;
      any = true;
    } catch (const Error& e) {
      // A row without a plan says so; the others still count. A fault of the model, the cluster or the pins is one of
      // all rows.
      if (e.code() == ExitCode::kBug || (is_wrong(e) && for_all && first)) throw;
      if (!without || !is_wrong(*without)) without = e;
      rows.without_plan(name, e);
    }
    first = false;
  }
  caught.reset();
  if (!a.trace.empty()) write_file(a.trace, chrome_trace(traces, cluster));
  rows.end();
  if (!without || (any && !interrupted && !is_wrong(*without))) return 0;
  return static_cast<int>(without->code());
}

}  // namespace partita
