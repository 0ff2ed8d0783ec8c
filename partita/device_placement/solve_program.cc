// Solves the integer program: finds a start, runs the solver, and keeps the better of the two.
#include "partita/device_placement/solve_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "partita/base/error.h"
#include "partita/device_placement/baechi.h"
#include "partita/device_placement/cbc.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/program.h"
#include "partita/device_placement/units.h"

namespace partita {

namespace {

// The solver rarely improves a start of some hundred operations: it comes through few nodes. So it first gets windows
// of these sizes, each with a part of the time, and all with a part.
constexpr size_t kWindows[] = {8, 16, 32};
constexpr double kWindowsPart = 0.6, kWindowPart = 1. / 30;

// Puts units on `device` if it can run them and has memory, otherwise on the first device that does.
std::vector<int> all_on(const PlacementProblem& p, const std::vector<PlacementUnit>& units, int device) {
  std::vector<int> placement(p.ops.size(), -1);
  std::vector<int64_t> left;
  for (const PlacedDevice& d : p.devices) left.push_back(d.memory_bytes);
  for (const PlacementUnit& unit : units) {
    int at = -1;
    for (int d : unit.devices)
      if (unit.bytes <= left[static_cast<size_t>(d)] && (at < 0 || d == device)) at = d;
    if (at < 0) return {};
    left[static_cast<size_t>(at)] -= unit.bytes;
    for (int o : unit.ops) placement[static_cast<size_t>(o)] = at;
  }
  return placement;
}

// Tells whether all values that cross have a route.
bool has_ways(const PlacementProblem& p, const std::vector<int>& device) {
  return std::all_of(p.values.begin(), p.values.end(), [&](const PlacedValue& v) {
    const auto from = static_cast<size_t>(device[static_cast<size_t>(v.producer)]);
    return !v.moves() || std::all_of(v.readers.begin(), v.readers.end(), [&](int r) {
      const auto to = static_cast<size_t>(device[static_cast<size_t>(r)]);
      return from == to || p.routes[from][to].queue >= 0;
    });
  });
}

}  // namespace

std::optional<PlacedSchedule> best_list_schedule(const PlacementProblem& p,
                                                 const std::vector<std::vector<int>>& placements, std::string& why,
                                                 bool congestion) {
  std::optional<PlacedSchedule> best;
  int64_t best_ns = 0;
  const auto offer = [&](PlacedSchedule s) {
    s = pushed_left(p, s);
    const int64_t ns = congestion ? s.end : earliest_schedule(p, s, false).end;
    if ((best && ns >= best_ns) || !schedule_error(p, s).empty()) return;
    best = std::move(s);
    best_ns = ns;
  };
  std::vector<int> plain(p.ops.size());
  std::iota(plain.begin(), plain.end(), 0);
  const auto place = [&](const std::vector<int>& device) {
    if (device.size() != p.ops.size() || !has_ways(p, device)) return;
    for (size_t o = 0; o < device.size(); ++o)
      if (p.ops[o].ns[static_cast<size_t>(device[o])] < 1) return;
    const std::vector<int> rank = critical_ranks(p, device), order = by_rank(rank);
    offer(first_come(p, device, plain));
    offer(first_come(p, device, rank));
    offer(list_schedule(p, device, plain, true));
    offer(list_schedule(p, device, order, false));
    offer(list_schedule(p, device, order, true));
  };
  const std::vector<PlacementUnit> units = placement_units(p);
  for (size_t d = 0; d < p.devices.size(); ++d) place(all_on(p, units, static_cast<int>(d)));
  for (const std::vector<int>& device : placements) place(device);
  if (const auto device = topological_placement(p, why)) place(*device);
  if (const auto s = earliest_task_first(p, why, congestion); s && has_ways(p, s->device)) offer(*s), place(s->device);
  return best;
}

namespace {

// Operations by their place in the order of starts.
struct Window {
  size_t begin = 0, end = 0;
};

// Fixes all outside the window. Only two of its operations, or transfers of their values, may change their order.
void keep_outside(const PlacementProblem& p, PlacementProgram& program, const std::vector<double>& values,
                  const PlacedSchedule& s, const Window& window) {
  std::vector<size_t> order(p.ops.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return s.start[a] < s.start[b]; });
  std::vector<char> is_free(p.ops.size(), false), moves(program.units.size(), true);
  for (size_t i = window.begin; i < window.end; ++i) is_free[order[i]] = true;
  for (size_t o = 0; o < p.ops.size(); ++o)
    if (!is_free[o]) moves[static_cast<size_t>(program.unit_of_op[o])] = false;
  const auto keep = [&](int column) {
    ProgramColumn& c = program.columns[static_cast<size_t>(column)];
    c.lower = c.upper = values[static_cast<size_t>(column)];
  };
  for (size_t u = 0; u < moves.size(); ++u)
    if (!moves[u])
      for (int bit : program.units[u].bits) keep(bit);
  const auto may_change = [&](int item) {
    const auto i = static_cast<size_t>(item);
    if (i < p.ops.size()) return is_free[i] != 0;
    const PlacedValue& value = p.values[static_cast<size_t>(program.transfers[i - p.ops.size()].value)];
    return is_free[static_cast<size_t>(value.producer)] != 0 ||
           std::any_of(value.readers.begin(), value.readers.end(),
                       [&](int r) { return is_free[static_cast<size_t>(r)]; });
  };
  for (const ProgramOrder& o : program.orders)
    if (!may_change(o.first) || !may_change(o.second)) keep(o.column);
}

size_t free_bits(const PlacementProgram& program) {
  return static_cast<size_t>(std::count_if(program.columns.begin(), program.columns.end(),
                                           [](const ProgramColumn& c) { return c.whole && c.lower < c.upper; }));
}

// Makes the program of the best schedule so far and solves it, from there and by windows.
class ProgramSolver {
 public:
  ProgramSolver(const PlacementProblem& problem, const ProgramOptions& options, const Watch& watch,
                ProgramResult& result)
      : problem_(problem),
        options_(options),
        cbc_(find_cbc(std::getenv("PATH"))),
        begun_(Watch::Clock::now()),
        watch_(until(watch, kKilled * options.seconds)),
        result_(result) {}

