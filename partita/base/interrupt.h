// What SIGINT (Ctrl-C), SIGTERM and SIGHUP do: they ask the program to end.
#pragma once
#include <atomic>
#include <string>

namespace partita {

// One of them has come while a CatchInterrupt lived.
extern std::atomic<bool> interrupted;

// From now on each of them ends the program at once: one line on standard error, exit code 130. SIGHUP stays ignored if
// it is so (nohup).
void end_on_signals();

// While one lives, the first signal only sets `interrupted`: what runs polls it, ends early and keeps what it has. The
// next one ends the program at once. One may live inside another.
class CatchInterrupt {
 public:
  CatchInterrupt();
  ~CatchInterrupt();
  CatchInterrupt(const CatchInterrupt&) = delete;
  CatchInterrupt& operator=(const CatchInterrupt&) = delete;
};

// While one lives, as for a file that is to be whole, a signal waits: if no CatchInterrupt lives, it ends the program
// afterwards.
class DelayInterrupt {
 public:
  DelayInterrupt();
  ~DelayInterrupt();
  DelayInterrupt(const DelayInterrupt&) = delete;
  DelayInterrupt& operator=(const DelayInterrupt&) = delete;

 private:
  bool before_;  // `interrupted` then
};

// A file that is removed if a signal ends the program while this lives. One at a time; of several, the first is.
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
