// Reads the output of nccl-tests' programs.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

#include "partita/base/error.h"
#include "partita/predict/table.h"

namespace partita {

namespace {

using Words = std::vector<std::string>;

Words words_in(std::string_view line) {
  std::istringstream in{std::string(line)};
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::optional<double> number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

bool digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "[1,0]<stdout>:" is mpirun's tag, "0: " srun's, "[0] " that of other launchers.
std::string_view without_tag(std::string_view line) {
  const std::string_view from = line.substr(std::min(line.find_first_not_of(' '), line.size()));
  const size_t closed = from.find(']'), colon = from.find(": ");
  if (from.starts_with("[") && closed != std::string_view::npos) {
    for (std::string_view stream : {"<stdout>:", "<stderr>:"})
      if (from.substr(closed + 1).starts_with(stream)) return from.substr(closed + 1 + stream.size());
    if (digits(from.substr(1, closed - 1)) && from.substr(closed + 1).starts_with(" ")) return from.substr(closed + 1);
  }
  if (colon != std::string_view::npos && digits(from.substr(0, colon))) return from.substr(colon + 2);
  return line;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.emplace_back(without_tag(line));
  return lines;
}

// The place of "size count type .. time algbw busbw" in the line of names: 1 if only '#' is before it.
size_t header_at(const Words& words) {
  for (size_t w = 0; w + 5 < words.size(); ++w)
    if (words[w] == "size" && words[w + 1] == "count" && words[w + 2] == "type" &&
        std::find(words.begin(), words.end(), "algbw") != words.end())
      return w;
  return 0;
}

bool is_rank(const Words& words) {
  return words.size() > 2 && words[0] == "#" && words[1] == "Rank" && digits(words[2]);
}

// "1048576 262144 float ..", cut off or not.
bool is_row(const Words& words) {
  return words.size() > 2 && digits(words[0]) && digits(words[1]) &&
         std::isalpha(static_cast<unsigned char>(words[2][0]));
}

// By its program's name, which is in the output of some versions: "all_reduce_perf".
std::string named_collective(std::string_view line) {
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "gather",
                           "scatter", "reduce", "hypercube"})
    if (line.find(std::string(name) + "_perf") != std::string_view::npos) return name;
  return "";
}

// The ratio of its bus bandwidth to its algorithm bandwidth (nccl-tests' PERFORMANCE.md); 0 if that is not known.
double bus_part(const std::string& name, double n) {
  if (name == "all_reduce") return 2 * (n - 1) / n;
  if (name == "all_gather" || name == "reduce_scatter" || name == "alltoall") return (n - 1) / n;
  return name == "sendrecv" || name == "broadcast" ? 1 : 0;
}

struct Row {
  int line = 0;
  std::string bytes, time;
  bool reduces = false;
  std::optional<double> bus;  // over the algorithm bandwidth, if that is printed with some digits
};

// One program's output.
struct Run {
  int line = 0;  // of its first rank
  int ranks = 0;
  std::vector<std::string> gpus;             // their names
  std::map<std::string, int> hosts, groups;  // ranks of each
  std::string name;                          // of the collective
  size_t time = 0, redop = 0;                // columns of its rows; 0: there is none
  std::vector<Row> rows;
};

struct Log {
  std::string_view origin;
  std::string next_name;  // of the coming run
  std::vector<Run> runs;

  template <typename... Args>
  [[noreturn]] void fail_at(int line, fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}:{}: {}", origin, line, fmt::format(format, std::forward<Args>(args)...));
  }
};

constexpr const char* kMixed = "give the output of one program after the other, each whole";

