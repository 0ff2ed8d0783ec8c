// Finds the routes between devices, and their bandwidth and latency.
#include "partita/cluster/cluster.h"

#include <limits>

#include "partita/profile/profile.h"

namespace partita {

const std::vector<LinkId>* Routes::own(DeviceId from, DeviceId to) const {
  if (from.index() >= own_.size()) return nullptr;
  const auto found = own_[from.index()].find(to.value);
  return found == own_[from.index()].end() ? nullptr : &found->second;
}

std::vector<int> Routes::own_to(DeviceId from) const {
  std::vector<int> devices;
  if (from.index() >= own_.size()) return devices;
  for (const auto& [to, links] : own_[from.index()]) devices.push_back(to);
  return devices;
}

void Routes::set(DeviceId from, DeviceId to, std::vector<LinkId> links) {
  if (own_.size() <= from.index()) own_.resize(from.index() + 1);
  own_[from.index()][to.value] = std::move(links);
}

int Routes::nearest_switch(DeviceId from, DeviceId to) const {
  for (const Climb& a : climbs[from.index()])
    for (const Climb& b : climbs[to.index()])
      if (a.top == b.top) return a.top;
  return -1;
}

std::vector<LinkId> Routes::between(DeviceId from, DeviceId to) const {
  std::vector<LinkId> links;
  for_each_link(from, to, [&](LinkId l) { links.push_back(l); });
  return links;
}

const Profile* Cluster::profile_of(DeviceId id) const {
  return profile && profile->device == device(id).model ? profile.get() : nullptr;
}

LinkId Cluster::narrowest(DeviceId from, DeviceId to) const {
  LinkId best;
  routes.for_each_link(from, to, [&](LinkId l) {
    if (!best.valid() || link(l).bandwidth_bytes_per_s < link(best).bandwidth_bytes_per_s) best = l;
  });
  return best;
}

double Cluster::bandwidth(DeviceId from, DeviceId to) const {
  LinkId l = narrowest(from, to);
  return l.valid() ? link(l).bandwidth_bytes_per_s : std::numeric_limits<double>::infinity();
}

double Cluster::latency_us(DeviceId from, DeviceId to) const {
  double sum = 0;
  routes.for_each_link(from, to, [&](LinkId l) { sum += link(l).latency_us; });
  return sum;
}

DeviceId Cluster::find_device(std::string_view name) const {
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i].name == name) return DeviceId(i);
  return DeviceId();
}

}  // namespace partita
