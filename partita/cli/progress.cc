// Prints lines on standard error while a search runs, one a second at most; and sets the program's clock.
#include "partita/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>

#include "partita/base/machine_memory.h"
#include "partita/base/tell.h"
#include "partita/base/units.h"

namespace partita {

using Clock = std::chrono::steady_clock;

const Clock::time_point kProcessStart = Clock::now();

double seconds_of_process() { return std::chrono::duration<double>(Clock::now() - kProcessStart).count(); }

std::optional<Clock::time_point> deadline_of_process(const std::optional<double>& seconds) {
  constexpr double kForever = 1e9;
  if (!seconds) return std::nullopt;
  return kProcessStart +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(*seconds, kForever)));
}

double gap_of(const solver::Wide& cost, const std::optional<solver::Wide>& bound) {
  if (!bound) return std::numeric_limits<double>::infinity();
  if (cost <= *bound) return 0;
  return static_cast<double>(cost - *bound) / std::max(1.0, std::abs(static_cast<double>(cost)));
}

struct StatusLines::Inside {
  std::mutex lock;
  std::condition_variable_any ends;
  std::optional<std::string> latest;  // that was not printed
  std::string at;                     // the last that was told
  double silence = 0;                 // seconds
  double at_since = 0, printed = 0;   // seconds of the process
  std::jthread printing;

  void print(const std::string& line) {
    printed = seconds_of_process();
    tell("{:7.1f} s  {}", printed, line);
  }

  void print_now_and_then(const std::stop_token& stop) {
    std::unique_lock held(lock);
    while (!stop.stop_requested()) {
      ends.wait_for(held, stop, std::chrono::seconds(1), [] { return false; });
      if (stop.stop_requested()) return;
      if (latest) print(*latest);
      else if (const double now = seconds_of_process(); !at.empty() && now - printed >= silence)
        print(fmt::format("still: {} (for {:.0f} s, {} of memory)", at, now - at_since,
                          megabytes(static_cast<double>(resident_bytes()))));
      latest.reset();
    }
  }
};

// If the machine gives no thread, nothing is printed.
StatusLines::StatusLines(double silence) : inside_(std::make_unique<Inside>()) {
  inside_->silence = silence;
  try {
    inside_->printing = std::jthread([this](const std::stop_token& stop) { inside_->print_now_and_then(stop); });
  } catch (const std::system_error&) {
  }
}
StatusLines::~StatusLines() = default;

void StatusLines::operator()(const std::string& line) {
  const std::lock_guard held(inside_->lock);
  inside_->latest = inside_->at = line;
  inside_->at_since = seconds_of_process();
}

void StatusLines::doing(const std::string& what) {
  const std::lock_guard held(inside_->lock);
  inside_->at = what;
  inside_->at_since = seconds_of_process();
}

void StatusLines::print(const std::string& line) {
  const std::lock_guard held(inside_->lock);
  inside_->print(line);
}

void ProgressLines::operator()(const std::optional<solver::Wide>& best, const std::optional<solver::Wide>& bound) {
  const double now = seconds_of_process();
  if (now - last_ < 1) return;
  last_ = now;
  auto or_dash = [&](const std::optional<solver::Wide>& value) { return value ? text_(*value) : "-"; };
  const std::string gap = best && bound ? fmt::format("{:.2f}%", 100 * gap_of(*best, bound)) : "-";
  const std::string line = fmt::format("{} {}  bound {}  gap {}", what_, or_dash(best), or_dash(bound), gap);
  if (among_) among_->print(line);
  else tell("{:7.1f} s  {}", now, line);
}

}  // namespace partita