// "#  Rank  0 Group  0 Pid   1234 on   host device  0 [0x07] NVIDIA H100"
void read_rank(Log& log, int line, const Words& words) {
  const std::optional<double> rank = number(words[2]);
  if (rank == 0) {
    log.runs.push_back({line, 0, {}, {}, {}, std::exchange(log.next_name, ""), 0, 0, {}});
  } else if (log.runs.empty() || log.runs.back().ranks != rank || log.runs.back().time > 0) {
    log.fail_at(line,
                "rank {} does not follow rank {}; outputs of several programs are mixed, or lines are missing: {}",
                words[2], log.runs.empty() || log.runs.back().time > 0 ? 0 : *rank - 1, kMixed);
  }
  Run& run = log.runs.back();
  ++run.ranks;
  for (size_t w = 3; w + 2 < words.size(); ++w) {
    if (words[w] == "Group") ++run.groups[words[w + 1]];
    if (words[w] != "on" || words[w + 2].substr(0, 6) != "device") continue;
    ++run.hosts[words[w + 1]];
    while (w < words.size() && words[w][0] != '[') ++w;
    const std::string gpu =
        w < words.size()
            ? fmt::format("{}", fmt::join(words.begin() + static_cast<std::ptrdiff_t>(w) + 1, words.end(), " "))
            : "";
    if (!gpu.empty() && std::find(run.gpus.begin(), run.gpus.end(), gpu) == run.gpus.end()) run.gpus.push_back(gpu);
  }
}

void read_header(Log& log, int line, const Words& words, size_t at) {
  if (at != 1 || words[0] != "#")
    log.fail_at(line, "'{}' stands before the line of names, and before others; take it off",
                fmt::join(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(at), " "));
  if (log.runs.empty())
    fail("{}: no line '#  Rank 0 ..' says how many GPUs there are; keep the lines before the table", log.origin);
  Run& run = log.runs.back();
  if (run.time > 0)
    log.fail_at(
        line,
        "a second table for the ranks from line {} on; outputs of several programs are mixed, or lines are missing: {}",
        run.line, kMixed);
  for (size_t w = 1; w < words.size(); ++w) {
    if (words[w] == "redop" && run.redop == 0) run.redop = w - 1;
    if (words[w] == "time" && run.time == 0) run.time = w - 1;
  }
}

void read_row(Log& log, int line, const Words& words) {
  if (log.runs.empty() || log.runs.back().time == 0)
    log.fail_at(line,
                "a row before the line '#  size  count  type ..' of its table; keep the lines before the table, and {}",
                kMixed);
  Run& run = log.runs.back();
  const size_t t = run.time;
  if (words.size() < t + 3) log.fail_at(line, "the row is cut off; remove it");
  const std::optional<double> out = number(words[t]), in = words.size() > t + 4 ? number(words[t + 4]) : std::nullopt;
  if (!out && !in) log.fail_at(line, "the time is '{}', which is not a number", words[t]);
  Row row{line, words[0], fmt::format("{}", out ? *out : *in), run.redop > 0 && words[run.redop] != "none", {}};
  const size_t rates = out ? t + 1 : t + 5;
  if (words.size() > rates + 1)
    if (const auto algorithm = number(words[rates]), bus = number(words[rates + 1]);
        algorithm && bus && *algorithm >= 1)
      row.bus = *bus / *algorithm;
  if (run.rows.empty()) log.next_name.clear();
  run.rows.push_back(std::move(row));
}

Log read_log(std::string_view text, std::string_view origin) {
  Log log{origin, "", {}};
  const std::vector<std::string> lines = lines_of(text);
  for (size_t l = 0; l < lines.size(); ++l) {
    const Words words = words_in(lines[l]);
    const int line = static_cast<int>(l + 1);
    if (const std::string name = named_collective(lines[l]); !name.empty()) {
      const bool begun = !log.runs.empty() && log.runs.back().rows.empty();  // or broken off, and the next one's name
      const bool concluded = !log.runs.empty() && lines[l].find("concluded") != std::string::npos;
      if (begun || concluded) log.runs.back().name = name;
      if (!concluded) log.next_name = name;
    }
    if (is_rank(words)) read_rank(log, line, words);
    if (const size_t at = header_at(words)) read_header(log, line, words, at);
    if (is_row(words)) read_row(log, line, words);
  }
  return log;
}

constexpr double kSame = 0.02;  // of rates, which are printed with two digits

