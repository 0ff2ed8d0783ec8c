// Prints a search's progress on standard error while it runs.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "partita/network/network.h"

namespace partita {

extern const std::chrono::steady_clock::time_point kProcessStart;
double seconds_of_process();
// So many seconds after the program began; none without a limit.
std::optional<std::chrono::steady_clock::time_point> deadline_of_process(const std::optional<double>& seconds);

// (cost - bound) / |cost|; infinite without a bound.
double gap_of(const solver::Wide& cost, const std::optional<solver::Wide>& bound);

// Prints the current stage of a search of several parts: after each second, the latest of the lines that it was given.
// If nothing has been printed for so many seconds, it prints the current stage again, and the program's memory.
class StatusLines {
 public:
  explicit StatusLines(double silence = 5);
  ~StatusLines();
  void operator()(const std::string& line);
  void doing(const std::string& what);  // is printed only in a silence
  void print(const std::string& line);  // at once, with the time

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// A line a second at most: the best so far, the proved bound, and their distance. With `among`, it is one of those
// lines.
class ProgressLines {
 public:
  ProgressLines(std::string what, std::function<std::string(const solver::Wide&)> text, StatusLines* among = nullptr)
      : what_(std::move(what)), text_(std::move(text)), among_(among) {}
  void operator()(const std::optional<solver::Wide>& best, const std::optional<solver::Wide>& bound);

 private:
  std::string what_;
  std::function<std::string(const solver::Wide&)> text_;
  StatusLines* among_ = nullptr;
  double last_ = -1;
};

}  // namespace partita
