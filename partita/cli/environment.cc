// Reports plainly what the machine refuses to a command.
#include "partita/cli/environment.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>

#include "partita/base/error.h"
#include "partita/base/interrupt.h"
#include "partita/base/tell.h"

namespace partita {
namespace {

constexpr std::string_view kTooLittleMemory = "partita: this machine has too little memory for that\n";

}  // namespace

void begin_program() {
  // A file that the program opens must not become its standard error. Closed descriptors stay unreadable and
  // unwritable.
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(standard, F_GETFD) < 0) (void)open("/", O_RDONLY | O_DIRECTORY);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit (ulimit -f) is then an error of the write
  // So is output to a reader that has gone. Caught, and not ignored: programs that this one starts have their own
  // default.
  struct sigaction before {};
  if (sigaction(SIGPIPE, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) std::signal(SIGPIPE, [](int) {});
  end_on_signals();
}

[[noreturn]] void end_without_memory() {
  std::signal(SIGPIPE, SIG_IGN);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kTooLittleMemory.data(), kTooLittleMemory.size());
  _exit(static_cast<int>(ExitCode::kInfeasible));
}

namespace {

int output_failed(const char* reason) {
  tell("partita: standard output cannot be written: {}", reason);
  return static_cast<int>(ExitCode::kBadInput);
}

}  // namespace

int report_error(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    tell("partita: {}", error.what());
    return static_cast<int>(known->code());
  }
  if (dynamic_cast<const std::bad_alloc*>(&error)) end_without_memory();
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    if (std::ferror(stdout)) {
      std::clearerr(stdout);  // it is said once
      return output_failed(std::strerror(system->code().value()));
    }
    if (system->code() == std::errc::resource_unavailable_try_again) {
      tell("partita: this machine gives no further thread; end other programs, or raise the limit (ulimit -u)");
      return static_cast<int>(ExitCode::kInfeasible);
    }
  }
  tell("partita: internal error: {}\nPlease report this, with the command line.", error.what());
  return static_cast<int>(ExitCode::kBug);
}

int finish_output(int code) {
  const bool failed_before = std::ferror(stdout) != 0;
  const bool fails = std::fflush(stdout) != 0;
  if (!fails && !failed_before) return code;
  const int failure = output_failed(fails ? std::strerror(errno) : "an earlier write failed");
  return code == 0 ? failure : code;
}

}  // namespace partita
