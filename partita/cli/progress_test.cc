// Tests the lines printed while a search runs.
#include "partita/cli/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace partita {
namespace {

using std::chrono::milliseconds;

// A line is printed once; after a silence it is repeated as still going on.
TEST(StatusLines, SaysInASilenceWhatIsGoingOn) {
  testing::internal::CaptureStderr();
  {
    StatusLines told(0.5);
    told("auto: tofu");
    std::this_thread::sleep_for(milliseconds(2600));
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(" s  auto: tofu\n"), std::string::npos) << said;
  EXPECT_NE(said.find(" s  still: auto: tofu (for "), std::string::npos) << said;
  EXPECT_NE(said.find("B of memory)\n"), std::string::npos) << said;
}

// Prints nothing if nothing is going on, or something else was printed.
TEST(StatusLines, IsSilentBesideOtherLines) {
  testing::internal::CaptureStderr();
  {
    StatusLines none(0.5);
    std::this_thread::sleep_for(milliseconds(1300));
    StatusLines told(100);
    told("auto: tofu");
    ProgressLines lines(
        "cost", [](const solver::Wide&) { return std::string("1"); }, &told);
    lines(solver::Wide(1), std::nullopt);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(" s  cost 1  bound -  gap -\n"), std::string::npos) << said;
  EXPECT_EQ(said.find("still"), std::string::npos) << said;
}

}  // namespace
}  // namespace partita
