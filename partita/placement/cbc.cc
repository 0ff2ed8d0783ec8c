// Writes files for the solver, runs it as a child process, and reads what it leaves.
#include "partita/placement/cbc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "partita/base/error.h"

extern char** environ;

namespace partita {

std::string find_cbc(const char* path) {
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / "cbc";
    std::error_code none;
    if (std::filesystem::is_regular_file(file, none) && access(file.c_str(), X_OK) == 0) return file.string();
  }
  fail(
      "the integer program is solved by the program 'cbc', and no folder of PATH has it: install the package "
      "coinor-cbc "
      "(apt-get install coinor-cbc)");
}

namespace {

std::string number(double x) { return fmt::format("{:.15g}", x); }

void write_columns(std::ostream& out, const PlacementProgram& p) {
  struct Entry {
    size_t row;
    double factor;
  };
  std::vector<std::vector<Entry>> of(p.columns.size());
  for (size_t r = 0; r < p.rows.size(); ++r)
    for (size_t i = p.rows[r].terms; i < p.rows[r].terms_end; ++i)
      of[static_cast<size_t>(p.terms[i].column)].push_back({r, p.terms[i].factor});
  bool whole = false;
  int marks = 0;
  const auto mark = [&](bool begins) {
    fmt::print(out, " M{} 'MARKER' '{}'\n", marks++, begins ? "INTORG" : "INTEND");
    whole = begins;
  };
  for (size_t c = 0; c < p.columns.size(); ++c) {
    if (p.columns[c].whole != whole) mark(!whole);
    if (c == 0) fmt::print(out, " {} obj 1\n", p.columns[c].name);
    // A column of no row is one all the same.
    else if (of[c].empty()) fmt::print(out, " {} obj 0\n", p.columns[c].name);
    for (const Entry& e : of[c]) fmt::print(out, " {} r{} {}\n", p.columns[c].name, e.row, number(e.factor));
  }
  if (whole) mark(false);
}

}  // namespace

void write_mps(std::ostream& out, const PlacementProgram& p) {
  out << "NAME program FREE\nROWS\n N obj\n";
  for (size_t r = 0; r < p.rows.size(); ++r) {
    const ProgramRow& row = p.rows[r];
    ensure(row.lower == row.upper || std::isinf(row.lower) || std::isinf(row.upper), "row {} has two sides", r);
    fmt::print(out, " {} r{}\n", row.lower == row.upper ? 'E' : std::isinf(row.upper) ? 'G' : 'L', r);
  }
  out << "COLUMNS\n";
  write_columns(out, p);
  out << "RHS\n";
  for (size_t r = 0; r < p.rows.size(); ++r) {
    const double side = std::isinf(p.rows[r].lower) ? p.rows[r].upper : p.rows[r].lower;
    if (side != 0) fmt::print(out, " RHS r{} {}\n", r, number(side));
  }
  out << "BOUNDS\n";
  for (const ProgramColumn& column : p.columns) {
    if (column.lower != 0) fmt::print(out, " LO BND {} {}\n", column.name, number(column.lower));
    fmt::print(out, " UP BND {} {}\n", column.name, number(column.upper));
  }
  out << "ENDATA\n";
}

namespace {

// A folder of its own, removed with all in it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "partita-cbc-XXXXXX").string();
    if (!mkdtemp(name.data()))
      fail("{}: no folder can be made there for the files of cbc: point TMPDIR elsewhere", name);
    path_ = name;
  }
  ~Folder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// In a process group of its own, so that Ctrl-C in a terminal is ours to handle. Killed with this.
class Child {
 public:
  Child(std::vector<std::string> arguments, const std::string& log) {
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int error = posix_spawn(&pid_, argv[0], &files, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (error) fail("{} cannot be started (error {})", arguments[0], error);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool ended() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
    return ended_;
  }
  void end() {
    if (ended()) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
    ended_ = true;
  }
  // It ends as soon as it looks, and leaves what it has.
  void ask_to_end() {
    if (!ended()) kill(pid_, SIGINT);
  }
  // By a signal that is not ours, while it has ended.
  bool crashed() const { return WIFSIGNALED(status_) && WTERMSIG(status_) != SIGINT && WTERMSIG(status_) != SIGKILL; }
  bool succeeded() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }

 private:
  pid_t pid_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

// The number after the last of such words.
void last_number(const std::string& log, const std::string& after, double& number) {
  const size_t at = log.rfind(after);
  if (at == std::string::npos) return;
  char* end = nullptr;
  const char* from = log.c_str() + at + after.size();
  const double read = std::strtod(from, &end);
  if (end != from && std::abs(read) < 1e40) number = read;
}

std::string read(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Its lines are "index name value reduced-cost", after one of the status; columns of value 0 are left out. Two stars
// before the index say that a row or column is violated, beyond 1e-8: a linear program is so by rounding, and a point
// of whole numbers is none then.
void read_values(const std::string& file, CbcAnswer& answer, const PlacementProgram& program) {
  const size_t columns = program.columns.size();
  const bool linear =
      std::none_of(program.columns.begin(), program.columns.end(), [](const ProgramColumn& c) { return c.whole; });
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || line.find("nfeasible") != std::string::npos) return;
  if (line.rfind("Optimal", 0) == 0) answer.status = CbcAnswer::Status::kOptimal;
  std::vector<double> values(columns, 0);
  size_t index = 0, read = 0;
  std::string first, name;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    words >> first;
    if (first == "**" && !linear) return;
    if (first == "**") words >> first;
    double value = 0;
    if (!(std::istringstream(first) >> index) || index >= columns || !(words >> name >> value)) continue;
    values[index] = value;
    ++read;
  }
  if (read > 0) answer.values = std::move(values);
}

