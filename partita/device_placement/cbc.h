// Runs the solver CBC, a program of its own (package coinor-cbc). It reads the integer program and a start from files,
// and writes its best solution to a file.
//
// Example: minimise C with C >= 0.5 + 3 x, x >= 0.3, x 0 or 1; started with x = 1. The answer is kOptimal, values {3.5,
// 1}, objective and bound 3.5.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "partita/base/watch.h"
#include "partita/device_placement/program.h"

namespace partita {

// Returns the program `cbc` in the folders of `path`, a list like the environment's PATH. Throws if there is none,
// naming the package (exit code 3).
std::string find_cbc(const char* path);

// Writes the program in the MPS format, which every solver reads. Breaks off when the watch ends.
void write_mps(std::ostream& out, const PlacementProgram& program, const Watch& watch = {});

struct CbcAnswer {
  // kOptimal: nothing is better by `gap` or more. kInfeasible: no solution, or none better than the start. kStopped:
  // time was over, or it was ended.
  enum class Status { kOptimal, kInfeasible, kStopped };
  Status status = Status::kStopped;
  bool crashed = false;        // happens now and then, mostly near the end of its time
  bool relaxed = false;        // it had read the integer program, and solved the relaxation
  std::vector<double> values;  // by column; empty: no solution
  double objective = 0;        // of `values`
  double bound = 0;            // no solution has a smaller objective
};

// Runs the program at `cbc` for at most `seconds`. CBC is asked to end if it overruns by a tenth, and killed after
// three tenths: then it leaves nothing. With a watch's deadline it gets nine tenths of the time left, is asked then,
// and killed at the deadline. When the watch is stopped it is asked at once, and killed half a second later. It dies
// with the calling thread, so with this process however that ends. If the watch ends while the files are written, it is
// not started. `start` has the values of a solution by column, or is empty. `gap` is how much better a solution has to
// be. Throws with CBC's last lines if it fails, and if TMPDIR names no folder for its files (exit code 3).
CbcAnswer run_cbc(const std::string& cbc, const PlacementProgram& program, const std::vector<double>& start, double gap,
                  double seconds, const Watch& watch);

}  // namespace partita
