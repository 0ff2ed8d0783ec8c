// Tests the figures made of the times that probes see.
#include "partita/measure/probes.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(Probes, ACollectiveTakesNoLessThanItsQuickestParticipant) {
  // The middle halves: 50 to 70, and 10.
  EXPECT_DOUBLE_EQ(time_of({{-9, 50, 60, 70, 70, 900}, {10, 10, 10, 10, 10, 10}}).us, 62.5);
  // Messages were slow when they were measured.
  EXPECT_DOUBLE_EQ(time_of({{-90, -40, -40, 5}, {12, 20, 22, 300}}).us, 21);
}

}  // namespace
}  // namespace partita
