// The solver CBC, a program of its own (package coinor-cbc): it gets the integer program as a file with a solution to
// begin with, and leaves a file with its best.
//
// Example: minimise C with C >= 0.5 + 3 x, x >= 0.3, x 0 or 1; begun with x = 1. The answer is kOptimal, values
// {3.5, 1}, objective and bound 3.5.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "partita/base/watch.h"
#include "partita/device_placement/program.h"

namespace partita {

// Of the program `cbc` in the folders of `path`, a list like the environment's PATH. Throws where there is none, naming
// the package (exit code 3).
std::string find_cbc(const char* path);

// As a file in the MPS format, which every solver reads; breaks off where the watch ends.
void write_mps(std::ostream& out, const PlacementProgram& program, const Watch& watch = {});

struct CbcAnswer {
  // kOptimal: nothing is better by `gap` or more. kInfeasible: there is no solution, or none better than the one to
  // begin with. kStopped: the time passed, or it was ended.
  enum class Status { kOptimal, kInfeasible, kStopped };
  Status status = Status::kStopped;
  bool crashed = false;        // it does so now and then, mostly near the end of its time
  bool relaxed = false;        // it had the integer program read, and solved it in fractions
  std::vector<double> values;  // by column; empty: it has none
  double objective = 0;        // of these
  double bound = 0;            // no solution has a smaller objective
};

// Runs the program at `cbc` for so many seconds at most. Where it does not look at its clock in a tenth more, it is
// asked to end, and killed after three tenths: then it leaves nothing. Of the time to the watch's deadline it gets nine
// tenths, is asked then, and killed at the deadline. When the watch is stopped it is asked at once, and killed half a
// second later. It also dies with the thread that calls this, so with this process however that ends. Where the watch
// ends while the files are written, it is not begun. `start` are the values of a solution, by column, or none; `gap` is
// how much better a solution has to be to be looked for. Throws, with its last lines, where it fails, and where TMPDIR
// names no folder for its files (exit code 3).
CbcAnswer run_cbc(const std::string& cbc, const PlacementProgram& program, const std::vector<double>& start, double gap,
                  double seconds, const Watch& watch);

}  // namespace partita
