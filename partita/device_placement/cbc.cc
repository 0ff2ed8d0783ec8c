// Writes files for the solver CBC, runs it as a child process and reads its results.
#include "partita/device_placement/cbc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "partita/base/error.h"

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

// Tells whether to break off; asks the watch once in so many lines.
bool is_late(const Watch& watch, size_t line) { return line % 1024 == 0 && watch.ended(); }

void write_columns(std::ostream& out, const PlacementProgram& p, const Watch& watch) {
  struct Entry {
    size_t row;
    double factor;
  };
  std::vector<std::vector<Entry>> of(p.columns.size());
  for (size_t r = 0; r < p.rows.size(); ++r) {
    if (is_late(watch, r)) return;
    for (size_t i = p.rows[r].terms; i < p.rows[r].terms_end; ++i)
      of[static_cast<size_t>(p.terms[i].column)].push_back({r, p.terms[i].factor});
  }
  bool whole = false;
  int marks = 0;
  const auto mark = [&](bool begins) {
    fmt::print(out, " M{} 'MARKER' '{}'\n", marks++, begins ? "INTORG" : "INTEND");
    whole = begins;
  };
  for (size_t c = 0; c < p.columns.size(); ++c) {
    if (is_late(watch, c)) return;
    if (p.columns[c].whole != whole) mark(!whole);
    if (c == 0) fmt::print(out, " {} obj 1\n", p.columns[c].name);
    // A column of no row is one all the same.
    else if (of[c].empty()) fmt::print(out, " {} obj 0\n", p.columns[c].name);
    for (const Entry& e : of[c]) fmt::print(out, " {} r{} {}\n", p.columns[c].name, e.row, number(e.factor));
  }
  if (whole) mark(false);
}

}  // namespace

void write_mps(std::ostream& out, const PlacementProgram& p, const Watch& watch) {
  out << "NAME program FREE\nROWS\n N obj\n";
  for (size_t r = 0; r < p.rows.size(); ++r) {
    if (is_late(watch, r)) return;
    const ProgramRow& row = p.rows[r];
    ensure(row.lower == row.upper || std::isinf(row.lower) || std::isinf(row.upper), "row {} has two sides", r);
    fmt::print(out, " {} r{}\n", row.lower == row.upper ? 'E' : std::isinf(row.upper) ? 'G' : 'L', r);
  }
  out << "COLUMNS\n";
  write_columns(out, p, watch);
  out << "RHS\n";
  for (size_t r = 0; r < p.rows.size(); ++r) {
    if (is_late(watch, r)) return;
    const double side = std::isinf(p.rows[r].lower) ? p.rows[r].upper : p.rows[r].lower;
    if (side != 0) fmt::print(out, " RHS r{} {}\n", r, number(side));
  }
  out << "BOUNDS\n";
  for (size_t c = 0; c < p.columns.size(); ++c) {
    if (is_late(watch, c)) return;
    const ProgramColumn& column = p.columns[c];
    if (column.lower != 0) fmt::print(out, " LO BND {} {}\n", column.name, number(column.lower));
    fmt::print(out, " UP BND {} {}\n", column.name, number(column.upper));
  }
  out << "ENDATA\n";
}

