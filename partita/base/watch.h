// Ends work early: at a moment, or once a flag is set. Work that may take longer than a part of a second polls it.
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
  // Throws if it has ended, "interrupted WHERE" (exit code 130) or "the time limit passed WHERE" (5).
  void poll(const char* where) const {
    if (ended()) give_up(where);
  }
  // Seconds until the deadline, not below 0; none without one.
  std::optional<double> left() const;
  // A watch that ends once this fraction of the remaining time has passed.
  Watch share(double of_time) const;

  [[noreturn]] void give_up(const char* where) const;
};

// Polls in loops of short steps: once in so many steps.
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
