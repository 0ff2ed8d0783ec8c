// Recognizes direct collective libraries, and finds the links that their collectives use.
#include "partita/cluster/direct.h"

#include <algorithm>
#include <utility>

namespace partita {

namespace {

bool is_direct(const Library& library) {
  return library && std::ranges::all_of(*library, [](const LibraryRow& row) {
           return row.algorithm == CollectiveAlgorithm::kPairwise;
         });
}

}  // namespace

bool are_direct(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  return std::ranges::all_of(devices, [&](DeviceId d) { return is_direct(cluster.device(d).library); });
}

GroupLinks reduction_links(const Cluster& cluster, std::vector<DeviceId> devices) {
  return are_direct(cluster, devices) ? pair_links(cluster, std::move(devices))
                                      : ring_links(cluster, std::move(devices));
}

}  // namespace partita
