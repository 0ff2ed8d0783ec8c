// What the machine may refuse to a command, said plainly.
#include "partita/cli/environment.h"

#include <unistd.h>

#include <algorithm>
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

// A value that a message repeats may be a number of 100,000 digits. Longer than any path that is in use, a word is cut.
std::string with_long_words_cut(std::string_view text) {
  constexpr size_t kLongest = 1000, kKept = 100;
  std::string out;
  while (!text.empty()) {
    const size_t word = std::min(text.find_first_of(" \n"), text.size());
    if (word <= kLongest) out += text.substr(0, word);
    else out += fmt::format("{}..({} characters)", text.substr(0, kKept), word);
    text.remove_prefix(word);
    const size_t space = std::min(text.find_first_not_of(" \n"), text.size());
    out += text.substr(0, space);
    text.remove_prefix(space);
  }
  return out;
}

int output_failed(const char* reason) {
  std::fprintf(stderr, "partita: standard output cannot be written: %s\n", reason);
  return static_cast<int>(ExitCode::kBadInput);
}

}  // namespace

int report_error(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    std::fprintf(stderr, "partita: %s\n", with_long_words_cut(error.what()).c_str());
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
