// Tests six lowered graphs by hand, whole: the output of the passes, that it is admitted, and that every edge is
// needed. PARTITA_UPDATE_GOLDEN=1 writes the passes' current output into the files, to be read before they are
// committed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/physical/passes.h"
#include "partita/physical/testing/tagged_run.h"

namespace partita {
namespace {

class PhysicalGolden : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return std::string(PARTITA_SOURCE_DIR "/tests/golden/physical/") + GetParam() + ".txt"; }
  std::string text() const {
    std::ifstream in(path());
    EXPECT_TRUE(in) << path();
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
};

TEST_P(PhysicalGolden, IsWhatThePassesMake) {
  PhysicalGraph graph = parse_physical(text());
  for (Register& reg : graph.registers) {
    reg.offset = -1;
    reg.count = 1;
  }
  graph.order.clear();
  graph.edges.clear();
  graph.peak_bytes.clear();
  verify(graph);
  const LowerOptions options{.schedule = Schedule::k1F1B};
  make_order(graph, options);
  make_counts(graph, options);
  plan_memory(graph, options);
  make_edges(graph);
  if (std::getenv("PARTITA_UPDATE_GOLDEN")) std::ofstream(path()) << print(graph);
  EXPECT_EQ(print(graph), text());
}

TEST_P(PhysicalGolden, ReadsAndPrintsTheSame) { EXPECT_EQ(print(parse_physical(text())), text()); }

TEST_P(PhysicalGolden, IsVerifiedAdmittedAndRuns) {
  const PhysicalGraph graph = parse_physical(text());
  verify(graph);
  EXPECT_EQ(refuse(graph).value_or("admitted"), "admitted");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    const testing::TaggedRun run = testing::run_tagged(graph, rng);
    EXPECT_EQ(run.outcome, testing::Outcome::kDone) << run.what;
  }
}

// Tells whether other edges, and the firings of one task, lead from the one node to the other, into the next step if
// `next`.
bool path_without(const PhysicalGraph& graph, const Edge& edge) {
  std::vector<std::pair<Node, bool>> reached{{edge.from, false}};
  const auto reach = [&](const Node& node, bool later) {
    if (std::find(reached.begin(), reached.end(), std::pair(node, later)) == reached.end())
      reached.push_back({node, later});
  };
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const auto [node, later] = reached[i];
    if (!later) reach(node, true);
    for (const Edge& e : graph.edges)
      if (e.from == node && !(e == edge) && !(e.next && later)) reach(e.to, later || e.next);
  }
  return std::find(reached.begin(), reached.end(), std::pair(edge.to, edge.next)) != reached.end();
}

TEST_P(PhysicalGolden, WithoutAnyOneEdgeItIsRefused) {
  const PhysicalGraph graph = parse_physical(text());
  ASSERT_FALSE(graph.edges.empty());
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    PhysicalGraph less = graph;
    less.edges.erase(less.edges.begin() + static_cast<std::ptrdiff_t>(e));
    const Edge& edge = graph.edges[e];
    const std::string names =
        to_string(graph, edge.from) + " -> " + to_string(graph, edge.to) + (edge.next ? " next" : "");
    EXPECT_NE(refuse(less).has_value(), path_without(graph, edge)) << names;
  }
}

INSTANTIATE_TEST_SUITE_P(ByHand, PhysicalGolden,
                         ::testing::Values("mlp", "convolution", "partial", "pipeline", "zero", "buckets"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace partita
