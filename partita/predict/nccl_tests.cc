// Reads what the programs of nccl-tests print.
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "partita/base/error.h"
#include "partita/predict/table.h"

namespace partita {

namespace {

constexpr std::string_view kHeader = "size", kCount = "count", kType = "type";

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream in{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "#       size         count      type   redop    root     time   algbw   busbw #wrong     time .."
bool is_header(const std::vector<std::string>& words) {
  return words.size() > 5 && words[0] == "#" && words[1] == kHeader && words[2] == kCount && words[3] == kType;
}

std::optional<double> number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// Programs by name, in the output of any version: "all_reduce_perf".
std::string named_collective(std::string_view text) {
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "gather",
                           "scatter", "reduce", "hypercube"})
    if (text.find(std::string(name) + "_perf") != std::string_view::npos) return name;
  return "";
}

// By what the rates of a row say: bus over algorithm is 2 (n-1)/n, (n-1)/n or 1.
std::string collective_by_rates(double algorithm, double bus, bool reduces, int ranks) {
  if (algorithm < 1 || ranks < 3 || !reduces) return "";
  const double ratio = bus / algorithm, part = (ranks - 1.0) / ranks;
  if (std::abs(ratio - 2 * part) < 0.02) return "all_reduce";
  if (std::abs(ratio - part) < 0.02) return "reduce_scatter";
  return "";
}

struct Log {
  int ranks = 0;
  std::set<std::string> hosts;
  size_t time = 0;  // the column of a row
  bool reduces = false;
};

// "#  Rank  0 Group  0 Pid   1234 on   host device  0 [0x07] NVIDIA H100"
void read_rank(Log& log, const std::vector<std::string>& words) {
  ++log.ranks;
  for (size_t w = 2; w + 2 < words.size(); ++w)
    if (words[w] == "on" && words[w + 2].substr(0, 6) == "device") log.hosts.insert(words[w + 1]);
}

}  // namespace

bool is_nccl_tests(std::string_view text) {
  for (const std::string& line : lines_of(text))
    if (is_header(words_of(line))) return true;
  return false;
}

Table parse_nccl_tests(std::string_view text, std::string_view origin, std::string_view collective) {
  Table table;
  table.origin = origin;
  table.columns = {"gpus", "nodes", "collective", "bytes", "time_us"};
  Log log;
  std::string name(collective.empty() ? named_collective(text) : collective);
  const std::vector<std::string> lines = lines_of(text);
  for (size_t l = 0; l < lines.size(); ++l) {
    const std::vector<std::string> words = words_of(lines[l]);
    if (words.size() > 2 && words[0] == "#" && words[1] == "Rank") read_rank(log, words);
    if (is_header(words)) {
      log.time = 0;
      for (size_t w = 1; w < words.size() && log.time == 0; ++w)
        if (words[w] == "time") log.time = w - 1;
    }
    if (log.time == 0 || words.size() < log.time + 3 || words[0][0] == '#' || !number(words[0])) continue;
    const std::optional<double> in_place = words.size() > log.time + 4 ? number(words[log.time + 4]) : std::nullopt;
    const std::optional<double> time = number(words[log.time]) ? number(words[log.time]) : in_place;
    if (!time) fail("{}:{}: the time is '{}', which is not a number", origin, l + 1, words[log.time]);
    log.reduces = words.size() > 3 && words[3] != "none";
    if (const auto algorithm = number(words[log.time + 1]), bus = number(words[log.time + 2]);
        name.empty() && algorithm && bus)
      name = collective_by_rates(*algorithm, *bus, log.reduces, log.ranks);
    table.rows.push_back({"", "", "", words[0], fmt::format("{}", *time)});
    table.lines.push_back(static_cast<int>(l + 1));
  }
  if (log.ranks == 0)
    fail("{}: no line '#  Rank 0 ..' says how many GPUs there are; keep the lines before the table", origin);
  if (name.empty())
    fail("{}: it does not say which collective this is; name it with --collective all_gather, for example", origin);
  const int nodes = log.hosts.empty() ? 1 : static_cast<int>(log.hosts.size());
  for (std::vector<std::string>& row : table.rows) {
    row[0] = std::to_string(log.ranks);
    row[1] = std::to_string(nodes);
    row[2] = name;
  }
  return table;
}

}  // namespace partita
