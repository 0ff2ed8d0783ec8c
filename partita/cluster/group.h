// Counts which links a device group's collectives keep busy, and for how long.
//
// A node is the devices that one host feeds. In each node the rings run over its wires if these join its members in
// rings (rings.h). Otherwise they run from each device to the next over its route. From node to node every member of a
// node has its turn to send, so that all network ports are used at once.
//
// Example: 16 devices on two nodes, with a port each. Eight rings go through each node from another device on; each
// carries an eighth. A device passes 7/8 of the bytes on inside its node, and 1/8 through its port.
#pragma once
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

struct LinkLoad {
  LinkId link;
  double inside = 0, between = 0;  // bytes in hops inside nodes, and in hops between them
};

struct GroupLinks {
  int devices = 0, nodes = 0, per_node = 0;  // per_node: the most in any node
  std::vector<LinkLoad> loads;               // ascending; for every byte that each device sends
  double inside_s = 0;   // of the busiest link, for every byte that each device sends to the next in its node
  double between_s = 0;  // and for every byte that each node sends to the next
  double inside_latency_us = 0, between_latency_us = 0;  // of the slowest hop
};

// Counts rings through all devices, which are distinct and in any order.
GroupLinks ring_links(const Cluster& cluster, std::vector<DeviceId> devices);
// Counts straight transfers: each device sends each other device the same bytes over their route.
GroupLinks pair_links(const Cluster& cluster, std::vector<DeviceId> devices);

// Seconds of the busiest link for every byte that each device sends, if links reach these fractions of their rates.
double busiest_link_seconds(const Cluster& cluster, const GroupLinks& group, double inside_rate, double between_rate);

// Lists the links that are busy for at least half of the busiest link's time. Ascending.
std::vector<LinkId> busy_links(const Cluster& cluster, const GroupLinks& group);

}  // namespace partita
