// Ctrl-C, or a polite request to end (SIGTERM), while something runs: it ends early and keeps what it has.
#pragma once
#include <atomic>
#include <csignal>

namespace partita {

inline std::atomic<bool> interrupted{false};

// While it lives either signal sets `interrupted`; a second one ends the program at once. One may live inside another.
class CatchInterrupt {
 public:
  CatchInterrupt() {
    for (int k = 0; k < 2; ++k)
      before_[k] = std::signal(kSignals[k], [](int) {
        interrupted = true;
        for (int signal : kSignals) std::signal(signal, SIG_DFL);
      });
  }
  ~CatchInterrupt() {
    for (int k = 0; k < 2; ++k) std::signal(kSignals[k], interrupted ? SIG_DFL : before_[k]);
  }
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  void (*before_[2])(int) = {SIG_DFL, SIG_DFL};
};

}  // namespace partita
