// Tests the room: boxes, data types, random numbers, units, files and threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "partita/base/boxes.h"
#include "partita/base/cpu_use.h"
#include "partita/base/dtype.h"
#include "partita/base/error.h"
#include "partita/base/float16.h"
#include "partita/base/machine_memory.h"
#include "partita/base/rng.h"
#include "partita/base/run_async.h"
#include "partita/base/threads.h"
#include "partita/base/tuples.h"
#include "partita/base/units.h"

namespace partita {

struct GivenUpInATest {};

TEST(Cut, PartsCoverTheExtentInOrderAndDifferByAtMostOne) {
  for (int64_t n = 0; n <= 12; ++n)
    for (int64_t p = 1; p <= 8; ++p) {
      int64_t at = 0, least = n, most = 0;
      for (int64_t r = 0; r < p; ++r) {
        Interval part = cut(n, p, r);
        EXPECT_EQ(part.lo, at);
        at = part.hi;
        least = std::min(least, part.size());
        most = std::max(most, part.size());
      }
      EXPECT_EQ(at, n);
      EXPECT_LE(most - least, 1);
    }
}

TEST(Cut, NestedSplitsRefineEachOther) {
  for (int64_t n = 1; n <= 30; ++n)
    for (int64_t r = 0; r < 6; ++r) EXPECT_TRUE(cut(n, 2, r / 3).contains(cut(n, 6, r))) << n << " " << r;
}

TEST(Box, SubtractLeavesDisjointBoxesOfTheRestsVolume) {
  Box a = {{0, 5}, {2, 9}}, b = {{1, 3}, {0, 4}};
  int64_t rest = 0;
  std::vector<Box> parts = subtract(a, b);
  for (size_t i = 0; i < parts.size(); ++i) {
    rest += volume(parts[i]);
    EXPECT_TRUE(is_empty(intersect(parts[i], b)));
    for (size_t j = i + 1; j < parts.size(); ++j) EXPECT_TRUE(is_empty(intersect(parts[i], parts[j])));
  }
  EXPECT_EQ(rest, volume(a) - volume(intersect(a, b)));
  EXPECT_TRUE(subtract({}, {}).empty());
  EXPECT_EQ(to_string(b), "[1,3)x[0,4)");
}

// The elements stay the same, numbered row by row, and there is a box exactly if brute force finds one.
TEST(Box, RegroupedOverOtherAxesHasTheSameElements) {
  const auto numbers = [](const Box& box, const Shape& axes) {
    std::set<int64_t> found;
    for (int64_t n = 0; n < volume(axes); ++n) {
      bool inside = true;
      int64_t rest = n;
      for (size_t a = axes.size(); a-- > 0; rest /= axes[a])
        inside &= box[a].lo <= rest % axes[a] && rest % axes[a] < box[a].hi;
      if (inside) found.insert(n);
    }
    return found;
  };
  const auto is_box = [&](const std::set<int64_t>& elements, const Shape& axes) {
    Box hull(axes.size());
    for (int64_t n : elements)
      for (size_t a = axes.size(); a-- > 0; n /= axes[a])
        hull[a] = partita::hull(hull[a], {n % axes[a], n % axes[a] + 1});
    return volume(hull) == static_cast<int64_t>(elements.size());
  };
  const std::vector<Shape> shapes = {{24},   {4, 6},       {6, 4},  {2, 3, 4}, {2, 12},
                                     {3, 8}, {2, 2, 2, 3}, {1, 24}, {4, 1, 6}, {8, 3, 1}};
  int found = 0, none = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    const Shape &from = shapes[rng.below(shapes.size())], &to = shapes[rng.below(shapes.size())];
    Box box;
    for (int64_t extent : from) {
      const int64_t lo = rng.between(0, extent - 1);
      box.push_back(rng.below(2) ? Interval{0, extent} : Interval{lo, rng.between(lo + 1, extent)});
    }
    const auto elements = numbers(box, from);
    const auto other = reshape_box(box, from, to);
    ASSERT_EQ(other.has_value(), is_box(elements, to)) << "seed " << seed << ": " << to_string(box);
    ASSERT_EQ(linear_range(box, from), (Interval{*elements.begin(), *elements.rbegin() + 1}));
    ASSERT_TRUE(!other || numbers(*other, to) == elements)
        << "seed " << seed << ": " << to_string(box) << " and " << to_string(*other);
    ++(other ? found : none);
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(none, 500);
  EXPECT_EQ(to_string(*reshape_box(Box{{2, 4}}, {8}, {2, 4})), "[0,1)x[2,4)");
}

// A child process counts as another one; this process's own work does not.
TEST(CpuUse, CountsWhatOthersUse) {
  if (!std::ifstream("/proc/stat")) GTEST_SKIP() << "this system does not tell";
  const auto busy = [](int64_t ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  const CpuUse use;
  const pid_t other = fork();
  if (other == 0) {
    busy(400);
    _exit(0);
  }
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_GT(use.others(), 0.2);
}

// Boxes of every position, some of which depend on few of the axes, some on all, and some of which are empty.
std::vector<Box> random_boxes(const std::vector<int>& extents, size_t rank, Rng& rng) {
  size_t positions = 1;
  for (int e : extents) positions *= static_cast<size_t>(e);
  std::vector<Box> boxes(positions, Box(rank));
  for (size_t f = 0; f < rank; ++f) {
    std::vector<int> axes;
    for (size_t a = 0; a < extents.size(); ++a)
      if (rng.below(3) == 0) axes.push_back(static_cast<int>(a));
    std::vector<Interval> along;
    for (size_t i = 0; i < count_on(extents, axes); ++i) {
      const int64_t lo = rng.between(0, 6);
      along.push_back({lo, rng.below(12) ? lo + rng.between(1, 5) : lo});
    }
    for (size_t p = 0; p < positions; ++p) boxes[p][f] = along[coordinate_index(extents, axes, p)];
    std::vector<int> all(extents.size());
    std::iota(all.begin(), all.end(), 0);
    const std::vector<size_t> places = places_on(extents, all, axes);
    for (size_t p = 0; p < positions; ++p) EXPECT_EQ(places[p], coordinate_index(extents, axes, p));
  }
  return boxes;
}

// Boxes kept along each dimension by itself equal a list of boxes.
TEST(Boxes, EqualTheListOfThem) {
  constexpr uint64_t kSeed = 31;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  std::map<std::vector<int>, CommonVolumes> memories;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> extents;
    for (int a = static_cast<int>(rng.between(0, 4)); a > 0; --a)
      extents.push_back(static_cast<int>(rng.between(1, 4)));
    const auto rank = static_cast<size_t>(rng.between(0, 4));
    const std::vector<Box> x = random_boxes(extents, rank, rng), y = random_boxes(extents, rank, rng);
    const Boxes a(extents, x), b(extents, y);
    EXPECT_EQ(a.list(), x);
    ASSERT_EQ(a.size(), x.size());
    EXPECT_EQ(a == b, x == y);
    EXPECT_EQ(a, Boxes(extents, x));
    const std::vector<Box> different = a.different();
    EXPECT_LE(different.size(), x.size());
    for (const Box& box : x) EXPECT_NE(std::find(different.begin(), different.end(), box), different.end());
    for (const Box& box : different) EXPECT_NE(std::find(x.begin(), x.end(), box), x.end());
    EXPECT_EQ(Boxes({static_cast<int>(x.size())}, x), a);  // a mesh of as many positions
    EXPECT_EQ(a.any_empty(), std::any_of(x.begin(), x.end(), [](const Box& box) { return is_empty(box); }));
    std::vector<Box> both, over;
    int64_t total = 0, common = 0;
    bool inside = true;
    for (size_t p = 0; p < x.size(); ++p) {
      both.push_back(hull(x[p], y[p]));
      total += volume(x[p]);
      common += volume(intersect(x[p], y[p]));
      inside = inside && contains(x[p], y[p]);
    }
    const Boxes joined = hull(a, b);
    for (size_t p = 0; p < x.size(); ++p)
      EXPECT_TRUE(joined[p] == both[p] || (is_empty(joined[p]) && is_empty(both[p])));
    EXPECT_EQ(total_volume(a), total);
    EXPECT_EQ(common_volume(a, b), common);
    CommonVolumes& remembers = memories.try_emplace(extents, extents).first->second;
    EXPECT_EQ(remembers.known(a), a);
    EXPECT_EQ(remembers.of(a, b), common);
    EXPECT_EQ(remembers.of(remembers.known(b), a), common);
    EXPECT_EQ(remembers.of(a, a), total);
    EXPECT_EQ(contains(a, b), inside);
    EXPECT_TRUE(contains(joined, a) && contains(joined, b));
  }
}

TEST(Philox, MatchesTheKnownAnswers) {  // Random123's kat_vectors, philox4x32-10
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Rng, TheSameSeedGivesTheSameNumbers) {
  Rng a(7), b(7), c(8);
  uint64_t x = a.next();
  EXPECT_EQ(x, b.next());
  EXPECT_NE(x, c.next());
  for (int i = 0; i < 1000; ++i) EXPECT_LT(a.below(3), 3u);
}

TEST(DType, NamesRoundTripAndUnknownOnesAreBadInput) {
  for (DType d : {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kBool}) EXPECT_EQ(parse_dtype(name_of(d)), d);
  try {
    parse_dtype("int4");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput);
  }
}

