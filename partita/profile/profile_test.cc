// Tests that profile files read back the same, and tests estimates and curves through points.
#include "partita/profile/profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"

namespace partita {
namespace {

MeasuredKernel product(int64_t m, int64_t n, int64_t k, double us, const std::string& definition = "matmul") {
  MeasuredKernel kernel;
  kernel.id.definition = definition;
  kernel.id.form = "0123456789abcdef";
  kernel.id.indices = {{"i", m}, {"j", n}, {"k", k}};
  kernel.id.operands = {
      {"a", DType::kFloat32, m * k, false}, {"b", DType::kFloat32, k * n, false}, {"c", DType::kFloat32, m * n, true}};
  kernel.flops = 2.0 * static_cast<double>(m * n * k);
  kernel.bytes = 4.0 * static_cast<double>(m * k + k * n + m * n);
  kernel.time = {us, us / 10, 20, us * 1.25, us * 1.5, 0, us * 2};
  return kernel;
}

Profile example() {
  Profile profile;
  profile.device = "core";
  profile.machine = {.name = "a processor",
                     .engine = "an engine",
                     .cores = 2,
                     .cache_bytes = 1 << 21,
                     .shared_cache_bytes = 1 << 26,
                     .task_us = 1.5,
                     .message_us = 12};
  profile.add(product(32, 64, 64, 21));
  MeasuredKernel other = product(64, 64, 64, 40);
  other.how = "einsum";
  profile.add(other);
  profile.curves[{"all-reduce", 2}] =
      fit_curve({{1024, {.us = 6, .spread_us = 1, .runs = 9}, 0}, {4096, {.us = 9, .spread_us = 1, .runs = 9}, 0}});
  return profile;
}

TEST(Profiles, AreReadAsTheyWereWritten) {
  const Profile profile = example();
  const Profile again = parse_profile(print(profile), "p.json");
  EXPECT_EQ(print(again), print(profile));
  EXPECT_EQ(again.kernels(), profile.kernels());
  EXPECT_EQ(again.machine, profile.machine);
  EXPECT_EQ(again.curves, profile.curves);
}

TEST(Profiles, NameWhatIsWrongWithAFile) {
  const std::string text = print(example());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    return error_of([&] { parse_profile(changed, "p.json"); });
  };
  EXPECT_EQ(with("\"schema_version\": 1", "\"schema_version\": 7"),
            "p.json: schema_version is 7; this program reads 1");
  EXPECT_EQ(with("\"us\":21.0", "\"us\":-1"), "p.json: kernel 1: us is -1; it is from 0.001 to 1e+09");
  EXPECT_EQ(with("\"us\":21.0", "\"us\":1e308"), "p.json: kernel 1: us is 1e+308; it is from 0.001 to 1e+09");
  EXPECT_EQ(with("\"us\":21.0", "\"us\":1e-30"), "p.json: kernel 1: us is 1e-30; it is from 0.001 to 1e+09");
  EXPECT_EQ(with("\"together_us\":26.25", "\"mean_us\":10"),
            "p.json: kernel 1: mean_us is 10; the mean is no less than half of the median, us 21");
  EXPECT_EQ(with("\"together_us\":26.25", "\"together_us\":1e300"),
            "p.json: kernel 1: together_us is 1e+300; it is from 0 to 1e+09");
  EXPECT_EQ(with("\"task_us\":1.5", "\"task_us\":1e300"), "p.json: machine: task_us is 1e+300; it is from 0 to 1e+09");
  EXPECT_EQ(with("\"points\":[{\"bytes\":1024.0,\"us\":6.0", "\"points\":[{\"bytes\":1024.0,\"us\":-6"),
            "p.json: curve 1: point 1: us is -6; it is from 0.001 to 1e+09");
  EXPECT_NE(with("[\"a\",\"float32\"", "[\"a\",\"fp7\"").find("p.json: kernel 1: unknown dtype 'fp7'"),
            std::string::npos);
  EXPECT_EQ(with("\"float32\",2048,", "\"float32\",-2048,"), "p.json: kernel 1: an operand has -2048 elements");
  EXPECT_NE(with("[\"i\",32]", "[\"i\",-32]").find("an index is [name, extent]"), std::string::npos);
  EXPECT_NE(with("\"of\":\"all-reduce\"", "\"of\":\"foo\"").find("p.json: curve 1: 'foo' is no kind of curve"),
            std::string::npos);
  EXPECT_NE(with("\"devices\":2", "\"devices\":-1").find("p.json: curve 1: all-reduce for -1 devices"),
            std::string::npos);
  EXPECT_EQ(error_of([] {
              parse_profile(R"({"schema_version": 1, "device": "core", "machine": {"name": "a", "engine": "b"},
                                "kernels": {}})",
                            "p.json");
            }),
            "p.json: kernels is a list, not object");
  EXPECT_NE(with("\"us\":21.0", "\"us\":\"fast\"").find("'us' has the wrong type"), std::string::npos);
  EXPECT_NE(with("[\"i\",32]", "[\"i\"]").find("an index is [name, extent]"), std::string::npos);
  EXPECT_NE(with("\"read\"", "\"red\"").find("an operand is [tensor, dtype, elements, read or written]"),
            std::string::npos);
  EXPECT_EQ(with("\"points\":[{\"bytes\":1024.0", "\"points\":[{\"bytes\":0"),
            "p.json: curve 1: point 1: bytes is 0; it is from 1 to 9.0072e+15");
  EXPECT_NE(with("\"kernels\"", "\"kernel\"").find("'kernels' is missing"), std::string::npos);
}

