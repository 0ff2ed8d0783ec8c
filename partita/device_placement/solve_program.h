// Solves placement and schedule by the integer program (Pesto, section 3.2.2): CBC starts from the best list schedule.
//
// A program of some hundred operations has so many rows that the solver comes through few nodes. So it first gets the
// program with all fixed but a window of 8, 16 or 32 operations. Windows go from the first to the last, as long as any
// improves; then the whole, which proves the bound. CBC does not look at its clock while it reads a program of millions
// of rows: it is killed a tenth after the time. A program that takes half of the time to make is not handed to it. Nor
// is the whole if less than ten times its making is left: CBC takes so long to write and read it.
//
// Example: two devices, a (3 ns) and b and c (4 and 5 ns) which read a's value, 2 ns on its way: the schedule of 10 ns
// has c on the other device, and is proved: bound 10 ns.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/base/watch.h"
#include "partita/device_placement/problem.h"

namespace partita {

struct ProgramOptions {
  bool congestion = true;  // without it transfers of a link may be at the same time (the paper's Figure 5)
  double seconds = 60;     // from when the program's making begins
  std::function<void(const std::string&)> tell = nullptr;  // hears the current stage
};

struct ProgramResult {
  PlacedSchedule schedule;                 // schedule_error() accepts it, with congestion
  int64_t objective_ns = 0;                // the program's: without congestion less than the schedule's end
  int64_t bound_ns = 0;                    // no solution of the program has a smaller one
  bool proved = false;                     // the bound is met, to a millionth
  bool only_start = false;                 // the solver found nothing better than its start
  int crashes = 0;                         // of the solver
  bool made = false;                       // the program; otherwise rows counts those until time was over
  bool solved = false;                     // the solver came to solve the whole program, at least in fractions
  size_t rows = 0, columns = 0, bits = 0;  // of the whole program, from the last schedule
  double seconds = 0;                      // for all
};

// Returns the best list schedule of some placements: all that can on one device, by Baechi's rules, and those given.
// Placements that do not fit are skipped. Nothing: none fits, and `why` says Baechi's memory deficit. Without
// `congestion`, the best if transfers of a link may overlap.
std::optional<PlacedSchedule> best_list_schedule(const PlacementProblem& problem,
                                                 const std::vector<std::vector<int>>& placements, std::string& why,
                                                 bool congestion = true);

// Returns a schedule no worse than `start`, which schedule_error() accepts. At the watch's deadline, and when the watch
// is stopped, it returns the best so far; rows are 0 if the program was not begun. Throws if there is no program `cbc`.
ProgramResult solve_program(const PlacementProblem& problem, const PlacedSchedule& start, const ProgramOptions& options,
                            const Watch& watch);

}  // namespace partita