namespace {

// A temporary folder, removed with all in it.
class Folder {
 public:
  Folder() {
    std::error_code none;
    const std::filesystem::path where = std::filesystem::temp_directory_path(none);
    if (none) {
      const char* given = std::getenv("TMPDIR");
      fail("TMPDIR is '{}', which is no folder: the files of cbc go there; point TMPDIR at a folder",
           given ? given : "/tmp");
    }
    std::string name = (where / "partita-cbc-XXXXXX").string();
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

// Runs in the new process, so it takes no memory or lock. The process is killed with the thread that began it: this
// one, which waits for it.
[[noreturn]] void become(char* const* argv, const char* log, pid_t parent, int failed) {
  setpgid(0, 0);
  const int in = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (in >= 0 && out >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
      dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
    execv(argv[0], argv);
  const int error = errno;
  if (write(failed, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

// In a process group of its own, so that Ctrl-C in a terminal is ours to handle. Killed with this.
class Child {
 public:
  Child(std::vector<std::string> arguments, const std::string& log) {
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    int failed[2];  // closed when the program is begun, otherwise gets the error
    if (pipe2(failed, O_CLOEXEC) != 0) fail("{} cannot be started (error {})", arguments[0], errno);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) become(argv.data(), log.c_str(), parent, failed[1]);
    int error = pid_ < 0 ? errno : 0;
    close(failed[1]);
    if (pid_ > 0)
      while (::read(failed[0], &error, sizeof(error)) < 0 && errno == EINTR) {
      }
    close(failed[0]);
    if (!error) return;
    if (pid_ > 0) waitpid(pid_, &status_, 0);
    fail("{} cannot be started (error {})", arguments[0], error);
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
  // Asks the solver to end: it leaves its best solution as soon as it looks.
  void ask_to_end() {
    if (!ended()) kill(pid_, SIGINT);
  }
  // Ended by a signal that is not ours.
  bool crashed() const { return WIFSIGNALED(status_) && WTERMSIG(status_) != SIGINT && WTERMSIG(status_) != SIGKILL; }
  bool succeeded() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }

 private:
  pid_t pid_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

// Reads the number after the last occurrence of `after`.
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

// Reads the solution: a status line, then lines "index name value reduced-cost", without columns of value 0. Two stars
// before the index mark a row or column that is violated by more than 1e-8. A linear program may be so by rounding; an
// integer point is then no solution.
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

constexpr const char* kRelaxed = "Continuous objective value is";

CbcAnswer read_answer(const std::string& log, const std::string& solution, const PlacementProgram& program,
                      double gap) {
  CbcAnswer answer;
  const auto says = [&](const char* words) { return log.find(words) != std::string::npos; };
  answer.relaxed = says(kRelaxed);
  last_number(log, kRelaxed, answer.bound);
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

constexpr double kPartOfLeft = 0.9;      // of the time to a deadline
constexpr double kStoppedSeconds = 0.5;  // for the solver to leave its best solution

Watch::Clock::time_point later(Watch::Clock::time_point from, double seconds) {
  return from + std::chrono::duration_cast<Watch::Clock::duration>(std::chrono::duration<double>(seconds));
}

void write_files(const std::string& problem, const std::string& begin, const PlacementProgram& program,
                 const std::vector<double>& start, const Watch& watch) {
  std::ofstream out(problem), values(begin);
  write_mps(out, program, watch);
  for (size_t c = 0; c < start.size() && !is_late(watch, c); ++c)
    fmt::print(values, "{} {} {}\n", c, program.columns[c].name, number(start[c]));
  if (!out.flush() || !values.flush()) fail("{}: the files of cbc cannot be written; point TMPDIR elsewhere", problem);
}

struct Ended {
  bool asked = false, killed = false;
};

// Waits for the child: asks it to end at `ask` or when the watch is stopped, kills it at `kill` or soon after a stop.
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
  write_files(problem, begin, program, start, watch);
  if (watch.ended()) return {};
  const Watch::Clock::time_point begun = Watch::Clock::now();
  const std::optional<double> left = watch.left();
  if (left) seconds = std::min(seconds, kPartOfLeft * *left);
  std::vector<std::string> arguments = {
      cbc, problem, "-timeMode", "elapsed", "-sec", number(std::max(seconds, 0.05)), "-allowableGap", number(gap)};
  if (!start.empty()) arguments.insert(arguments.end(), {"-mipstart", begin});
  arguments.insert(arguments.end(), {"-solve", "-solution", solution, "-quit"});
  // CBC looks at its clock only between nodes and rounds of cuts, and later if others take the processor.
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
    answer.relaxed = log.find(kRelaxed) != std::string::npos;
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
