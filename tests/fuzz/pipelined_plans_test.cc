// Tests plans by stages, as searches make them, under a deterministic scheduler. Whatever the order in which messages
// arrive and firings end, they end, and no element is overwritten that is still read. Made wrong on purpose, they are
// refused.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/physical/testing/mutate.h"
#include "partita/pipeline/pipeline.h"
#include "partita/runtime/testing/scheduled_run.h"

namespace partita {
namespace {

using testing::Outcome;
using testing::TaggedRun;

// Tied tables, dropouts, uneven micro-batches, clipping and all schedules of stages, in plans whose memory is small
// enough to be tagged by the element.
std::vector<PhysicalGraph> plans() {
  struct Case {
    const char *model, *search, *recompute;
    int devices, micro_batches;
  };
  constexpr const char* kMlp = "zoo:mlp?layers=5,width=4,batch=8";
  constexpr const char* kUneven = "zoo:mlp?layers=5,width=4,batch=7";
  constexpr const char* kGpt2 = "zoo:gpt2?layers=2,hidden=4,heads=2,steps=2,vocabulary=6,batch=4";
  constexpr const char* kDropout = "zoo:transformer?layers=2,hidden=4,heads=2,steps=2,vocabulary=6,batch=4,dropout=0.1";
  std::vector<PhysicalGraph> graphs;
  for (const Case& c : {Case{kMlp, "pipeline?stages=2", "none", 2, 4},
                        {kMlp, "pipeline?stages=2,schedule=gpipe", "none", 4, 4},
                        {kMlp, "pipeline?stages=2,schedule=interleaved", "none", 4, 4},
                        {kUneven, "pipeline?stages=4", "none", 4, 3},
                        {kMlp, "zero?stage=2", "none", 2, 4},
                        {kMlp, "zero?stage=3", "layer", 2, 2},
                        {kGpt2, "pipeline?stages=2", "layer", 2, 4},
                        {kGpt2, "megatron?tensor=2,pipeline=2", "none", 4, 2},
                        {kGpt2, "megatron?tensor=1,pipeline=2,zero=2", "none", 4, 2},
                        {kDropout, "pipeline?stages=2,schedule=interleaved", "attention", 2, 2}}) {
    Request request;
    request.model = c.model;
    request.search = c.search;
    request.recompute = c.recompute;
    request.micro_batches = c.micro_batches;
    request.cluster = fmt::format("local:{}", c.devices);
    request.optimizer = {"adamw", 0.01, 0, 0.1};
    request.optimizer.clip_norm = 0.5;
    Runner runner(false);
    Planned p = plan_model(request, runner);
    EXPECT_TRUE(p.is_whole());
    EXPECT_EQ(p.physical.micro_batches, c.micro_batches);
    graphs.push_back(std::move(p.physical));
  }
  return graphs;
}

uint64_t seed() {
  const char* text = std::getenv("PARTITA_SEED");
  const uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 34;
  std::printf("seed %llu (PARTITA_SEED)\n", static_cast<unsigned long long>(seed));
  return seed;
}

TEST(PipelinedPlans, RunUnderAThousandSchedules) {
  Rng rng(seed());
  for (const PhysicalGraph& graph : plans())
    for (int k = 0; k < 100; ++k) {
      const TaggedRun run = testing::run_scheduled(graph, rng, 2);
      ASSERT_EQ(run.outcome, Outcome::kDone) << graph.name << ", schedule " << k << ": " << run.what;
    }
}

// Implied edges are left out, so that each edge is needed. Edges of the plan's schedule are an exception: without them
// some plans are as right, and then run.
TEST(PipelinedPlans, WithoutOneOfTheirEdgesAreRefused) {
  Rng rng(seed());
  int refused = 0, wrong = 0, as_right = 0;
  for (const PhysicalGraph& graph : plans())
    for (int k = 0; k < 10; ++k) {
      PhysicalGraph mutant = graph;
      const std::size_t gone = rng.below(mutant.edges.size());
      const Edge edge = mutant.edges[gone];
      mutant.edges.erase(mutant.edges.begin() + static_cast<std::ptrdiff_t>(gone));
      const bool accepted = testing::verdict(mutant) == "accepted";
      const int runs = accepted ? 30 : 3;
      EXPECT_TRUE(!accepted || edge.kind == EdgeKind::kPlan)
          << graph.name << ": " << mutant.task(edge.from.task).name << " -> " << mutant.task(edge.to.task).name;
      refused += !accepted;
      as_right += accepted;
      for (int s = 0; s < runs; ++s)
        if (testing::run_scheduled(mutant, rng, 2).outcome != Outcome::kDone) {
          EXPECT_FALSE(accepted) << "an edge that was needed";
          ++wrong;
          break;
        }
    }
  std::printf("%d mutants refused, of which %d went wrong in 3 runs\n", refused, wrong);
  EXPECT_EQ(refused + as_right, 100);
  EXPECT_GT(refused, 80);
  EXPECT_GT(wrong, 10);  // the scheduler finds what there is to find
}

}  // namespace
}  // namespace partita