  void solve() {
    tell("makes the integer program");
    make(until(watch_, kMade * options_.seconds));
    tell(fmt::format("integer program of {} rows, {} columns, {} of them bits", result_.rows, result_.columns,
                     result_.bits));
    solve_windows();
    if (result_.proved || options_.seconds - passed() < kHanded * made_seconds_ || watch_.stopped()) return;
    tell("CBC solves the whole program");
    solve(std::nullopt, options_.seconds - passed());
  }
  double passed() const { return std::chrono::duration<double>(Watch::Clock::now() - begun_).count(); }

 private:
  static constexpr double kMade = 0.5, kKilled = 1.1;  // shares of the time, at most
  static constexpr double kHanded = 10;  // times the time of its making: CBC writes and reads it so long, measured

  Watch until(Watch watch, double seconds) const {
    const auto end =
        begun_ + std::chrono::duration_cast<Watch::Clock::duration>(std::chrono::duration<double>(seconds));
    watch.deadline = std::min(end, watch.deadline.value_or(end));
    return watch;
  }
  void tell(const std::string& what) const {
    if (options_.tell) options_.tell(what);
  }

  void make(const Watch& watch) {
    const double before = passed();
    start_ = earliest_schedule(problem_, canonical_schedule(problem_, result_.schedule), options_.congestion);
    program_ = {};
    program_ = make_program(problem_, start_.end, options_.congestion, watch, result_.made ? nullptr : &result_.rows);
    made_from_ = result_.objective_ns;
    made_seconds_ = passed() - before;
    result_.made = true;
    result_.rows = program_.rows.size();
    result_.columns = program_.columns.size();
    result_.bits = free_bits(program_);
  }

