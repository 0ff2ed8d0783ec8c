// Errors become failures by their type, and are thrown on as they were.
#include "partita/base/attempt.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

std::optional<Failure> failure_of_code(ExitCode code) {
  return attempt([&]() -> int { throw Error(code, "why"); }).failure;
}

TEST(Attempt, ReadsTheTypeOfAnError) {
  EXPECT_EQ(attempt([] { return 3; }).result, 3);
  EXPECT_EQ(attempt([] { return 3; }).failure, std::nullopt);
  EXPECT_EQ(failure_of_code(ExitCode::kInfeasible), Failure::kDoesNotFit);
  EXPECT_EQ(failure_of_code(ExitCode::kBadInput), Failure::kBadInput);
  EXPECT_EQ(failure_of_code(ExitCode::kUsage), Failure::kUsage);
  EXPECT_EQ(failure_of_code(ExitCode::kTimeLimit), Failure::kEnded);
  EXPECT_EQ(failure_of_code(ExitCode::kInterrupted), Failure::kEnded);
  EXPECT_THROW(failure_of_code(ExitCode::kBug), Error);
}

TEST(Attempt, ThrowsTheSameErrorOn) {
  const auto made = attempt([]() -> int { throw DoesNotApply("2 samples for 4 devices"); });
  EXPECT_EQ(made.failure, Failure::kDoesNotApply);
  EXPECT_EQ(made.message, "2 samples for 4 devices");
  EXPECT_THROW(made.rethrow(), DoesNotApply);
}

}  // namespace
}  // namespace partita
