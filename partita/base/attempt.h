// Tries work that may fail, and gives the reason as a value, for callers that then try something else.
//
//   const Attempt<Plan> made = attempt([&] { return plan_of(4); });
//   if (made.failure == Failure::kDoesNotFit) ..
#pragma once
#include <exception>
#include <optional>
#include <string>

#include "partita/base/error.h"

namespace partita {

enum class Failure {
  kDoesNotFit,    // it needs more memory than there is
  kDoesNotApply,  // DoesNotApply: too few samples, say
  kBadInput,
  kUsage,
  kEnded,  // the time was over, or it was interrupted
};

// The failure that an error stands for; none: an error of ours.
inline std::optional<Failure> failure_of(const Error& error) {
  if (dynamic_cast<const DoesNotApply*>(&error)) return Failure::kDoesNotApply;
  switch (error.code()) {
    case ExitCode::kInfeasible:
      return Failure::kDoesNotFit;
    case ExitCode::kBadInput:
      return Failure::kBadInput;
    case ExitCode::kUsage:
      return Failure::kUsage;
    case ExitCode::kTimeLimit:
    case ExitCode::kInterrupted:
      return Failure::kEnded;
    case ExitCode::kBug:
    case ExitCode::kDone:
      return std::nullopt;
  }
  return std::nullopt;
}

// A result, or a failure with its message.
template <typename Result>
struct Attempt {
  std::optional<Result> result;
  std::optional<Failure> failure;
  std::string message;
  std::exception_ptr error;

  [[noreturn]] void rethrow() const { std::rethrow_exception(error); }
};

// Errors of ours are thrown on.
template <typename Work>
auto attempt(const Work& work) -> Attempt<decltype(work())> {
  try {
    return {work(), std::nullopt, "", nullptr};
  } catch (const Error& error) {
    const std::optional<Failure> failure = failure_of(error);
    if (!failure) throw;
    return {std::nullopt, failure, error.what(), std::current_exception()};
  }
}

}  // namespace partita
