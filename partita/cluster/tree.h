// Reads the tree of switches and devices that the topology of a cluster file describes. Internal to cluster/.
//
// Example: topology {link, children: [{name: board, count: 2, link, children: [{name: gpu, count: 2, type: K80}]}]} has
// seven places: the root, board0, board0.gpu0, board0.gpu1, board1, board1.gpu0, board1.gpu1, in this order.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/cluster/yaml.h"

namespace partita::cluster_file {

struct Wire {
  double bandwidth_bytes_per_s = 0, latency_us = 0;
  bool per_device = false;  // each device below has its own pair of links
};

// A switch with children, or a device.
struct Place {
  std::string name;
  int parent = -1, depth = 0;
  bool is_host = false;
  Wire to_parent;       // its link pair to the parent's switch
  int host_place = -1;  // the nearest host: its own, or of a level above
  LinkId up, down;      // that pair, once a route has used it
};

struct Tree {
  std::vector<Place> places;  // parents before their children
  std::vector<Device> compute, hosts;
  std::vector<int> compute_place, hosts_place;
};

// Validates and expands the topology; `types` are by model.
Tree read_tree(const Reader& r, const YAML::Node& topology, const std::map<std::string, Device>& types);

}  // namespace partita::cluster_file
