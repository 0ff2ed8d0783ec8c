// Tests that the explained bytes of another choice are those that the checker counts for the plan with it.
#include "partita/plan/explain.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/factors.h"
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/search/all/search_text.h"

namespace partita {
namespace {

Graph with_factors(const std::string& model) {
  return carry_factors(training(model, {.kind = "adam"}), [](const Op&) { return true; });
}

std::optional<Plan> searched(const std::string& name, const Graph& graph, const Cluster& cluster) try {
  const SearchChoice choice = parse_search(name);
  Rng rng(1);
  return choice.entry->search({.graph = graph, .cluster = cluster, .options = choice.options}, {.steps = 20}, rng).plan;
} catch (const Error&) {
  return std::nullopt;  // it has none for this model
}

int64_t sum(const std::vector<Moved>& moved) {
  int64_t bytes = 0;
  for (const Moved& m : moved) bytes += m.bytes;
  return bytes;
}

// Conversions that appear and go add up to the difference, and the plan with the other choice moves that much more.
void expect_difference(const Difference& d, int64_t now, int64_t then) {
  EXPECT_EQ(d.bytes, then - now);
  EXPECT_EQ(d.bytes, sum(d.more) - sum(d.less) + d.inner_bytes);
}

void expect_the_checkers_differences(const std::vector<const char*>& models, int drawn) {
  constexpr uint64_t kSeed = 21;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  int judged = 0, plans = 0;
  for (const char* model : models) {
    const Graph graph = with_factors(model);
    for (const char* search :
         {"data-parallel", "zero?stage=3", "megatron?tensor=2", "layer-placement", "soybean", "equal-chop", "exact"}) {
      const Cluster cluster = load_cluster("local:4");
      const auto plan = searched(search, graph, cluster);
      if (!plan) continue;
      ++plans;
      SCOPED_TRACE(fmt::format("{} by {}", model, search));
      const int64_t now = check(graph, *plan, cluster).comm_bytes;
      const Resolved resolved = resolve(graph, *plan, cluster);
      Explainer explainer(graph, *plan, resolved, cluster);
      int64_t inside = 0, by_step = 0;
      for (const auto& [step, bytes] : explainer.bytes_by_step()) by_step += bytes;
      for (size_t o = 0; o < graph.ops.size(); ++o) {
        const OpChoice& choice = plan->ops[o];
        const tdl::Bound& bound = *graph.ops[o].bound;
        inside += inner_bytes(bound, *tdl::derive(bound, choice.mesh.extents, choice.strategies), choice.mesh,
                              bytes_of(inner_dtype(graph, graph.ops[o])), cluster);
      }
      EXPECT_EQ(by_step, now);
      EXPECT_EQ(sum(explainer.conversions()) + inside, now);
      for (int i = 0; i < drawn; ++i) {
        const OpId op(rng.below(graph.ops.size()));
        const OpExplanation e = explainer.op(op);
        size_t all = 1, impossible = 0;
        for (int p : plan->ops[op.index()].mesh.extents) all *= tdl::strategies(*graph.op(op).bound, p).size();
        for (const auto& [why, those] : e.impossible) {
          EXPECT_FALSE(why.empty());
          impossible += those.size();
          EXPECT_THROW(check(graph, with(*plan, op, those[rng.below(those.size())]), cluster), Error) << why;
        }
        EXPECT_EQ(e.alternatives.size() + impossible + 1, all) << graph.op(op).name;
        for (size_t a = 1; a < e.alternatives.size(); ++a)
          EXPECT_LE(e.alternatives[a - 1].difference.bytes, e.alternatives[a].difference.bytes);
        for (int k = 0; k < 3 && !e.alternatives.empty(); ++k, ++judged) {
          const OpAlternative& other = e.alternatives[rng.below(e.alternatives.size())];
          SCOPED_TRACE(graph.op(op).name);
          expect_difference(other.difference, now, check(graph, with(*plan, op, other.strategies), cluster).comm_bytes);
        }
        const TensorId tensor(rng.below(graph.tensors.size()));
        const TensorExplanation t = explainer.tensor(tensor);
        for (int k = 0; k < 3 && !t.alternatives.empty(); ++k, ++judged) {
          const TensorAlternative& other = t.alternatives[rng.below(t.alternatives.size())];
          SCOPED_TRACE(graph.tensor(tensor).name);
          expect_difference(other.difference, now, check(graph, with(*plan, t.keeper, other.kept), cluster).comm_bytes);
        }
      }
    }
  }
  std::printf("%d plans, %d alternatives judged\n", plans, judged);
  EXPECT_GT(judged, 5 * plans);
}

TEST(Explain, DifferencesAreTheCheckers) { expect_the_checkers_differences({"mlp?layers=2,width=12,batch=12"}, 3); }
TEST(ManyExplain, DifferencesAreTheCheckers) {
  expect_the_checkers_differences(
      {"lenet?batch=8", "transformer?layers=1,hidden=16,heads=2,steps=4,vocabulary=20,batch=4",
       "rnnlm?steps=2,hidden=8,vocabulary=8,batch=4"},
      4);
}

// On six axes those near the choice are listed, and their bytes are those that the checker counts.
TEST(Explain, OfVeryManyAlternativesThoseNear) {
  constexpr uint64_t kSeed = 5;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  const Graph graph = with_factors("mlp?layers=2,width=64,batch=64");
  const Cluster cluster = load_cluster("local:64");
  const auto plan = searched("soybean", graph, cluster);
  ASSERT_TRUE(plan);
  const int64_t now = check(graph, *plan, cluster).comm_bytes;
  const Resolved resolved = resolve(graph, *plan, cluster);
  Explainer explainer(graph, *plan, resolved, cluster);
  int many = 0;
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const OpExplanation e = explainer.op(OpId(o));
    if (e.others <= kMostListed) continue;
    ++many;
    ASSERT_FALSE(e.alternatives.empty());
    const OpAlternative& other = e.alternatives[rng.below(e.alternatives.size())];
    SCOPED_TRACE(graph.ops[o].name);
    EXPECT_NE(other.strategies, plan->ops[o].strategies);
    expect_difference(other.difference, now, check(graph, with(*plan, OpId(o), other.strategies), cluster).comm_bytes);
  }
  EXPECT_GT(many, 0);
}

}  // namespace
}  // namespace partita