TEST(Profiles, TakeWhatOthersHaveAndTheyLack) {
  Profile profile = example(), other = example();
  profile.machine.task_us = 0;
  other.add(product(32, 64, 64, 99));
  other.add(product(128, 64, 64, 80));
  other.curves[{"all-reduce", 2}] = fit_curve({{4096, {.us = 99, .runs = 1}, 0}, {16384, {.us = 20, .runs = 1}, 0}});
  other.curves[{"copy", 0}] = fit_curve({{1024, {.us = 2, .runs = 1}, 0}});
  merge(profile, other);
  EXPECT_EQ(profile.kernels().size(), 3u);
  EXPECT_EQ(profile.find(product(32, 64, 64, 0).id)->time.us, 21);  // its own
  EXPECT_EQ(profile.find(product(128, 64, 64, 0).id)->time.us, 80);
  const Curve& curve = profile.curves.at({"all-reduce", 2});
  ASSERT_EQ(curve.points.size(), 3u);
  EXPECT_EQ(curve.points[1].time.us, 9);
  EXPECT_EQ(curve.points[2].time.us, 20);
  EXPECT_EQ(profile.curves.at({"copy", 0}), other.curves.at({"copy", 0}));
  EXPECT_EQ(profile.machine.task_us, 1.5);
}

TEST(Profiles, TellWhatWasMeasured) {
  const Profile profile = example();
  const MeasuredKernel known = product(32, 64, 64, 0);
  const auto time = profile.kernel(known.id, known.flops, known.bytes);
  ASSERT_TRUE(time);
  EXPECT_EQ(time->us, 21);
  EXPECT_EQ(time->together, 1.25);
  EXPECT_EQ(time->cold_us, 31.5);
  EXPECT_EQ(time->far_us, 42);
  EXPECT_FALSE(time->estimated);
}

// Times of a machine of 50 GFLOP/s, 10 GB/s and 2 us a kernel, with a loss from its tiles of 32: estimates of left-out
// sizes are near.
TEST(Profiles, EstimateWhatWasNot) {
  const auto us = [](int64_t m, int64_t n, int64_t k) {
    const auto tiles = [](int64_t x) { return 32.0 * std::ceil(static_cast<double>(x) / 32); };
    return 2 + std::max(2 * tiles(m) * tiles(n) * static_cast<double>(k) / 50e3,
                        4.0 * static_cast<double>(m * k + k * n + m * n) / 10e3);
  };
  constexpr uint64_t kSeed = 35;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const auto size = [&] { return int64_t{1} << (4 + rng.below(6)); };
  Profile profile;
  for (int i = 0; i < 60; ++i) {
    const int64_t m = size(), n = size(), k = size();
    profile.add(product(m, n, k, us(m, n, k)));
  }
  double worst = 0, sum = 0;
  constexpr int kHeldOut = 40;
  for (int i = 0; i < kHeldOut; ++i) {
    const int64_t m = size() + 8, n = size(), k = size();
    const MeasuredKernel asked = product(m, n, k, 0);
    const auto time = profile.kernel(asked.id, asked.flops, asked.bytes);
    ASSERT_TRUE(time && time->estimated);
    const double error = std::abs(std::log(time->us / us(m, n, k)));
    worst = std::max(worst, error), sum += error;
  }
  EXPECT_LT(sum / kHeldOut, 0.35);
  EXPECT_LT(worst, 1.1);
  const HeldOut test = held_out(profile);
  EXPECT_GT(test.kernels, 20);
  EXPECT_LT(test.median_error, 0.3);
}

