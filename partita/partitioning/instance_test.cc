// Tests placement instances: the refused ones, and costs by hand.
#include "partita/partitioning/instance.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/partitioning/cost.h"

namespace partita::partitioning {
namespace {

std::string node(int id, const std::string& more = "", double cpu = 10, double accelerator = 1, double size = 1,
                 bool backward = false) {
  return fmt::format(
      R"({{"id": {}, "supportedOnFpga": 1, "cpuLatency": {}, "fpgaLatency": {}, "isBackwardNode": {}, "size": {}{}}})",
      id, cpu, accelerator, backward, size, more);
}
std::string edge(int from, int to, double cost = 1) {
  return fmt::format(R"({{"sourceId": {}, "destId": {}, "cost": {}}})", from, to, cost);
}
std::string graph(const std::vector<std::string>& nodes, const std::vector<std::string>& edges,
                  const std::string& limits = R"("maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 1)") {
  return fmt::format(R"({{{}, "nodes": [{}], "edges": [{}]}})", limits, fmt::join(nodes, ", "), fmt::join(edges, ", "));
}

void expect_refused(const std::string& text, const std::string& message) {
  try {
    parse_instance(text, "g.json");
    ADD_FAILURE() << "not refused: " << message;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput);
    EXPECT_EQ(std::string(e.what()), message);
  }
}

TEST(PartitioningParse, Refusals) {
  const std::vector<std::string> two = {node(1), node(2)};
  const auto limits = [&](const std::string& text) { return graph(two, {}, text); };
  expect_refused("[]", "g.json: not a JSON object");
  expect_refused(limits(R"("maxFPGAs": 2, "maxCPUs": 1)"), "g.json: the field 'maxSizePerFPGA' is missing");
  expect_refused(limits(R"("maxSizePerFPGA": -1, "maxFPGAs": 2, "maxCPUs": 1)"),
                 "g.json: the field 'maxSizePerFPGA' is -1; give a number from 0 to 1e+200");
  expect_refused(limits(R"("maxSizePerFPGA": 1, "maxFPGAs": 2.5, "maxCPUs": 1)"),
                 "g.json: the field 'maxFPGAs' has the wrong type or range: 2.5");
  expect_refused(limits(R"("maxSizePerFPGA": 1, "maxFPGAs": 2, "maxCPUs": -1)"),
                 "g.json: the field 'maxCPUs' is -1; give a number from 0 to 100000");
  expect_refused(limits(R"("maxSizePerFPGA": 1, "maxFPGAs": 0, "maxCPUs": 0)"),
                 "g.json: maxFPGAs and maxCPUs are both 0; give at least one device");
  expect_refused(graph({}, {}), "g.json: there are no nodes; give at least one");
  expect_refused(graph({node(1), node(1)}, {}),
                 "g.json: nodes[1] (id 1): nodes[0] has this id too; give each node its own");
  expect_refused(graph({node(7, "", -3)}, {}),
                 "g.json: nodes[0] (id 7): the field 'cpuLatency' is -3; give a number from 0 to 1e+200");
  expect_refused(graph({R"({"id": 7, "supportedOnFpga": 2})"}, {}),
                 "g.json: nodes[0] (id 7): the field 'supportedOnFpga' is 2; give true, false, 1 or 0");
  expect_refused(graph({R"({"supportedOnFpga": 1})"}, {}), "g.json: nodes[0]: the field 'id' is missing");
  expect_refused(graph({node(1, R"(, "colorClass": "red")")}, {}),
                 R"(g.json: nodes[0] (id 1): the field 'colorClass' has the wrong type or range: "red")");
  expect_refused(graph(two, {edge(1, 2), edge(1, 5)}),
                 "g.json: edges[1]: destId is 5, and no node has this id; name one of nodes");
  expect_refused(graph(two, {edge(2, 2)}), "g.json: edges[0]: leads from node 2 to itself; leave it out");
  expect_refused(graph({node(1), node(2), node(3)}, {edge(1, 2, 0.5), edge(1, 3, 0.25)}),
                 "g.json: edges[1]: the cost of node 1's output is 0.25 here and 0.5 in edges[0]; give all its edges "
                 "the same");
  expect_refused(graph({node(1, "", 1, 1, 1, true), node(2)}, {edge(1, 2)}),
                 "g.json: edges[0]: leads from the backward node 1 to the forward node 2; forward nodes read forward "
                 "nodes only");
  expect_refused(graph({node(1), node(2), node(3), node(4)}, {edge(1, 2), edge(2, 3), edge(3, 2), edge(3, 4)}),
                 "g.json: node 2 reads, through others, what it makes itself; take an edge out of this cycle");
}

TEST(PartitioningParse, WhatIsThere) {
  const Instance g =
      parse_instance(graph({node(5, R"(, "colorClass": -3, "name": "x")"), node(6), node(2, R"(, "colorClass": -3)")},
                           {edge(6, 5, 2), edge(6, 5, 2), edge(2, 6, 4)}),
                     "g.json");
  EXPECT_EQ(g.colors, 2);
  EXPECT_EQ(g.nodes[0].color, g.nodes[2].color);
  EXPECT_NE(g.nodes[0].color, g.nodes[1].color);
  EXPECT_EQ(g.nodes[1].readers, std::vector<int>{0});
  EXPECT_EQ(g.nodes[1].cost, 2);
  EXPECT_EQ(g.nodes[0].cost, 0);
  EXPECT_EQ(g.order, (std::vector<int>{2, 1, 0}));
}

