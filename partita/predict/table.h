// Reads tables of measurements: CSV with a line of names, or the printed output of nccl-tests.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

struct Table {
  std::string origin;  // the file's name
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as `columns`
  std::vector<int> lines;                      // by row, its line
  bool gpus_by_name = false;                   // cells of a column gpu are the driver's names of the GPUs; see below

  // Finds a column by its name in small or capital letters.
  std::optional<size_t> column(std::string_view name) const;
  // Empty if the table has no such column.
  const std::string& cell(size_t row, std::string_view name) const;
};

// Commas, quotes and doubled quotes as in RFC 4180; blanks around a cell that is not quoted are no part of it. Bad
// input names the line.
Table parse_csv(std::string_view text, std::string_view origin);
std::string print_csv(const Table& table);

// Reads the output of an nccl-tests program (all_reduce_perf, ..), once or several times. The columns are gpus, nodes,
// collective, bytes, time_us (out of place, or in place if that is not printed) and gpu. The last has the names of the
// run's GPUs, kAndGpu between them. Tags of mpirun and srun before the lines ("[1,0]<stdout>:", "0: ") are taken off.
// The collective of a run is the one that a line before its table names. Without it, it follows from the rates if these
// tell, else it is `collective`, else bad input. So is a file whose runs are of one rank each, and one in which outputs
// are mixed or lines are missing.
inline constexpr std::string_view kAndGpu = " + ";
bool is_nccl_tests(std::string_view text);
Table parse_nccl_tests(std::string_view text, std::string_view origin, std::string_view collective = "");

}  // namespace partita
