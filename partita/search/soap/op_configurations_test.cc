// Tests Table 1 of FlexFlow, and the set of configurations against all lists of degrees and devices.
#include "partita/search/soap/op_configurations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>

#include "partita/base/error.h"

namespace partita {
namespace {

// "n: sample, o: parameter": the indices longer than 1 that can be split, in alphabetical order.
std::string classes(const tdl::Bound& bound) {
  const std::vector<SoapDimension> dimensions = soap_dimensions(bound);
  std::set<std::string> texts;
  for (size_t i = 0; i < dimensions.size(); ++i)
    if (dimensions[i] != SoapDimension::kContracted && dimensions[i] != SoapDimension::kWhole &&
        bound.indices[i].extent > 1)
      texts.insert(fmt::format("{}: {}", bound.indices[i].name, name_of(dimensions[i])));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// FlexFlow, Table 1, with any names of indices.
TEST(Soap, ClassesAreThoseOfTable1) {
  EXPECT_EQ(classes(tdl::bind("pool1(x)[n, c, z] where z < 4, t < 2 = max(t) x[n, c, 2*z + t]", {{4, 3, 8}})),
            "c: attribute, n: sample, z: attribute");
  EXPECT_EQ(
      classes(tdl::bind("pool2(x)[n, c, y, z] where y < 4, z < 4, r < 2, t < 2 = max(r, t) x[n, c, 2*y + r, 2*z + t]",
                        {{4, 3, 8, 8}})),
      "c: attribute, n: sample, y: attribute, z: attribute");
  const char* conv1 = "conv1(x, w)[n, o, z] where z < 6, t < 3 = sum(c, t) x[n, c, z + t] * w[o, c, t]";
  EXPECT_EQ(classes(tdl::bind(conv1, {{4, 3, 8}, {5, 3, 3}})), "n: sample, o: parameter, z: attribute");
  const char* conv2 = "conv2(x, w)[n, o, y, z] where y < 6, z < 6 = sum(c, r, t) x[n, c, y + r, z + t] * w[o, c, r, t]";
  EXPECT_EQ(classes(tdl::bind(conv2, {{4, 3, 8, 8}, {5, 3, 3, 3}})),
            "n: sample, o: parameter, y: attribute, z: attribute");
  // The same as an image of one row.
  EXPECT_EQ(classes(tdl::bind("conv(x, w)[n, o, y, z] where y < 1, z < 6 = "
                              "sum(c, r, t) x[n, c, y + r, z + t] * w[o, c, r, t]",
                              {{4, 3, 1, 8}, {5, 3, 1, 3}})),
            "n: sample, o: parameter, z: attribute");
  EXPECT_EQ(classes(tdl::bind("product(a, b)[i, j] = sum(k) a[i, k] * b[k, j]", {{4, 3}, {3, 5}})),
            "i: sample, j: parameter");
  EXPECT_EQ(classes(tdl::bind("product(n, o)[y, k] = sum(z) n[y, z] * o[k, z]", {{4, 3}, {5, 3}})),
            "k: parameter, y: sample");
}

TEST(Soap, WhatFollowsFromOperands) {
  // Two activations have no weight; rows of a table are named by samples.
  EXPECT_EQ(classes(tdl::bind("scores(a, b)[n, i, j] = sum(k) a[n, i, k] * b[n, j, k]", {{4, 3, 2}, {4, 5, 2}})),
            "i: attribute, j: attribute, n: sample");
  EXPECT_EQ(classes(tdl::bind("embedding(x, ids)[n, s, k] = x[v = ids[n, s], k]", {{7, 3}, {4, 5}})),
            "k: parameter, n: sample, s: attribute");
  const tdl::Bound sum = tdl::bind("loss(x)[] = sum(n, j) x[n, j]", {{4, 3}});
  EXPECT_EQ(soap_dimensions(sum), (std::vector<SoapDimension>{SoapDimension::kContracted, SoapDimension::kContracted}));
}

TEST(Soap, DimensionsHaveNames) {
  EXPECT_TRUE(parse_soap_dimensions("soap").operation);
  EXPECT_FALSE(parse_soap_dimensions("sap").operation);
  EXPECT_TRUE(parse_soap_dimensions("sap").contains(SoapDimension::kAttribute));
  EXPECT_FALSE(parse_soap_dimensions("o").contains(SoapDimension::kSample));
  EXPECT_FALSE(parse_soap_dimensions("p").contains(SoapDimension::kAttribute));
  for (const char* wrong : {"", "a", "so", "paos", "soapy"}) EXPECT_THROW(parse_soap_dimensions(wrong), Error) << wrong;
}

// ---------------------------------------------------------------- the set

std::vector<DeviceId> devices_of(int n) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < n; ++d) devices.push_back(DeviceId(d));
  return devices;
}

// An op with indices of these extents, all of which can be split.
tdl::Bound copy_of(const Shape& shape) { return tdl::bind("copy(x)[..i] = x[..i]", {shape}); }

SoapSet set_of(const Shape& shape, int n, bool operation = true) {
  std::vector<int> indices(shape.size());
  std::iota(indices.begin(), indices.end(), 0);
  return soap_set(copy_of(shape), indices, std::vector<bool>(shape.size(), true), devices_of(n), operation);
}

// Calls f(list) for every list of `length` numbers in [first, first + count).
template <typename F>
void for_each_list(size_t length, int first, int count, const F& f) {
  std::vector<int> list(length, first);
  while (true) {
    f(list);
    size_t at = length;
    while (at > 0 && ++list[at - 1] == first + count) list[--at] = first;
    if (at == 0) return;
  }
}

// Neighbours that begin at a multiple of their number; or all devices at one place modulo the distance, whose number
// times the distance is n.
bool is_block(const std::vector<int>& list, int n) {
  const int p = static_cast<int>(list.size()), step = p > 1 ? list[1] - list[0] : 1;
  for (int r = 1; r < p; ++r)
    if (list[static_cast<size_t>(r)] - list[static_cast<size_t>(r) - 1] != step) return false;
  return n % p == 0 && ((step == 1 && list[0] % p == 0) || (step * p == n && list[0] < step));
}

// All lists of degrees, with all lists of devices.
std::set<SoapConfiguration> brute_force(const Shape& shape, int n) {
  std::set<SoapConfiguration> all;
  for_each_list(shape.size(), 1, n, [&](const std::vector<int>& degrees) {
    int parts = 1;
    for (size_t d = 0; d < degrees.size(); ++d) {
      if (shape[d] % degrees[d] != 0) return;
      parts *= degrees[d];
    }
    if (parts > n) return;
    for_each_list(static_cast<size_t>(parts), 0, n, [&](const std::vector<int>& list) {
      if (!std::ranges::is_sorted(list) || !is_block(list, n)) return;
      SoapConfiguration c{degrees, {}};
      for (const int d : list) c.devices.push_back(DeviceId(d));
      all.insert(c);
    });
  });
  return all;
}

TEST(Soap, SetIsThatOfBruteForce) {
  for (const Shape& shape : {Shape{}, Shape{6}, Shape{8, 12}, Shape{3, 4, 5}, Shape{6, 6, 6}})
    for (int n = 1; n <= 6; ++n) {
      const SoapSet set = set_of(shape, n);
      std::set<SoapConfiguration> mine;
      for (int64_t i = 0; i < set.size(); ++i) EXPECT_TRUE(mine.insert(set.at(i)).second) << "twice";
      EXPECT_EQ(mine, brute_force(shape, n)) << fmt::format("{} on {} devices", fmt::join(shape, "x"), n);
    }
}

TEST(Soap, SetHasSoManyConfigurations) {
  std::printf("configurations of ops with so many indices, whose extents all counts divide\ndevices");
  for (int m = 0; m <= 4; ++m) std::printf("%8d", m);
  std::printf("\n");
  std::map<std::pair<int, int>, int64_t> sizes;
  for (const int n : {2, 4, 8, 16, 64}) {
    std::printf("%7d", n);
    for (int m = 0; m <= 4; ++m) {
      const int64_t size = sizes[{n, m}] = set_of(Shape(static_cast<size_t>(m), 64), n).size();
      std::printf("%8lld", static_cast<long long>(size));
    }
    std::printf("\n");
  }
  EXPECT_EQ((sizes[{8, 0}]), 8);
  EXPECT_EQ((sizes[{8, 1}]), 8 + 8 + 4 + 1);
  EXPECT_EQ((sizes[{8, 2}]), 8 + 2 * 8 + 3 * 4 + 4 * 1);
  EXPECT_EQ((sizes[{8, 3}]), 66);  // 8 + 3 * 8 + 6 * 4 + 10 * 1
  EXPECT_EQ((sizes[{4, 3}]), 4 + 3 * 4 + 6 * 1);
}

TEST(Soap, OpsShareDevicesWithoutTheOperationDimension) {
  const SoapSet set = set_of({8, 6}, 4, false);
  EXPECT_EQ(set.size(), 5);  // 1x1, 1x2, 2x1, 2x2, 4x1
  for (int64_t i = 0; i < set.size(); ++i) {
    const SoapConfiguration c = set.at(i);
    for (size_t r = 0; r < c.devices.size(); ++r) EXPECT_EQ(c.devices[r], DeviceId(r));
  }
  // Indices that may not be split stay whole.
  EXPECT_EQ(soap_set(copy_of({8, 6}), {0, 1}, {true, false}, devices_of(4), false).size(), 3);
  EXPECT_EQ(soap_set(copy_of({8, 6}), {0, 1}, {false, false}, devices_of(4), true).size(), 4);
}

// Every configuration comes equally often: chi squared of 66 configurations, 600 draws each, within five deviations.
TEST(Soap, DrawsAreUniform) {
  const SoapSet set = set_of({8, 8, 8}, 8);
  std::map<SoapConfiguration, int> count;
  Rng rng(36);
  const int64_t draws = 600 * set.size();
  for (int64_t i = 0; i < draws; ++i) ++count[set.draw(rng)];
  ASSERT_EQ(static_cast<int64_t>(count.size()), set.size());
  double chi = 0;
  for (const auto& [c, times] : count) chi += (times - 600.0) * (times - 600.0) / 600;
  const double freedom = static_cast<double>(set.size() - 1);
  EXPECT_LT(std::abs(chi - freedom), 5 * std::sqrt(2 * freedom)) << "seed 36";
}

// A split that the formula does not have is in no configuration: each shard would need the others' results.
TEST(Soap, OnlySplitsThatExist) {
  const tdl::Bound both = tdl::bind("diagonal(x)[i] = x[i, i]", {{8, 8}});
  const SoapSet set = soap_set(both, {0}, {true}, devices_of(4), true);
  for (const std::vector<int>& degrees : set.degrees)
    EXPECT_TRUE(degrees[0] == 1 || tdl::derive(both, degrees, {{{"i"}, {}}}));
}

}  // namespace
}  // namespace partita
