// Defines the integer program of placement and schedule (Pesto, section 3.2.2): its rows (1) to (10) as plain data.
//
// The paper leaves these points open or prints them wrong. The program has:
// - (2) and (6) are no rows: an end is its start plus a time, and is written so wherever it is needed.
// - (10) has - M delta (printed: +, under which no two operations can share a device).
// - A value that crosses has one vertex for each device that it can go to, with z = 1 if it does: that is one transfer
//   for each (value, destination), as in PlacedSchedule, where the paper has one for each edge.
// - A unit's place is one bit x if two devices are possible, the pair (x, y) if four are, with the product w of the two
//   as a column of its own. Otherwise it is one bit a device. So "u is on d" is linear, `on`, and rows of (10) end in M
//   (2 - on(u, d) - on(v, d)) for any number of devices.
// - M is as small as the horizon allows: the latest end of the one less the earliest start of the other.
// - Rows of (4), (7) and (10) are there for pairs that no path orders and that can meet on one device or link; if the
//   horizon leaves one order alone, no bit is needed.
// - Rows of rule 0 follow from the others in whole numbers but not in fractions: the end is at least the work of each
//   device and link, and an edge between devices takes time.
// - Equal devices are not tried twice (units.h).
//
// Example: two operations of 3 ns on one device, horizon 8: columns C, S_0, S_1 and the bit d_0_1, rows of (4)
// S_0 - S_1 + 8 d >= 3 and S_1 - S_0 - 8 d >= 3 - 8, of (3) C - S_0 >= 3, C - S_1 >= 3, of 0 C >= 6.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/base/watch.h"
#include "partita/device_placement/problem.h"

namespace partita {

struct ProgramTerm {
  int column = 0;
  double factor = 0;
};

// constant + sum of factor * column
struct Affine {
  double constant = 0;
  std::vector<ProgramTerm> terms;
};

struct ProgramColumn {
  std::string name;  // C; S_op; x_unit, y_unit, w_unit; z_, T_ and E_value_device; d_item_item
  double lower = 0, upper = 1;
  bool whole = false;
};

// lower <= sum of its terms <= upper
struct ProgramRow {
  int rule = 0;  // the paper's number; 0: added
  double lower = 0, upper = 0;
  size_t terms = 0, terms_end = 0;  // of the program's
};

struct ProgramUnit {
  std::vector<int> devices;  // possible ones
  std::vector<int> bits;     // columns: {x}, {x, y, w}, or one for each device; none if one device is possible
  std::vector<Affine> on;    // by device of the problem
};

// A value and a device that it can go to.
struct ProgramTransfer {
  int value = 0, to = 0;
  int start_column = 0, moves_column = -1, end_column = -1;  // -1: none is needed
  Affine start, moves, end;                                  // end = start + moves * time
};

// The bit is 1 if the first ends before the second starts. Operations, then transfers.
struct ProgramOrder {
  int column = 0, first = 0, second = 0;
};

struct PlacementProgram {
  std::vector<ProgramColumn> columns;  // the first is C, the end of the step, which is minimised
  std::vector<ProgramRow> rows;
  std::vector<ProgramTerm> terms;
  double unit_ns = 1;  // ns in a unit of the program's times: numbers stay below about 1000, so that a solver's
                       // tolerances do not matter
  bool congestion = true;
  std::vector<ProgramUnit> units;
  std::vector<int> unit_of_op, start_column;  // by operation
  std::vector<ProgramTransfer> transfers;
  std::vector<ProgramOrder> orders;
};

// Makes the program of all schedules that end at `horizon_ns` or before, up to the exchange of equal devices. Without
// congestion transfers of one queue may overlap. Throws if the watch ends; `rows`, if given, is then their number so
// far.
PlacementProgram make_program(const PlacementProblem& problem, int64_t horizon_ns, bool congestion,
                              const Watch& watch = {}, size_t* rows = nullptr);

// Returns the earliest schedule in the order of the given one. Without congestion no transfer waits for another, and
// the checker may refuse it.
PlacedSchedule earliest_schedule(const PlacementProblem& problem, const PlacedSchedule& schedule, bool congestion);

// Returns the values of all columns for the earliest_schedule() of a canonical one (units.h).
std::vector<double> program_values(const PlacementProblem& problem, const PlacementProgram& program,
                                   const PlacedSchedule& schedule);

// Returns the schedule in the order of the values, earliest_schedule() with congestion.
PlacedSchedule schedule_of(const PlacementProblem& problem, const PlacementProgram& program,
                           const std::vector<double>& values);

// The program without the columns whose bounds are equal (the first stays) and the rows that the bounds imply. Throws
// if the watch ends.
struct PresolvedProgram {
  PlacementProgram program;  // columns, rows and terms alone
  std::vector<int> column;   // of the whole, by column of it
};
PresolvedProgram presolve(const PlacementProgram& program, const Watch& watch = {});

// Returns the problem with so little memory that a placement is balanced (the paper's memory rows). The devices that
// the most operations can run on get an equal share of all bytes that could be there. (1 - 1 / their number) of the
// largest unit comes on top.
PlacementProblem with_balanced_memory(const PlacementProblem& problem);

}  // namespace partita