CbcAnswer read_answer(const std::string& log, const std::string& solution, const PlacementProgram& program,
                      double gap) {
  CbcAnswer answer;
  const auto says = [&](const char* words) { return log.find(words) != std::string::npos; };
  last_number(log, "Continuous objective value is", answer.bound);
  last_number(log, "best possible", answer.bound);
  last_number(log, "Lower bound:", answer.bound);
  if (says("roblem is infeasible") || says("roblem proven infeasible") || says("Pre-processing says infeasible")) {
    answer.status = CbcAnswer::Status::kInfeasible;
    return answer;
  }
  read_values(solution, answer, program);
  if (answer.values.empty()) return answer;
  answer.objective = answer.values[0];
  if (answer.status == CbcAnswer::Status::kOptimal) answer.bound = answer.objective - gap;
  answer.bound = std::min(answer.bound, answer.objective);
  return answer;
}

std::string last_lines(const std::string& log) {
  return log.size() <= 1000 ? log : ".." + log.substr(log.size() - 1000);
}

}  // namespace

namespace {

constexpr double kPartOfLeft = 0.9;      // of the time to a deadline
constexpr double kStoppedSeconds = 0.5;  // to leave what it has

Watch::Clock::time_point later(Watch::Clock::time_point from, double seconds) {
  return from + std::chrono::duration_cast<Watch::Clock::duration>(std::chrono::duration<double>(seconds));
}

void write_files(const std::string& problem, const std::string& begin, const PlacementProgram& program,
                 const std::vector<double>& start) {
  std::ofstream out(problem), values(begin);
  write_mps(out, program);
  for (size_t c = 0; c < start.size(); ++c)
    fmt::print(values, "{} {} {}\n", c, program.columns[c].name, number(start[c]));
  if (!out.flush() || !values.flush()) fail("{}: the files of cbc cannot be written; point TMPDIR elsewhere", problem);
}

struct Ended {
  bool asked = false, killed = false;
};

// Asked at one moment, or when the watch is stopped; killed at another, or soon after that.
Ended wait_for(Child& child, Watch::Clock::time_point ask, Watch::Clock::time_point kill, const Watch& watch) {
  Ended ended;
  bool stopped = false;
  for (std::chrono::microseconds nap(200); !child.ended();) {
    const Watch::Clock::time_point now = Watch::Clock::now();
    if (watch.stopped() && !stopped) {
      stopped = true;
      ask = now;
      kill = std::min(kill, later(now, kStoppedSeconds));
    }
    if (!ended.asked && now >= ask) {
      child.ask_to_end();
      ended.asked = true;
    }
    ended.killed = now >= kill;
    if (ended.killed) child.end();
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, std::chrono::microseconds(20000));
  }
  return ended;
}

}  // namespace

CbcAnswer run_cbc(const std::string& cbc, const PlacementProgram& program, const std::vector<double>& start, double gap,
                  double seconds, const Watch& watch) {
  const Folder folder;
  const std::string problem = folder.file("program.mps"), begin = folder.file("start"), log_file = folder.file("log");
  const std::string solution = folder.file("solution");
  write_files(problem, begin, program, start);
  if (watch.ended()) return {};
  const Watch::Clock::time_point begun = Watch::Clock::now();
  const std::optional<double> left = watch.left();
  if (left) seconds = std::min(seconds, kPartOfLeft * *left);
  std::vector<std::string> arguments = {
      cbc, problem, "-timeMode", "elapsed", "-sec", number(std::max(seconds, 0.05)), "-allowableGap", number(gap)};
  if (!start.empty()) arguments.insert(arguments.end(), {"-mipstart", begin});
  arguments.insert(arguments.end(), {"-solve", "-solution", solution, "-quit"});
  // It looks at its clock between nodes and rounds of cuts alone, and later where others take the processor.
  const double grace = std::max(1.0, 0.1 * seconds);
  Watch::Clock::time_point ask = later(begun, seconds + grace), kill = later(begun, seconds + 3 * grace);
  if (left) {
    ask = std::min(ask, later(begun, kPartOfLeft * *left));
    kill = std::min(kill, *watch.deadline);
  }
  Child child(arguments, log_file);
  const Ended ended = wait_for(child, ask, kill, watch);
  const std::string log = read(log_file);
  if (child.crashed()) {
    CbcAnswer answer;
    answer.crashed = true;
    return answer;
  }
  if (!ended.asked && !child.succeeded()) fail("{} failed. Its last lines: {}", cbc, last_lines(log));
  CbcAnswer answer = read_answer(log, ended.killed ? "" : solution, program, gap);
  if (answer.status != CbcAnswer::Status::kInfeasible && answer.values.empty() && !ended.killed && !ended.asked &&
      log.find("topped on") == std::string::npos)
    fail("{} left no solution. Its last lines: {}", cbc, last_lines(log));
  return answer;
}

}  // namespace partita
