// When work is to end early: at a moment, or once a flag is set. What may take longer than a part of a second polls it.
#pragma once
#include <atomic>
#include <chrono>
#include <optional>

namespace partita {

struct Watch {
  using Clock = std::chrono::steady_clock;

  std::optional<Clock::time_point> deadline;
  const std::atomic<bool>* stop = nullptr;  // becomes true, say by Ctrl-C

  bool stopped() const { return stop && *stop; }
  bool ended() const { return stopped() || (deadline && Clock::now() >= *deadline); }
  // Throws where it has ended, "interrupted WHERE" (exit code 130) or "the time limit passed WHERE" (5).
  void poll(const char* where) const {
    if (ended()) give_up(where);
  }
  // Seconds until the deadline, not below 0; none without one.
  std::optional<double> left() const;
  // Until so much of the time that is left has passed.
  Watch share(double of_time) const;

  [[noreturn]] void give_up(const char* where) const;
};

// For loops whose steps are short: polls each so many steps.
class Polling {
 public:
  Polling(const Watch& watch, const char* where, int steps = 1024) : watch_(watch), where_(where), steps_(steps) {}
  void step() {
    if (++count_ % steps_ == 0) watch_.poll(where_);
  }

 private:
  const Watch& watch_;
  const char* where_;
  int steps_, count_ = 0;
};

}  // namespace partita
