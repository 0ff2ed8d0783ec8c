// Reads the links that a cluster file lists beside its tree, such as NVLink between two GPUs. Internal to cluster/.
//
// Example: {between: [gpu0, gpu1], bandwidth_gbytes_per_s: 20, latency_us: 1} makes the links gpu0=>gpu1 and
// gpu1=>gpu0, which are the routes between the two from then on.
#pragma once
#include <set>
#include <string>

#include "partita/cluster/cluster.h"
#include "partita/cluster/yaml.h"

namespace partita::cluster_file {

// `all_names` are those of the devices that the file describes; links of devices that the cluster leaves out are left
// out too.
void add_explicit_links(const Reader& r, const YAML::Node& links, const std::set<std::string>& all_names,
                        Cluster& cluster);

}  // namespace partita::cluster_file
