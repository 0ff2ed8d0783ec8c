// Defines a cluster: devices, and the links that data moves over. A preset or YAML gives them: nested levels, and
// explicit links beside them (docs/reference/cluster.md). A Cluster is a value.
//
// Example: p2.8xlarge has 8 GPUs, two on each of 4 boards, and a host. Two GPUs of one board have a route of 2 links at
// 10.5 GB/s; GPUs of two boards have one of 4 links whose narrowest has 10 GB/s.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/base/ids.h"
#include "partita/cluster/library.h"

namespace partita {

class Profile;  // profile/profile.h

enum class DeviceKind { kGpu, kCpu };

// The figures, beside the peaks, that kernel times depend on. cost/kernel.h says how.
struct KernelFigures {
  int multiprocessors = 0;        // 0: not known. Then every kernel has the device's `efficiency`
  double clock_hz = 0;            // of a multiprocessor when the device reaches its peaks
  std::map<DType, double> parts;  // fraction of the peaks that large products reach; if absent, the device's
                                  // `efficiency`
  double memory_part = 1;         // fraction of the bandwidth that large copies reach
  double fused_attention = 0;  // fraction of the products' rate that attention in one kernel reaches; 0: no such kernel
  double sustained = 1;        // fraction of the clock that a long step keeps
  double beside_collectives = 1;  // fraction of its speed that a kernel keeps while collectives run on its device
  // Fraction of the matrix units' rate if rows begin at multiples of 2, 4 or 8 bytes. At multiples of 16 it is 1.
  std::map<int, double> unaligned;
  auto operator<=>(const KernelFigures&) const = default;
};

struct Device {
  std::string name;  // unique: "node0.gpu3"
  DeviceKind kind = DeviceKind::kGpu;
  std::string model;  // "K80"
  std::map<DType, double> peak_flops_per_s;
  double memory_bandwidth_bytes_per_s = 0;
  int64_t memory_bytes = 0;
  double efficiency = 1;  // the fraction of the peaks that a good kernel reaches
  KernelFigures kernels;
  double launch_overhead_us = 0;  // a kernel's fixed cost
  DeviceId host;                  // the CPU device that feeds a GPU; a CPU device is its own
  Library library;                // how long collectives with other devices take
};

// One direction of one wire: a queue that carries one transfer at a time.
struct Link {
  std::string name;
  double bandwidth_bytes_per_s = 0;
  double latency_us = 0;
};

// The links between two devices, in order of travel. A route goes up to the nearest switch that is above both ends, and
// down again. So only each device's links to the switches above it are kept.
class Routes {
 public:
  std::vector<LinkId> between(DeviceId from, DeviceId to) const;  // empty from a device to itself
  template <typename Visit>
  void for_each_link(DeviceId from, DeviceId to, const Visit& visit) const;
  // Makes these links the route, whatever the tree says.
  void set(DeviceId from, DeviceId to, std::vector<LinkId> links);

  // A device's links to a switch above it and back.
  struct Climb {
    int top = 0;  // the switch, by a number
    std::vector<LinkId> up, down;
    bool operator==(const Climb&) const = default;
  };
  std::vector<std::vector<Climb>> climbs;                // by device, the nearest switch first
  int nearest_switch(DeviceId from, DeviceId to) const;  // -1: there is none
  std::vector<int> own_to(DeviceId from) const;          // the devices to which set() gave a route
  bool operator==(const Routes&) const = default;

 private:
  const std::vector<LinkId>* own(DeviceId from, DeviceId to) const;
  std::vector<std::map<int, std::vector<LinkId>>> own_;  // [from] to: the routes that set() gave
};

struct Cluster {
  std::string name;
  std::string text;             // the YAML it was made from: a plan carries it
  std::vector<Device> devices;  // compute devices first, in the order that plans number them; then the hosts
  int compute_count = 0;        // devices[0 .. compute_count) run plans
  std::vector<Link> links;
  Routes routes;
  // The measurements of one device type; null: all figures are the text's. A plan does not carry it.
  std::shared_ptr<const Profile> profile;

  const Device& device(DeviceId id) const { return devices[id.index()]; }
  const Link& link(LinkId id) const { return links[id.index()]; }
  std::vector<LinkId> route(DeviceId from, DeviceId to) const { return routes.between(from, to); }
  // The profile if it is of this device's type, else null.
  const Profile* profile_of(DeviceId id) const;
  // The slowest link of the route; invalid from a device to itself.
  LinkId narrowest(DeviceId from, DeviceId to) const;
  // Bytes per second of the route's slowest link; infinity from a device to itself.
  double bandwidth(DeviceId from, DeviceId to) const;
  double latency_us(DeviceId from, DeviceId to) const;  // of the whole route
  DeviceId find_device(std::string_view name) const;    // invalid if there is none
};

template <typename Visit>
void Routes::for_each_link(DeviceId from, DeviceId to, const Visit& visit) const {
  if (const std::vector<LinkId>* links = own(from, to)) {
    for (LinkId l : *links) visit(l);
    return;
  }
  if (from == to) return;
  for (const Climb& a : climbs[from.index()])
    for (const Climb& b : climbs[to.index()]) {
      if (a.top != b.top) continue;
      for (LinkId l : a.up) visit(l);
      for (LinkId l : b.down) visit(l);
      return;
    }
}

inline constexpr int kMostDevices = 32768;  // in a cluster, hosts included

// Makes a cluster from a preset's name ("p2.8xlarge", "dgx-h100", "local:4") or the path of a YAML file. If `devices`
// is positive, keeps that many compute devices, the first ones. Bad input names file, line and remedy.
Cluster load_cluster(std::string_view reference, int devices = 0);
Cluster parse_cluster(std::string_view yaml, std::string_view origin, int devices = 0);

struct ClusterPreset {
  std::string name, summary;
};
std::vector<ClusterPreset> cluster_presets();

// Orders the compute devices so that splitting the list in equal parts, outermost first, cuts the slowest links first.
std::vector<DeviceId> slowest_link_first(const Cluster& cluster);

}  // namespace partita