// 1 -> 2, 1 -> 3, 2 -> 4: outputs of 1 and 2 cost 5 and 3; accelerators compute 1 each, CPUs 10.
Instance fork(const std::string& more = "") {
  return parse_instance(
      graph({node(1, more), node(2), node(3), node(4, more)}, {edge(1, 2, 5), edge(1, 3, 5), edge(2, 4, 3)}), "g.json");
}

TEST(PartitioningCost, LoadsPayEachOutputOnce) {
  const Instance g = fork();
  auto loads = loads_of(g, {0, 1, 1, 1});
  EXPECT_EQ(loads[0].compute, 1);
  EXPECT_EQ(loads[0].communication, 5);  // read by two, paid once
  EXPECT_EQ(loads[1].communication, 5);  // reads it twice, pays once
  EXPECT_EQ(max_load(g, {0, 1, 1, 1}), 8);
  loads = loads_of(g, {0, 1, 2, 0});  // 3 on the CPU
  EXPECT_EQ(loads[0].communication, 8);
  EXPECT_EQ(loads[1].communication, 8);
  EXPECT_EQ(loads[2].sum(), 10);
  EXPECT_EQ(loads[0].size, 2);
}

TEST(PartitioningCost, WhatIsNotAllowed) {
  EXPECT_EQ(wrong_devices(fork(), {0, 1, 0, 0}, false), std::nullopt);
  EXPECT_EQ(wrong_devices(fork(), {0, 1, 0, 0}, true),
            "a path between two forward nodes of device 0 leaves it at node 2");
  EXPECT_EQ(wrong_devices(fork(), {2, 0, 0, 2}, true),
            "a path between two forward nodes of device 2 leaves it at node 2");
  EXPECT_EQ(wrong_devices(fork(), {0, 0, 1, 0}, true), std::nullopt);
  EXPECT_EQ(wrong_devices(fork(R"(, "colorClass": 1)"), {0, 0, 0, 1}, false),
            "nodes 1 and 4 are of one color and on two devices");
  EXPECT_EQ(wrong_devices(fork(), {0, 0, 0, 3}, false), "node 4 is on device 3 of 3");
  Instance g = fork();
  g.max_size = 2;
  EXPECT_EQ(wrong_devices(g, {0, 0, 0, 1}, false), "accelerator 0 holds 3 bytes of 2");
  EXPECT_EQ(wrong_devices(g, {2, 2, 2, 1}, false), std::nullopt);
  g.nodes[1].supported = false;
  EXPECT_EQ(wrong_devices(g, {0, 1, 2, 2}, false), "node 2 is on an accelerator, which cannot run it");
}

TEST(PartitioningCost, BackwardNodesFollow) {
  // 1 -> 2 -> 3 forward, 13 -> 12 -> 11 backward, each of the color of its forward node; 3 -> 13.
  std::vector<std::string> nodes, edges = {edge(1, 2), edge(2, 3), edge(3, 13), edge(13, 12), edge(12, 11)};
  for (const int k : {1, 2, 3}) nodes.push_back(node(k, fmt::format(R"(, "colorClass": {})", k)));
  for (const int k : {1, 2, 3}) nodes.push_back(node(10 + k, fmt::format(R"(, "colorClass": {})", k), 10, 2, 1, true));
  const Instance g = parse_instance(graph(nodes, edges), "g.json");
  EXPECT_EQ(wrong_devices(g, {0, 0, 1, 0, 0, 1}, true), std::nullopt);
  const auto loads = loads_of(g, {0, 0, 1, 0, 0, 1});
  EXPECT_EQ(loads[0].sum(), 2 + 4 + 2);  // 2 leaves, 13 comes
  EXPECT_EQ(loads[1].sum(), 1 + 2 + 2);
}

TEST(PartitioningCost, Latency) {
  const Instance g = fork();
  // 1 on the CPU until 10; 2 and 4 on accelerator 0: reads 5, computes 2; 3 on the CPU until 20.
  const auto latency = latency_of(g, {kCpu, 0, kCpu, 0}, 1);
  EXPECT_EQ(latency->runs[0].start, 10);
  EXPECT_EQ(latency->runs[0].in, 5);
  EXPECT_EQ(latency->runs[0].end(), 17);
  EXPECT_EQ(latency->total, 20);
  // An output is there when its whole subgraph is done: 1 and 3 until 7, and 5 more to give 1 out; then 2, 4.
  EXPECT_EQ(latency_of(g, {0, 1, 0, 1}, 1)->total, (1 + 1 + 5) + (5 + 2));
  // Two subgraphs of one accelerator run one after another, and pay between themselves.
  EXPECT_EQ(latency_of(g, {0, 1, 2, 1}, 2)->total, (1 + 5) + (5 + 2));
  EXPECT_EQ(latency_of(g, {1, 0, 0, 0}, 2), std::nullopt);  // 1 would run after what reads it
  EXPECT_EQ(wrong_subgraphs(g, {1, 0, 0, 0}, 2), "subgraphs wait for each other in a circle");
  EXPECT_EQ(wrong_subgraphs(g, {0, kCpu, 0, 0}, 1),
            "a path between two nodes of subgraph 0 of accelerator 0 leaves it at node 2");
}

}  // namespace
}  // namespace partita::partitioning
