// What the machine may refuse to a command, said plainly.
#include "partita/cli/environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>

#include "partita/base/error.h"

namespace partita {
namespace {

constexpr std::string_view kTooLittleMemory = "partita: this machine has too little memory for that\n";

}  // namespace

[[noreturn]] void end_without_memory() {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kTooLittleMemory.data(), kTooLittleMemory.size());
  _exit(static_cast<int>(ExitCode::kInfeasible));
}

namespace {

int output_failed(const char* reason) {
  std::fprintf(stderr, "partita: standard output cannot be written: %s\n", reason);
  return static_cast<int>(ExitCode::kBadInput);
}

}  // namespace

int report_error(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    std::fprintf(stderr, "partita: %s\n", error.what());
    return static_cast<int>(known->code());
  }
  if (dynamic_cast<const std::bad_alloc*>(&error)) end_without_memory();
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    if (std::ferror(stdout)) {
      std::clearerr(stdout);  // it is said once
      return output_failed(std::strerror(system->code().value()));
    }
    if (system->code() == std::errc::resource_unavailable_try_again) {
      std::fprintf(
          stderr,
          "partita: this machine gives no further thread; end other programs, or raise the limit (ulimit -u)\n");
      return static_cast<int>(ExitCode::kInfeasible);
    }
  }
  std::fprintf(stderr, "partita: internal error: %s\nPlease report this, with the command line.\n", error.what());
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
