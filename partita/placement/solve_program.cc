// A start, the solver, and the better of the two.
#include "partita/placement/solve_program.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "partita/base/error.h"
#include "partita/placement/baechi.h"
#include "partita/placement/cbc.h"
#include "partita/placement/decode.h"
#include "partita/placement/program.h"
#include "partita/placement/units.h"

namespace partita {

namespace {

// The solver rarely improves a start of some hundred operations: it comes through few nodes. So it first gets windows
// of so many operations, for a part of the time in all and for one.
constexpr size_t kWindows[] = {8, 16, 32};
constexpr double kWindowsPart = 0.6, kWindowPart = 1. / 30;

// Units where `device` has room for them and they can run there, otherwise on the first device that has.
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

// Whether there is a way for all that crosses.
bool has_ways(const PlacementProblem& p, const std::vector<int>& device) {
  return std::all_of(p.values.begin(), p.values.end(), [&](const PlacedValue& v) {
    const auto from = static_cast<size_t>(device[static_cast<size_t>(v.producer)]);
    return !v.moves() || std::all_of(v.readers.begin(), v.readers.end(), [&](int r) {
      const auto to = static_cast<size_t>(device[static_cast<size_t>(r)]);
      return from == to || p.ways[from][to].queue >= 0;
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
    const int64_t ns = congestion ? s.end : timed(p, s, false).end;
    if ((best && ns >= best_ns) || !why_not(p, s).empty()) return;
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

// What is outside stays where it is; only two of the window's operations, or transfers of what they make, may change
// their order.
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

// Solves the program from the result's schedule, or a window of it, and puts what is better in its place.
void solve(const PlacementProblem& problem, const std::string& cbc, bool congestion,
           const std::optional<Window>& window, double seconds, const Watch& watch, ProgramResult& result) {
  const PlacedSchedule start = timed(problem, narrowed(problem, result.schedule), congestion);
  PlacementProgram program = make_program(problem, start.end, congestion, watch);
  result.rows = program.rows.size();
  result.columns = program.columns.size();
  result.bits = free_bits(program);
  std::vector<double> values = program_values(problem, program, start);
  if (window) keep_outside(problem, program, values, start, *window);
  const ReducedProgram part = reduced(program);
  std::vector<double> part_values;
  for (int column : part.column) part_values.push_back(values[static_cast<size_t>(column)]);
  // Ends are whole ns: a solution that is better is better by one.
  const CbcAnswer answer = run_cbc(cbc, part.program, part_values, 0.9 / program.unit_ns, seconds, watch);
  result.crashes += answer.crashed;
  if (!answer.values.empty()) {
    for (size_t c = 0; c < part.column.size(); ++c) values[static_cast<size_t>(part.column[c])] = answer.values[c];
    const PlacedSchedule found = schedule_of(problem, program, values);
    const int64_t objective = timed(problem, found, congestion).end;
    if (objective < result.objective_ns && why_not(problem, found).empty()) {
      result.objective_ns = objective;
      result.schedule = found;
      result.only_start = false;
    }
  }
  // The solver's tolerance is a millionth of the numbers, which are at most the horizon.
  const double tolerance = std::max(1e-6, 1e-6 * static_cast<double>(start.end));
  const double bound = std::max(window ? 0 : answer.bound, program.columns[0].lower) * program.unit_ns - tolerance;
  result.bound_ns = std::clamp(static_cast<int64_t>(std::ceil(bound)), result.bound_ns, result.objective_ns);
  result.proved = static_cast<double>(result.objective_ns - result.bound_ns) <= 2 * tolerance;
}

// Windows of one size after another, each half of the one before further on, as long as any is better.
void solve_windows(const PlacementProblem& problem, const std::string& cbc, const ProgramOptions& options,
                   Watch::Clock::time_point begun, const Watch& watch, ProgramResult& result) {
  const size_t n = problem.ops.size();
  for (size_t size : kWindows)
    for (bool better = n > size; better;) {
      better = false;
      for (size_t begin = 0; begin + size / 2 < n; begin += size / 2) {
        const double passed = std::chrono::duration<double>(Watch::Clock::now() - begun).count();
        const double left = kWindowsPart * options.seconds - passed;
        if (result.proved || left < 0.1 || watch.ended()) return;
        const int64_t before = result.objective_ns;
        solve(problem, cbc, options.congestion, Window{begin, std::min(n, begin + size)},
              std::min(left, options.seconds * kWindowPart), watch, result);
        better = better || result.objective_ns < before;
      }
    }
}

}  // namespace

ProgramResult solve_program(const PlacementProblem& problem, const PlacedSchedule& start, const ProgramOptions& asked,
                            const Watch& watch) {
  ProgramOptions options = asked;
  options.seconds = std::min(options.seconds, watch.left().value_or(options.seconds));
  const Watch::Clock::time_point begun = Watch::Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Watch::Clock::now() - begun).count(); };
  const std::string cbc = find_cbc(std::getenv("PATH"));
  const std::string wrong = why_not(problem, start);
  ensure(wrong.empty(), "the schedule to begin with is none: {}", wrong);
  ProgramResult result;
  result.schedule = pushed_left(problem, start);
  result.objective_ns = timed(problem, start, options.congestion).end;
  result.only_start = true;
  try {
    solve_windows(problem, cbc, options, begun, watch, result);
    if (!result.proved && !watch.ended())
      solve(problem, cbc, options.congestion, std::nullopt, std::max(1.0, options.seconds - passed()), watch, result);
  } catch (const Error& error) {  // the watch ended while the program was made
    if (error.code() != ExitCode::kTimeLimit && error.code() != ExitCode::kInterrupted) throw;
  }
  result.seconds = passed();
  return result;
}

}  // namespace partita