// Every number of two bytes is a float32 that reads back the same. Values between two are rounded to the nearer, a tie
// to the even one: both ways to round agree.
template <typename T>
void every_number(DType dtype, uint16_t infinity) {
  auto value = [](uint16_t bits) {
    T t;
    t.bits = bits;
    return static_cast<float>(t);
  };
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t magnitude = bits & 0x7fff;
    const float here = value(static_cast<uint16_t>(bits));
    if (magnitude > infinity) {
      EXPECT_TRUE(std::isnan(here));
      EXPECT_TRUE(std::isnan(static_cast<float>(T(here))));
      continue;
    }
    ASSERT_EQ(T(here).bits, bits) << here;
    ASSERT_EQ(rounded_to(dtype, here), here);
    if (magnitude + 1 >= infinity) continue;
    const double next = value(static_cast<uint16_t>(bits + 1)), middle = (here + next) / 2;
    const double even = bits % 2 == 0 ? here : next;
    ASSERT_EQ(rounded_to(dtype, middle), even) << here;
    const float tie = static_cast<float>(middle);  // holds one more digit unless it is a subnormal float32
    if (tie == middle) {
      ASSERT_EQ(T(tie).bits, bits % 2 == 0 ? bits : bits + 1) << here;
      ASSERT_EQ(static_cast<float>(T(std::nextafter(tie, here))), here);
      ASSERT_EQ(static_cast<float>(T(std::nextafter(tie, static_cast<float>(next)))), next);
    }
    ASSERT_EQ(rounded_to(dtype, std::nextafter(middle, static_cast<double>(here))), here);
    ASSERT_EQ(rounded_to(dtype, std::nextafter(middle, next)), next);
  }
}

