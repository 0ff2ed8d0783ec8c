// Reads placement instances of Tarnawski et al. 2020, "Efficient Algorithms for Device Placement of DNN Graph
// Operators", in the JSON format of their package dnn-partitioning, for `partita place`. An operator graph is placed
// whole on accelerators, which have memory and reach each other through the host's, and on CPU cores.
//
//   {"maxSizePerFPGA": 16e9, "maxFPGAs": 2, "maxCPUs": 1,
//    "nodes": [{"id": 7, "supportedOnFpga": true, "cpuLatency": 10, "fpgaLatency": 1, "isBackwardNode": false,
//               "colorClass": 3, "size": 4096}, ..],
//    "edges": [{"sourceId": 7, "destId": 8, "cost": 0.5}, ..]}
//
// Times share one unit (milliseconds in the published files), sizes are bytes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace partita::partitioning {

struct Node {
  long long id = 0;        // as in the file; otherwise a node is its place in `nodes`
  bool supported = false;  // on accelerators; CPUs run everything
  bool backward = false;
  double cpu = 0, accelerator = 0;  // time to run it
  double size = 0;                  // bytes on an accelerator
  int color = 0;                    // nodes of one color are on one device; 0, 1, .. without holes
  double cost = 0;                  // time for its output between an accelerator and host memory; 0 without readers
  std::vector<int> readers, reads;  // direct successors and predecessors, sorted, each once
};

struct Instance {
  double max_size = 0;  // bytes of one accelerator
  int accelerators = 0, cpus = 0;
  int colors = 0;
  std::vector<Node> nodes;
  std::vector<int> order;  // all nodes, each after those that it reads
};

// Returns the instance in `text`. Bad input names `file`, the node or edge, and the remedy: a missing field, a number
// that is negative or not finite, an id that is there twice or that no node has, edges out of one node whose costs
// differ by more than 1e-6, a cycle, an edge from a backward to a forward node, no device. A node without colorClass is
// a class of its own, one without size has size 0; other fields (name, layerId, an edge's size) are skipped.
Instance parse_instance(std::string_view text, const std::string& file);

}  // namespace partita::partitioning
