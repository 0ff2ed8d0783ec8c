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
                                                 const std::vector<std::vector<int>>& placements, std::string& why) {
  std::optional<PlacedSchedule> best;
  const auto offer = [&](PlacedSchedule s) {
    s = pushed_left(p, s);
    if ((!best || s.end < best->end) && why_not(p, s).empty()) best = std::move(s);
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
  if (const auto s = earliest_task_first(p, why); s && has_ways(p, s->device)) offer(*s), place(s->device);
  return best;
}

ProgramResult solve_program(const PlacementProblem& problem, const PlacedSchedule& given, const ProgramOptions& options,
                            const Watch& watch) {
  const Watch::Clock::time_point begun = Watch::Clock::now();
  const std::string cbc = find_cbc(std::getenv("PATH"));
  const std::string wrong = why_not(problem, given);
  ensure(wrong.empty(), "the schedule to begin with is none: {}", wrong);
  const PlacedSchedule start = timed(problem, narrowed(problem, given), options.congestion);
  const PlacementProgram program = make_program(problem, start.end, options.congestion);
  ProgramResult result;
  result.schedule = pushed_left(problem, given);
  result.objective_ns = start.end;
  result.only_start = true;
  result.rows = program.rows.size();
  result.columns = program.columns.size();
  result.bits = static_cast<size_t>(
      std::count_if(program.columns.begin(), program.columns.end(), [](const ProgramColumn& c) { return c.whole; }));
  // Ends are whole ns: a solution that is better is better by one.
  const double gap = 0.9 / program.unit_ns;
  const CbcAnswer answer = run_cbc(cbc, program, program_values(problem, program, start), gap, options.seconds, watch);
  const double bound = std::max(answer.bound, program.columns[0].lower) * program.unit_ns;
  if (!answer.values.empty()) {
    const PlacedSchedule found = schedule_of(problem, program, answer.values);
    const int64_t objective = timed(problem, found, options.congestion).end;
    if (objective < result.objective_ns && why_not(problem, found).empty()) {
      result.objective_ns = objective;
      result.schedule = found;
      result.only_start = false;
    }
  }
  // The solver's tolerance is a millionth of the numbers, which are at most the horizon.
  const double tolerance = std::max(1e-6, 1e-6 * static_cast<double>(start.end));
  result.bound_ns = std::min(result.objective_ns, static_cast<int64_t>(std::ceil(std::max(0.0, bound - tolerance))));
  result.proved = static_cast<double>(result.objective_ns - result.bound_ns) <= 2 * tolerance;
  result.seconds = std::chrono::duration<double>(Watch::Clock::now() - begun).count();
  return result;
}

}  // namespace partita
