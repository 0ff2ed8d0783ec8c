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

// Allocates nothing.
[[noreturn]] static void end_without_memory() {
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
      std::fprintf(stderr, "partita: this machine gives no further thread; end other programs, or raise the limit (ulimit -u)\n");
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

// Sanitizers bring their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

void* or_end(void* memory) {
  if (!memory) partita::end_without_memory();
  return memory;
}

std::size_t at_least_one(std::size_t bytes) { return bytes > 0 ? bytes : 1; }

// aligned_alloc takes multiples of the alignment.
void* aligned(std::size_t bytes, std::align_val_t align) {
  const std::size_t unit = static_cast<std::size_t>(align);
  return or_end(std::aligned_alloc(unit, (at_least_one(bytes) + unit - 1) / unit * unit));
}

}  // namespace

void* operator new(std::size_t bytes) { return or_end(std::malloc(at_least_one(bytes))); }
void* operator new[](std::size_t bytes) { return or_end(std::malloc(at_least_one(bytes))); }
void* operator new(std::size_t bytes, std::align_val_t align) { return aligned(bytes, align); }
void* operator new[](std::size_t bytes, std::align_val_t align) { return aligned(bytes, align); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
