// Tests the dealing of cores to devices.
#include "partita/runtime/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace partita {
namespace {

TEST(Affinity, CoresAreDealtOutWhereThereAreEnough) {
  const std::vector<int> cores = {0, 2, 4, 6, 8};
  EXPECT_EQ(cores_of(cores, 0, 2), (std::vector<int>{0, 2}));
  EXPECT_EQ(cores_of(cores, 1, 2), (std::vector<int>{4, 6, 8}));
  EXPECT_EQ(cores_of(cores, 4, 5), (std::vector<int>{8}));
  EXPECT_EQ(cores_of(cores, 0, 6), std::vector<int>());  // too few: anywhere
  EXPECT_EQ(cores_of(cores, 2, 2), std::vector<int>());  // a host
  EXPECT_EQ(cores_of({}, 0, 1), std::vector<int>());
}

TEST(Affinity, AThreadStaysWhereItIsTold) {
  const std::vector<int> all = usable_cores();
  ASSERT_FALSE(all.empty());
  std::vector<int> seen;
  std::thread([&] {
    set_affinity({all.back()});
    seen = usable_cores();
    set_affinity({});
    EXPECT_EQ(usable_cores(), seen);
  }).join();
  EXPECT_EQ(seen, (std::vector<int>{all.back()}));
  EXPECT_EQ(usable_cores(), all);
}

}  // namespace
}  // namespace partita
