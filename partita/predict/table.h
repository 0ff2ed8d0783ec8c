// Tables of measurements: CSV with a line of names, or the printed output of nccl-tests.
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
  std::vector<int> lines;                      // by row, where it stands

  std::optional<size_t> column(std::string_view name) const;
  // Empty where the table has no such column.
  const std::string& cell(size_t row, std::string_view name) const;
};

// Commas, quotes and doubled quotes as in RFC 4180. Bad input names the line.
Table parse_csv(std::string_view text, std::string_view origin);
std::string print_csv(const Table& table);

// What a program of nccl-tests prints (all_reduce_perf, ..), as columns gpus, nodes, collective, bytes, time_us: out of
// place, or in place where that is not printed. The collective is the one that a line of the text names; else it
// follows from the rates, where these tell; else bad input. `collective` is it where not empty.
bool is_nccl_tests(std::string_view text);
Table parse_nccl_tests(std::string_view text, std::string_view origin, std::string_view collective = "");

}  // namespace partita
