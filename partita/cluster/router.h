// Makes the links and routes between the devices of a tree. Internal to cluster/.
//
// Example: two boards of two GPUs under a top switch. On one board, routes go gpu -> board -> gpu, with two links.
// Between boards they go gpu -> board -> top -> board -> gpu, with four. A level with per_device has a pair of links of
// its own for each device below it instead of one that they share.
#pragma once
#include <vector>

#include "partita/cluster/tree.h"

namespace partita::cluster_file {

// Makes the cluster's links and the routes of its devices, given the devices' places. Links are numbered in the order
// in which the routes of all pairs of devices, row by row, first use them.
void add_routes(Cluster& cluster, std::vector<Place>& places, const std::vector<int>& place_of);

}  // namespace partita::cluster_file
