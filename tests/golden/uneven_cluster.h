// Makes a cluster of two nodes that are not alike, for tests: two devices of 4 TFLOP/s behind one host link of 8 GB/s,
// and those of half the speed behind another link of its own.
#pragma once
#include <string>

#include "partita/cluster/cluster.h"

namespace partita {

// The figures of the second node that differ from test to test: its devices' memory bandwidth (GB/s), time to launch a
// kernel (us), link between them, and count.
struct SecondNode {
  int memory_bandwidth = 100, launch_us = 1;
  std::string link;   // "{bandwidth_gbytes_per_s: 30, latency_us: 1}"
  std::string count;  // "count: 2, ", or nothing for one
};

inline Cluster uneven_cluster(const SecondNode& second) {
  return parse_cluster(R"(name: uneven
device_types:
  A: {kind: gpu, peak_tflop_per_s: {float32: 4, float64: 1}, memory_gibytes: 1, memory_bandwidth_gbytes_per_s: 100, efficiency: 1, launch_overhead_us: 1}
  B: {kind: gpu, peak_tflop_per_s: {float32: 2, float64: 1}, memory_gibytes: 1, memory_bandwidth_gbytes_per_s: )" +
                           std::to_string(second.memory_bandwidth) +
                           ", efficiency: 1, launch_overhead_us: " + std::to_string(second.launch_us) + R"(}
  H: {kind: cpu, peak_tflop_per_s: {float32: 1, float64: 1}, memory_gibytes: 64, memory_bandwidth_gbytes_per_s: 50, efficiency: 1, launch_overhead_us: 1}
topology:
  link: {bandwidth_gbytes_per_s: 2, latency_us: 3}
  children:
    - name: node
      link: {bandwidth_gbytes_per_s: 30, latency_us: 1}
      host: {type: H, link: {bandwidth_gbytes_per_s: 8, latency_us: 5}}
      children: [{name: a, count: 2, type: A}]
    - name: other
      link: )" + second.link +
                           R"(
      host: {type: H, link: {bandwidth_gbytes_per_s: 8, latency_us: 5}}
      children: [{name: b, )" +
                           second.count + R"(type: B}]
)",
                       "test");
}

}  // namespace partita