std::string by_rates(const Run& run) {
  for (const Row& row : run.rows)
    if (row.bus && row.reduces && run.ranks > 2)
      for (const char* name : {"all_reduce", "reduce_scatter"})
        if (std::abs(*row.bus - bus_part(name, run.ranks)) < kSame) return name;
  return "";
}

std::string collective_of(const Log& log, const Run& run, const std::string& given) {
  if (!run.name.empty() && !given.empty() && run.name != given)
    log.fail_at(run.line, "this run is of {}; leave out --collective {}", run.name, given);
  std::string name = run.name.empty() ? given : run.name;
  if (name.empty()) name = by_rates(run);
  if (name.empty())
    fail("{}: it does not say which collective this is; name it with --collective all_gather, for example",
         log.runs.size() > 1 ? fmt::format("{}:{}", log.origin, run.line) : log.origin);
  const double part = bus_part(name, run.ranks);
  for (const Row& row : run.rows)
    if (run.ranks > 1 && part > 0 && row.bus && std::abs(*row.bus - part) > kSame)
      log.fail_at(row.line, "busbw is {:.2f} of algbw, where {} of {} ranks has {:.2f}; {}", *row.bus, name, run.ranks,
                  part, given.empty() ? "lines are missing, or of another program" : "name another with --collective");
  return name;
}

// Checks that the cluster's group can stand for the run's: one communicator, with as many ranks on each node.
void check_ranks(const Log& log, const Run& run) {
  if (run.groups.size() > 1)
    log.fail_at(run.line, "the ranks are in {} groups, each with a collective of its own; run without splitting them",
                run.groups.size());
  for (const auto& [host, ranks] : run.hosts)
    if (ranks != run.hosts.begin()->second)
      log.fail_at(run.line, "{} has {} of the ranks and {} has {}; a run with as many on each node can be compared",
                  run.hosts.begin()->first, run.hosts.begin()->second, host, ranks);
}

// mpirun of a program that was built without MPI.
void check_alone(const Log& log) {
  const auto alone = [](const Run& run) { return run.ranks == 1; };
  if (!std::all_of(log.runs.begin(), log.runs.end(), alone)) return;
  log.fail_at(log.runs[0].line,
              "{} of one rank{}, where each process measured its own GPU alone; build nccl-tests with MPI=1, or give "
              "one process all GPUs (-g 8)",
              log.runs.size() == 1 ? "a run" : fmt::format("{} runs", log.runs.size()),
              log.runs.size() == 1 ? "" : " each");
}

}  // namespace

bool is_nccl_tests(std::string_view text) {
  for (const std::string& line : lines_of(text)) {
    const Words words = words_in(line);
    if (is_rank(words) || header_at(words) > 0) return true;
    if (words.size() > 2 && words[0] == "#" && words[1] == "(B)") return true;  // units of cut-off names
  }
  return false;
}

Table parse_nccl_tests(std::string_view text, std::string_view origin, std::string_view collective) {
  Table table;
  table.origin = origin;
  table.columns = {"gpus", "nodes", "collective", "bytes", "time_us", "gpu"};
  table.gpus_by_name = true;
  const Log log = read_log(text, origin);
  if (log.runs.empty())
    fail("{}: no line '#  Rank 0 ..' says how many GPUs there are; keep the lines before the table", origin);
  check_alone(log);
  for (const Run& run : log.runs) {
    if (run.rows.empty()) continue;  // it was broken off
    check_ranks(log, run);
    const std::string name = collective_of(log, run, std::string(collective));
    const size_t nodes = std::max<size_t>(1, run.hosts.size());
    for (const Row& row : run.rows) {
      table.rows.push_back({std::to_string(run.ranks), std::to_string(nodes), name, row.bytes, row.time,
                            fmt::format("{}", fmt::join(run.gpus, kAndGpu))});
      table.lines.push_back(row.line);
    }
  }
  if (table.rows.empty()) fail("{}: it has no rows of a table; keep the lines after '#  size  count  type ..'", origin);
  return table;
}

}  // namespace partita
