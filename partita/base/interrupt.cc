// Handles the signals that ask the program to end.
#include "partita/base/interrupt.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string_view>

#include "partita/base/error.h"

namespace partita {

std::atomic<bool> interrupted{false};

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr std::string_view kLine = "partita: interrupted\n";

std::atomic<int> catching{0};          // CatchInterrupts that live
std::atomic<bool> has_partial{false};  // `partial` is a whole path
std::atomic<bool> partial_taken{false};
std::array<char, 4096> partial;

// Calls only what a signal handler may call, in any thread.
[[noreturn]] void end_now() {
  std::signal(SIGPIPE, SIG_IGN);  // the reader of standard error may have gone
  if (has_partial) unlink(partial.data());
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine.data(), kLine.size());
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

void on_signal(int) {
  if (catching == 0 || interrupted.exchange(true)) end_now();
}

}  // namespace

void end_on_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaddset(&action.sa_mask, signal);
  for (const int signal : kSignals) {
    struct sigaction before {};
    if (signal == SIGHUP && sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(signal, &action, nullptr);
  }
}

CatchInterrupt::CatchInterrupt() {
  ++catching;
  end_on_signals();
}

CatchInterrupt::~CatchInterrupt() { --catching; }

DelayInterrupt::DelayInterrupt() : before_(interrupted) { ++catching; }

DelayInterrupt::~DelayInterrupt() {
  if (--catching == 0 && interrupted && !before_) end_now();
}

RemovedAtEnd::RemovedAtEnd(const std::string& path) {
  if (path.size() >= partial.size() || partial_taken.exchange(true)) return;
  mine_ = true;
  std::memcpy(partial.data(), path.c_str(), path.size() + 1);
  has_partial = true;
}

RemovedAtEnd::~RemovedAtEnd() {
  if (!mine_) return;
  has_partial = false;
  partial_taken = false;
}

}  // namespace partita
