// The figures of a route that decide how long bytes take over it.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

struct RouteFigures {
  double latency_us = 0;                                         // of all links
  double bytes_per_s = std::numeric_limits<double>::infinity();  // of the narrowest link
};

inline RouteFigures route_figures(const Cluster& cluster, const std::vector<LinkId>& route) {
  RouteFigures figures;
  for (const LinkId l : route) {
    figures.latency_us += cluster.link(l).latency_us;
    figures.bytes_per_s = std::min(figures.bytes_per_s, cluster.link(l).bandwidth_bytes_per_s);
  }
  return figures;
}

}  // namespace partita
