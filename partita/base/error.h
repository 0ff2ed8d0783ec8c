// Defines errors: one exception type that carries the program's exit code (docs/reference/cli.md, "Exit codes").
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace partita {

enum class ExitCode {
  kDone = 0,
  kBug = 1,         // our fault
  kUsage = 2,       // an unknown option or search name
  kBadInput = 3,    // a file, formula, plan or value that is wrong
  kInfeasible = 4,  // no plan fits
  kTimeLimit = 5,   // the time limit came before any solution
  kInterrupted = 130,
};

// The message says what is wrong, where, and what to do; it is printed as it is.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Infeasible (exit code 4) for another reason than memory: too few samples, say. No remedies are searched for.
class DoesNotApply : public Error {
 public:
  explicit DoesNotApply(const std::string& message) : Error(ExitCode::kInfeasible, message) {}
};

// Bad input (exit code 3): `fail("{}: no such tensor", name)`.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::kBadInput, fmt::format(format, std::forward<Args>(args)...));
}

// Our bug (exit code 1) if an invariant of ours does not hold.
template <typename... Args>
void ensure(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw Error(ExitCode::kBug, "internal error: " + fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace partita
