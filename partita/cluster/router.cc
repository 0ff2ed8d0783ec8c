// Makes the links of a tree, and each device's path to the switches above it.
#include "partita/cluster/router.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace partita::cluster_file {

namespace {

using Pair = std::pair<LinkId, LinkId>;  // up and down

struct Router {
  Cluster& cluster;
  std::vector<Place>& places;
  const std::vector<int>& place_of;               // by device
  std::map<std::pair<int, int>, Pair> own_wires;  // by a device's place and a switch's or host's
  std::map<int, size_t> missing;                  // by switch: the devices whose links up to it are still to be made
};

std::string shown(const Place& p) { return p.name.empty() ? "top" : p.name; }

// Adds a pair of links between a place and the one above it.
Pair add_pair(Cluster& cluster, const std::string& below, const std::string& above, const Wire& wire) {
  const LinkId first(cluster.links.size());
  cluster.links.push_back({below + "->" + above, wire.bandwidth_bytes_per_s, wire.latency_us});
  cluster.links.push_back({above + "->" + below, wire.bandwidth_bytes_per_s, wire.latency_us});
  return {first, LinkId(first.index() + 1)};
}

// The link pair between `leaf` and the switch `parent`, for a leaf below the switch's child `child`.
Pair link_pair(Router& router, int leaf, int child, int parent) {
  std::vector<Place>& places = router.places;
  Place& via = places[child];
  if (via.to_parent.per_device && child != leaf) {
    auto [it, fresh] = router.own_wires.try_emplace({leaf, parent});
    if (fresh) it->second = add_pair(router.cluster, places[leaf].name, shown(places[parent]), via.to_parent);
    return it->second;
  }
  if (!via.up.valid())
    std::tie(via.up, via.down) = add_pair(router.cluster, via.name, shown(places[parent]), via.to_parent);
  return {via.up, via.down};
}

// Makes the links from `leaf` up to the switch `top`, and from there down.
Routes::Climb make_climb(Router& router, int leaf, int top) {
  std::vector<int> chain;  // leaf .. child of top
  for (int p = leaf; p != top; p = router.places[p].parent) chain.push_back(p);
  // If a level below `top` has devices with wires of their own, they enter at the highest such level.
  size_t start = 0;
  for (size_t i = 0; i < chain.size(); ++i)
    if (router.places[chain[i]].to_parent.per_device) start = i;
  Routes::Climb made{top, {}, {}};
  for (size_t i = start; i < chain.size(); ++i) {
    auto [up, down] = link_pair(router, leaf, chain[i], router.places[chain[i]].parent);
    made.up.push_back(up);
    made.down.push_back(down);
  }
  std::reverse(made.down.begin(), made.down.end());
  return made;
}

// A device and the host that feeds it over wires of its own: one pair of links, no switch.
bool own_wired(const Router& router, int leaf, int host) {
  const Place& above = router.places[host];
  return above.is_host && above.to_parent.per_device && router.places[leaf].host_place == host && host != leaf;
}

Pair wires_to_host(Router& router, int leaf, int host) {
  auto [it, fresh] = router.own_wires.try_emplace({leaf, host});
  const std::vector<Place>& places = router.places;
  if (fresh) it->second = add_pair(router.cluster, places[leaf].name, places[host].name, places[host].to_parent);
  return it->second;
}

int nearest_above_both(const std::vector<Place>& places, int a, int b) {
  while (places[a].depth > places[b].depth) a = places[a].parent;
  while (places[b].depth > places[a].depth) b = places[b].parent;
  while (a != b) a = places[a].parent, b = places[b].parent;
  return a;
}

// Counts the links still to be made: one pair for each device below a switch that separates it from others. A host that
// is wired to all others below never climbs there.
void count_missing(Router& router) {
  const std::vector<Place>& places = router.places;
  std::map<int, std::vector<int>> below;  // by switch
  for (int place : router.place_of)
    for (int top = places[place].parent; top >= 0; top = places[top].parent) below[top].push_back(place);
  for (const auto& switched : below) {
    const int top = switched.first;
    const std::vector<int>& leaves = switched.second;
    auto child = [&](int leaf) {
      while (places[leaf].parent != top) leaf = places[leaf].parent;
      return leaf;
    };
    const bool parts =
        std::any_of(leaves.begin(), leaves.end(), [&](int leaf) { return child(leaf) != child(leaves[0]); });
    for (int leaf : leaves) {
      auto wired = [&](int other) {
        return other == leaf || (places[leaf].parent == top && own_wired(router, other, leaf));
      };
      router.missing[top] += parts && !std::all_of(leaves.begin(), leaves.end(), wired);
    }
  }
}

void make_climb(Router& router, size_t device, int top) {
  std::vector<Routes::Climb>& climbs = router.cluster.routes.climbs[device];
  for (const Routes::Climb& made : climbs)
    if (made.top == top) return;
  climbs.push_back(make_climb(router, router.place_of[device], top));
  if (router.missing[top] > 0) --router.missing[top];
}

// Makes the links of the routes from a device to all others, if any may be missing.
void make_links_from(Router& router, size_t device) {
  const std::vector<Place>& places = router.places;
  const int place = router.place_of[device];
  bool fresh = false;
  for (int top = places[place].parent; top >= 0 && !fresh; top = places[top].parent) fresh = router.missing[top] > 0;
  if (!fresh) return;
  for (size_t other = 0; other < router.place_of.size(); ++other) {
    if (other == device) continue;
    const int to = router.place_of[other];
    if (own_wired(router, place, to)) {
      wires_to_host(router, place, to);
    } else if (!own_wired(router, to, place)) {
      const int top = nearest_above_both(places, place, to);
      make_climb(router, device, top);
      make_climb(router, other, top);
    }
  }
}

}  // namespace

void add_routes(Cluster& cluster, std::vector<Place>& places, const std::vector<int>& place_of) {
  Router router{cluster, places, place_of, {}, {}};
  Routes& routes = cluster.routes;
  routes.climbs.resize(place_of.size());
  count_missing(router);
  std::map<int, size_t> device_of;  // by place
  for (size_t i = 0; i < place_of.size(); ++i) device_of[place_of[i]] = i;
  for (size_t i = 0; i < place_of.size(); ++i) {
    make_links_from(router, i);
    const int place = place_of[i], host = places[place].host_place;
    if (host < 0 || !own_wired(router, place, host) || !device_of.count(host)) continue;
    const auto [up, down] = wires_to_host(router, place, host);
    routes.set(DeviceId(i), DeviceId(device_of[host]), {up});
    routes.set(DeviceId(device_of[host]), DeviceId(i), {down});
  }
  for (std::vector<Routes::Climb>& climbs : routes.climbs)
    std::sort(climbs.begin(), climbs.end(),
              [&](const auto& a, const auto& b) { return places[a.top].depth > places[b.top].depth; });
}

}  // namespace partita::cluster_file