TEST(DType, NumbersOfTwoBytes) {
  every_number<Float16>(DType::kFloat16, 0x7c00);
  every_number<BFloat16>(DType::kBFloat16, 0x7f80);
  EXPECT_EQ(static_cast<float>(Float16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(static_cast<float>(Float16(65520.0f))));
  EXPECT_EQ(static_cast<float>(Float16(0x1p-24f)), 0x1p-24f);
  EXPECT_EQ(static_cast<float>(Float16(0x1p-25f)), 0.0f);
  EXPECT_EQ(rounded_to(DType::kFloat16, 65519.0), 65504.0);
  EXPECT_EQ(rounded_to(DType::kFloat16, -65520.0), -INFINITY);
  EXPECT_EQ(rounded_to(DType::kBFloat16, 3.4e38), INFINITY);
  EXPECT_EQ(rounded_to(DType::kFloat32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(epsilon_of(DType::kBFloat16), 0x1p-7);
  EXPECT_EQ(epsilon_of(DType::kFloat16), 0x1p-10);
}

TEST(SharedOut, EachOnceWhateverTheThreads) {
  for (int threads = 1; threads <= 4; ++threads)
    for (size_t count : {0u, 1u, 2u, 3u, 1000u}) {
      std::vector<std::atomic<int>> times(count), by(threads);
      parallel_for(threads, count, [&](size_t i, int thread) { ++times[i], ++by.at(thread); });
      for (const std::atomic<int>& t : times) EXPECT_EQ(t, 1);
      EXPECT_EQ(std::accumulate(by.begin(), by.end(), 0), static_cast<int>(count));
    }
}

TEST(SharedOut, WhatIsThrownEndsItAndArrives) {
  for (int threads = 1; threads <= 3; ++threads) {
    std::atomic<int> begun = 0;
    EXPECT_THROW(parallel_for(threads, 1'000'000,
                              [&](size_t i, int) {
                                ++begun;
                                if (i == 5) throw GivenUpInATest();
                              }),
                 GivenUpInATest);
    EXPECT_LT(begun, 1'000'000);
  }
}

TEST(Units, AmountsOfMemoryAsPeopleWriteThem) {
  const std::map<std::string, int64_t> amounts = {{"80GB", 80'000'000'000},
                                                  {"80 GB", 80'000'000'000},
                                                  {"80g", 80'000'000'000},
                                                  {"80GiB", 80LL << 30},
                                                  {"80Gi", 80LL << 30},
                                                  {"1.5TiB", 3LL << 39},
                                                  {"512MB", 512'000'000},
                                                  {"512m", 512'000'000},
                                                  {"64kB", 64'000},
                                                  {"64KiB", 64 << 10},
                                                  {"12B", 12},
                                                  {"8e10", 80'000'000'000},
                                                  {"900000000000", 900'000'000'000}};
  for (const auto& [text, bytes] : amounts) {
    const auto read = parse_bytes(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->bytes, bytes) << text;
    EXPECT_EQ(read->bare, text == "8e10" || text == "900000000000") << text;
  }
  for (const char* wrong : {"", "GB", "-1GB", "0", "0.1B", "80XB", "80GBs", "80G B", "nan", "inf", "1e30",
                            "9223372036854775808", " 80GB", "80,5GB", "eighty"})
    EXPECT_FALSE(parse_bytes(wrong)) << wrong;
}

// The rounded text names no less than the bytes, and hardly more.
TEST(Units, AnAmountThatIsEnoughIsRoundedUp) {
  const std::map<int64_t, std::string> amounts = {{999, "999 B"},
                                                  {1'000, "1.0 kB"},
                                                  {1'001, "1.1 kB"},
                                                  {40'149, "40.2 kB"},
                                                  {1'070'000, "1.07 MB"},
                                                  {1'070'001, "1.08 MB"},
                                                  {74'081'000'000, "74.09 GB"},
                                                  {74'080'000'000, "74.08 GB"},
                                                  {20'000'000'000'001, "20.01 TB"}};
  for (const auto& [bytes, text] : amounts) {
    EXPECT_EQ(enough_megabytes(static_cast<double>(bytes)), text);
    EXPECT_GE(parse_bytes(text)->bytes, bytes);
  }
}

TEST(Units, TimesHaveThreeDigits) {
  const std::vector<std::pair<double, const char*>> times = {
      {0, "0 ns"},         {12, "12 ns"},       {999.4, "999 ns"},   {1000, "1.00 us"},  {9994, "9.99 us"},
      {9996, "10.0 us"},   {87.7e6, "87.7 ms"}, {99.96e6, "100 ms"}, {1.33e9, "1.33 s"}, {999.4e6, "999 ms"},
      {999.6e6, "1.00 s"}, {163e9, "163 s"},    {12345e9, "12345 s"}};
  for (const auto& [ns, text] : times) EXPECT_EQ(time_text(ns), text) << ns;
}

TEST(Tuples, AllOfFewAndOfManyThoseNearOne) {
  std::set<std::vector<size_t>> seen;
  auto visit = [&](const std::vector<size_t>& at) { EXPECT_TRUE(seen.insert(at).second); };
  for_each_tuple_near({1, 0, 2}, {3, 2, 4}, 24, visit);
  EXPECT_EQ(seen.size(), 23u);
  EXPECT_FALSE(seen.contains({1, 0, 2}));
  seen.clear();
  const std::vector<size_t> here = {0, 1, 2, 0, 1}, counts = {3, 3, 3, 3, 3};
  for_each_tuple_near(here, counts, 100, visit);
  size_t expected = 0;
  for_each_tuple(counts, [&](const std::vector<size_t>& at) {
    int different = 0, changes = 0;
    for (size_t a = 0; a < at.size(); ++a) different += at[a] != here[a], changes += a > 0 && at[a] != at[a - 1];
    const bool near = different > 0 && (different <= 2 || changes <= 1);
    EXPECT_EQ(seen.contains(at), near);
    expected += near;
  });
  EXPECT_EQ(seen.size(), expected);
}

TEST(MachineMemory, IsWhatTheProcessTouches) {
  const int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  ASSERT_GT(available_bytes(), 0);
  constexpr int64_t kBytes = int64_t{64} << 20;
  const std::vector<char> touched(kBytes, 1);
  EXPECT_GT(resident_bytes(), before + kBytes / 2) << touched.back();
}

TEST(MachineMemory, MayRunOutOnThreadsThatAreBegun) {
  EXPECT_FALSE(may_run_out_of_memory());
  const auto seen = [] {
    std::atomic<int> count = 0;
    parallel_for(2, 4, [&](size_t, int) { count += may_run_out_of_memory(); });
    return count + run_async([] { return static_cast<int>(may_run_out_of_memory()); }).get();
  };
  {
    const OutOfMemoryScope guard;
    EXPECT_EQ(seen(), 5);
    const OutOfMemoryScope not_here(false);
    EXPECT_EQ(seen(), 0);
  }
  EXPECT_EQ(seen(), 0);
}

}  // namespace partita