TEST(Profiles, EstimateFromOthersWhereADefinitionIsUnknown) {
  const MeasuredKernel asked = product(32, 64, 64, 0, "unheard_of");
  const auto time = example().kernel(asked.id, asked.flops, asked.bytes);
  ASSERT_TRUE(time);
  EXPECT_TRUE(time->estimated);
  EXPECT_GT(time->us, 10);
  EXPECT_LT(time->us, 45);
  EXPECT_FALSE(Profile().kernel(asked.id, asked.flops, asked.bytes));
}

TEST(Profiles, KeepKindsApart) {
  const KernelId id = product(32, 64, 64, 0).id;
  KernelId other = id;
  other.first_stage = 1, other.last_stage = 2;
  EXPECT_NE(id.family(), other.family());
  other = id;
  other.operands[0].dtype = DType::kBFloat16;
  EXPECT_NE(id.family(), other.family());
  other = id;
  other.indices[0].second = 33;
  EXPECT_EQ(id.family(), other.family());
  EXPECT_NE(id.key(), other.key());
}

TEST(Curves, GoThroughTheirPoints) {
  std::vector<Curve::Point> points;
  for (double bytes = 1024; bytes < 1e8; bytes *= 4) points.push_back({bytes, {.us = 5 + bytes / 2000, .runs = 5}, 0});
  const Curve line = fit_curve(points);
  EXPECT_NEAR(line.latency_us, 5, 1e-6);
  EXPECT_NEAR(line.us_per_byte, 1.0 / 2000, 1e-9);
  EXPECT_NEAR(line.r2, 1, 1e-9);
  EXPECT_NEAR(line.us(10000), 10, 1e-6);
  EXPECT_NEAR(line.us(1e9), 5 + 1e9 / 2000, 1);
  points.back().time.us *= 2;  // a cache's end
  const Curve bent = fit_curve(points);
  EXPECT_LT(bent.r2, 1);
  EXPECT_NEAR(bent.us(points.back().bytes), points.back().time.us, 1e-3);
}

TEST(Curves, AreLinesThroughShortTimesToo) {
  const auto point = [](double bytes) { return Curve::Point{bytes, {.us = 0.01 + bytes / 1e4, .runs = 5}, 0}; };
  const Curve line = fit_curve({point(10), point(100), point(1000), point(100000)});
  EXPECT_NEAR(line.latency_us, 0.01, 1e-9);
  EXPECT_NEAR(line.us_per_byte, 1e-4, 1e-12);
}

TEST(Curves, DoNotFall) {
  const auto point = [](double bytes, double us) { return Curve::Point{bytes, {.us = us, .runs = 5}, 0}; };
  const Curve curve = fit_curve({point(1000, 30), point(2000, 10), point(4000, 20), point(8000, 60)});
  EXPECT_NEAR(curve.us(1000), 20, 1e-9);
  EXPECT_NEAR(curve.us(4000), 20, 1e-9);
  EXPECT_NEAR(curve.us(8000), 60, 1e-9);
}

TEST(Curves, OfOnePointAreInProportionOrConstant) {
  const Curve line = fit_curve({{1000, {.us = 10, .runs = 3}, 0}});
  EXPECT_NEAR(line.us(1000), 10, 1e-9);
  EXPECT_GE(line.latency_us, 0);
  EXPECT_GE(line.us_per_byte, 0);
}

}  // namespace
}  // namespace partita
