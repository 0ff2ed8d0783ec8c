// Ctrl-C while something runs: it ends early and keeps what it has.
#pragma once
#include <atomic>
#include <csignal>

namespace partita {

inline std::atomic<bool> interrupted{false};

// While it lives Ctrl-C sets `interrupted`; a second Ctrl-C ends the program at once.
class CatchInterrupt {
 public:
  CatchInterrupt() {
    std::signal(SIGINT, [](int) {
      interrupted = true;
      std::signal(SIGINT, SIG_DFL);
    });
  }
  ~CatchInterrupt() { std::signal(SIGINT, SIG_DFL); }
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;
};

}  // namespace partita