  // Solves the whole or a window from the result's schedule; a better schedule takes its place.
  void solve(const std::optional<Window>& window, double seconds) {
    if (made_from_ != result_.objective_ns) make(watch_);
    std::vector<double> values = program_values(problem_, program_, start_);
    const CbcAnswer answer = run(window, seconds, values);
    result_.crashes += answer.crashed;
    if (!window) result_.solved = answer.relaxed || answer.crashed || answer.status != CbcAnswer::Status::kStopped;
    // The solver's tolerance is a millionth of the numbers, which are at most the horizon.
    const double tolerance = std::max(1e-6, 1e-6 * static_cast<double>(start_.end));
    if (!answer.values.empty()) {
      const PlacedSchedule found = schedule_of(problem_, program_, values);
      const int64_t objective = earliest_schedule(problem_, found, options_.congestion).end;
      if (objective < result_.objective_ns && schedule_error(problem_, found).empty()) {
        result_.objective_ns = objective;
        result_.schedule = found;
        result_.only_start = false;
      }
    }
    const double bound = std::max(window ? 0 : answer.bound, program_.columns[0].lower) * program_.unit_ns - tolerance;
    result_.bound_ns = std::clamp(static_cast<int64_t>(std::ceil(bound)), result_.bound_ns, result_.objective_ns);
    result_.proved = static_cast<double>(result_.objective_ns - result_.bound_ns) <= 2 * tolerance;
  }

  // Runs CBC; the answer's values, if any, replace `values`.
  CbcAnswer run(const std::optional<Window>& window, double seconds, std::vector<double>& values) {
    PresolvedProgram part;
    if (window) {
      const std::vector<ProgramColumn> columns = program_.columns;
      keep_outside(problem_, program_, values, start_, *window);
      part = presolve(program_, watch_);
      program_.columns = columns;
    } else {
      part = presolve(program_, watch_);
    }
    std::vector<double> start;
    for (int column : part.column) start.push_back(values[static_cast<size_t>(column)]);
    // Ends are whole ns: a better solution is better by one.
    CbcAnswer answer = run_cbc(cbc_, part.program, start, 0.9 / program_.unit_ns, seconds, watch_);
    if (!answer.values.empty())
      for (size_t c = 0; c < part.column.size(); ++c) values[static_cast<size_t>(part.column[c])] = answer.values[c];
    return answer;
  }

  // Solves windows of one size after another, each starting half a window further, as long as any improves.
  void solve_windows() {
    const size_t n = problem_.ops.size();
    for (size_t size : kWindows) {
      if (n > size) tell(fmt::format("CBC solves windows of {} operations", size));
      for (bool better = n > size; better;) {
        better = false;
        for (size_t begin = 0; begin + size / 2 < n; begin += size / 2) {
          const double left = kWindowsPart * options_.seconds - passed();
          if (result_.proved || left < 0.1 || watch_.ended()) return;
          const int64_t before = result_.objective_ns;
          solve(Window{begin, std::min(n, begin + size)}, std::min(left, options_.seconds * kWindowPart));
          better = better || result_.objective_ns < before;
        }
      }
    }
  }

  const PlacementProblem& problem_;
  const ProgramOptions& options_;
  const std::string cbc_;
  const Watch::Clock::time_point begun_;
  const Watch watch_;  // until the solver is killed
  ProgramResult& result_;
  PlacedSchedule start_;  // sets the program's horizon
  PlacementProgram program_;
  int64_t made_from_ = 0;  // the objective of the schedule when the program was made
  double made_seconds_ = 0;
};

}  // namespace

ProgramResult solve_program(const PlacementProblem& problem, const PlacedSchedule& start, const ProgramOptions& asked,
                            const Watch& watch) {
  ProgramOptions options = asked;
  options.seconds = std::min(options.seconds, watch.left().value_or(options.seconds));
  const std::string wrong = schedule_error(problem, start);
  ensure(wrong.empty(), "the schedule to begin with is none: {}", wrong);
  ProgramResult result;
  result.schedule = pushed_left(problem, start);
  result.objective_ns = earliest_schedule(problem, start, options.congestion).end;
  result.only_start = true;
  ProgramSolver solver(problem, options, watch, result);
  try {
    solver.solve();
  } catch (const Error& error) {  // time was over, or the watch ended, while the program was made
    if (error.code() != ExitCode::kTimeLimit && error.code() != ExitCode::kInterrupted) throw;
  }
  result.seconds = solver.passed();
  return result;
}

}  // namespace partita
