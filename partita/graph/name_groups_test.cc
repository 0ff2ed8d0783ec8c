#include "partita/graph/name_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "partita/base/rng.h"

namespace partita {
namespace {

std::vector<std::string> groups_of(const std::vector<std::string>& names, const std::vector<int>& labels,
                                   size_t most = 100) {
  std::vector<std::string> texts;
  for (const OpNameGroup& g : group_op_names(names, labels, std::vector<double>(names.size(), 1), most)) {
    texts.push_back(g.name + ":");
    for (int m : g.members) texts.back() += " " + std::to_string(m);
  }
  return texts;
}
using Texts = std::vector<std::string>;

TEST(NameGroups, AreOfOneLabelWhereTheyCanBe) {
  EXPECT_EQ(groups_of({"a.0", "a.1", "a.2", "b.x", "b.y"}, {0, 0, 1, 1, 1}),
            (Texts{"a.0 .. a.1: 0 1", "a.2: 2", "b: 3 4"}));
  EXPECT_EQ(
      groups_of({"/m/layers.0/q/MatMul", "/m/layers.0/k/MatMul", "/m/layers.1/q/MatMul", "/m/norm/Add"}, {0, 1, 1, 0}),
      (Texts{"/m/layers.0/q: 0", "/m/layers.0/k: 1", "/m/layers.1: 2", "/m/norm: 3"}));
  EXPECT_EQ(groups_of({"Conv_9", "Conv_10", "Conv_12", "Relu"}, {0, 0, 0, 1}), (Texts{"Conv: 0 1 2", "Relu: 3"}));
  EXPECT_EQ(groups_of({"Conv_9", "Conv_10", "Conv_12", "Conv_13"}, {0, 0, 0, 1}),
            (Texts{"Conv_9 .. Conv_10: 0 1", "Conv_12: 2", "Conv_13: 3"}));
  EXPECT_EQ(groups_of({"b.x", "b.y", "b.z", "b.z.grad"}, {1, 0, 1, 1}), (Texts{"b.x and 1 more: 0 2 3", "b.y: 1"}));
  // A name may be the beginning of another.
  EXPECT_EQ(groups_of({"loss", "loss.grad", "loss.grad.x"}, {0, 1, 1}), (Texts{"loss: 0", "loss.grad: 1 2"}));
  EXPECT_EQ(groups_of({}, {}), Texts{});
}

TEST(NameGroups, AreFew) {
  EXPECT_EQ(groups_of({"a.0", "a.1", "b.0", "b.1"}, {0, 1, 0, 1}, 3), (Texts{"a.0: 0", "a.1: 1", "b: 2 3"}));
  EXPECT_EQ(groups_of({"a", "b", "c", "d"}, {0, 0, 0, 0}, 3), (Texts{"a: 0", "b: 1", "and 2 others: 2 3"}));
}

TEST(NameGroups, HaveEachNameOnce) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::vector<std::string> names;
    std::vector<int> labels;
    std::vector<double> weights;
    const int count = 1 + static_cast<int>(rng.below(60));
    for (int i = 0; i < count; ++i) {
      std::string name;
      for (int part = 1 + static_cast<int>(rng.below(4)); part > 0; --part)
        name += std::string(name.empty()   ? ""
                            : rng.below(2) ? "."
                                           : "/") +
                (rng.below(2) ? std::to_string(rng.below(5)) : std::string(1, static_cast<char>('a' + rng.below(3))));
      names.push_back(name), labels.push_back(static_cast<int>(rng.below(3)));
      weights.push_back(static_cast<double>(rng.below(10)));
    }
    const size_t most = 2 + rng.below(20);
    const std::vector<OpNameGroup> groups = group_op_names(names, labels, weights, most);
    EXPECT_LE(groups.size(), most);
    std::multiset<int> seen;
    for (const OpNameGroup& g : groups) seen.insert(g.members.begin(), g.members.end());
    EXPECT_EQ(seen.size(), names.size());
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), names.size());
  }
}

}  // namespace
}  // namespace partita
