// Handles SIGINT (Ctrl-C), SIGTERM and SIGHUP, which ask the program to end.
#pragma once
#include <atomic>
#include <string>

namespace partita {

// True once such a signal has come while a CatchInterrupt lived.
extern std::atomic<bool> interrupted;

// From now on each of these signals ends the program at once: one line on standard error, exit code 130. SIGHUP stays
// ignored if it was (nohup).
void end_on_signals();

// While one lives, the first signal only sets `interrupted`: running work polls it, ends early and keeps its results.
// The next one ends the program at once. One may live inside another.
class CatchInterrupt {
 public:
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;
};

// While one lives, a signal waits, so that a file becomes whole. If no CatchInterrupt lives, it ends the program
// afterwards.
class DelayInterrupt {
 public:
  DelayInterrupt();
  ~DelayInterrupt();
  DelayInterrupt(const DelayInterrupt&) = delete;
  DelayInterrupt& operator=(const DelayInterrupt&) = delete;

 private:
  bool before_;  // the earlier value of `interrupted`
};

// Removes a file if a signal ends the program while this lives. If several live, the first file is removed.
class RemovedAtEnd {
 public:
  explicit RemovedAtEnd(const std::string& path);
  ~RemovedAtEnd();
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;

 private:
  bool mine_ = false;
};

}  // namespace partita
