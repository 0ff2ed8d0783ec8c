// Tests the edges that lowering leaves out, on graphs of several blocks of sources. No path implies an edge that is
// left, and together these are enough (admission).
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "partita/physical/uses.h"
#include "planned.h"

namespace partita {
namespace {

// Two steps: place p of the first, size + p of the next; a node reaches its own next firing.
class Unrolled {
 public:
  explicit Unrolled(const PhysicalGraph& graph)
      : table_(number_nodes(graph)), place_(places(graph, table_)), after_(2 * static_cast<size_t>(size())) {
    for (int p = 0; p < size(); ++p) after_[p].push_back(p + size());
    for (const Edge& e : graph.edges) {
      const int from = place(e.from), to = place(e.to);
      after_[from].push_back(e.next ? size() + to : to);
      if (!e.next) after_[size() + from].push_back(size() + to);
    }
  }

  // Tells whether a path leads along the edge's ends, but not over the edge.
  bool implies(const Edge& edge) const {
    const int from = place(edge.from), to = place(edge.to) + (edge.next ? size() : 0);
    std::vector<char> seen(after_.size(), 0);
    std::vector<int> reached{from};
    for (size_t i = 0; i < reached.size(); ++i)
      for (int next : after_[reached[i]]) {
        if (next == to && reached[i] != from) return true;
        if (next < to && !seen[next]) seen[next] = 1, reached.push_back(next);
      }
    return false;
  }
  int size() const { return static_cast<int>(table_.size()); }

 private:
  int place(const Node& node) const { return place_[table_.number(node)]; }

  NodeTable table_;
  std::vector<int> place_;
  std::vector<std::vector<int>> after_;
};

TEST(ImpliedEdges, AreAllLeftOutAndNoOthers) {
  for (const auto& [model, cluster, search] :
       {std::tuple("zoo:resnet-18?batch=64", "p2.8xlarge", "tofu"),
        {"zoo:rnnlm?steps=10", "flexflow-p100", "tofu"},
        {"zoo:transformer?layers=1,hidden=64,heads=4,steps=16,vocabulary=200,batch=32", "flexflow-p100", "tofu"}}) {
    const PhysicalGraph graph = planned(model, search, cluster).physical;
    const Unrolled unrolled(graph);
    EXPECT_GT(unrolled.size(), 2048) << model;
    int next = 0, implied = 0;
    for (const Edge& edge : graph.edges) {
      next += edge.next;
      implied += unrolled.implies(edge);
    }
    EXPECT_EQ(implied, 0) << model << " of " << graph.edges.size();
    EXPECT_GT(next, 0) << model;
  }
}

}  // namespace
}  // namespace partita
