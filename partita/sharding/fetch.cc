// Makes the pieces of one fetch: each target takes what its own device holds, and the rest from others.
#include "partita/sharding/fetch.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/sharding/members.h"

namespace partita::boxing {

namespace {

// If at least this many boxes may meet the wanted one, it pays to find out whether they are disjoint.
constexpr size_t kMany = 64;

void emit(Fetch& fetch, int source, int target, Box box) {
  if (source != fetch.local[target]) fetch.moved += volume(box);
  fetch.pieces.push_back({source, target, std::move(box)});
}

// The position among `candidates` with the fastest route to the target.
int fastest(const Fetch& fetch, const std::vector<int>& candidates, int target) {
  if (candidates.size() == 1) return candidates[0];
  DeviceId reader = fetch.to.mesh.devices[target];
  std::vector<int> tied;
  double bandwidth = -1, latency = 0;
  for (int h : candidates) {
    DeviceId device = fetch.from.mesh.devices[h];
    double b = fetch.cluster.bandwidth(device, reader), l = fetch.cluster.latency_us(device, reader);
    if (b > bandwidth || (b == bandwidth && l < latency)) {
      tied.clear();
      bandwidth = b;
      latency = l;
    }
    if (b == bandwidth && l == latency) tied.push_back(h);
  }
  return tied[target % tied.size()];
}

// Takes what the target's own device holds; returns the rest of the box.
std::vector<Box> take_own(Fetch& fetch, int member, int target, const Box& box) {
  const int own = fetch.local[target];
  if (own < 0 || partial_member(fetch.from, own) != member) return {box};
  if (fetch.have[own].size() == 1) {  // mostly it holds all, or nothing
    const Box& held = fetch.have[own][0];
    if (common_elements(held, box) == 0) return {box};
    if (contains(held, box)) return emit(fetch, own, target, box), std::vector<Box>();
  }
  std::vector<Box> rest = {box};
  for (const Box& held : fetch.have[own]) {
    std::vector<Box> inside;
    rest = split_by_box(rest, held, inside);
    for (Box& b : inside) emit(fetch, own, target, std::move(b));
  }
  return rest;
}

// Takes a fragment from disjoint boxes, none of which has to be cut by another.
void take_from_disjoint(Fetch& fetch, const std::vector<Holders::Held>& held, const std::vector<size_t>& near,
                        int target, const Box& fragment) {
  int64_t missing = volume(fragment);
  for (size_t i : near) {
    Box meet = intersect(fragment, held[i].box);
    if (is_empty(meet)) continue;
    missing -= volume(meet);
    emit(fetch, fastest(fetch, held[i].positions, target), target, std::move(meet));
  }
  if (missing != 0)
    ensure(false, "no position of {} holds all of {}, which position {} of {} needs", to_string(fetch.from),
           to_string(fragment), target, to_string(fetch.to));
}

struct Fragment {
  Box box;
  std::vector<int> holders;
};

// Cuts the fragments so that each lies inside or outside the held box, and adds its holders to those inside.
std::vector<Fragment> cut_by(std::vector<Fragment> fragments, const Holders::Held& held) {
  if (std::none_of(fragments.begin(), fragments.end(),
                   [&](const Fragment& f) { return common_elements(f.box, held.box) > 0; }))
    return fragments;
  if (std::ranges::all_of(fragments, [&](const Fragment& f) { return contains(held.box, f.box); })) {
    for (Fragment& f : fragments) f.holders.insert(f.holders.end(), held.positions.begin(), held.positions.end());
    return fragments;
  }
  std::vector<Fragment> next;
  next.reserve(fragments.size() + 1);
  for (Fragment& f : fragments) {
    Box meet = intersect(f.box, held.box);
    if (is_empty(meet)) {
      next.push_back(std::move(f));
      continue;
    }
    for (Box& b : subtract(f.box, held.box)) next.push_back({std::move(b), f.holders});
    f.holders.insert(f.holders.end(), held.positions.begin(), held.positions.end());
    next.push_back({std::move(meet), std::move(f.holders)});
  }
  return next;
}

void take_whole(Fetch& fetch) {
  for (int t = 0; t < fetch.to.mesh.positions(); ++t)
    for (int m = 0; m < static_cast<int>(fetch.holders.size()) && fetch.wanted[t]; ++m)
      for (const Box& box : fetch.want[t]) take_box(fetch, m, t, box);
}

}  // namespace

std::vector<Box> split_by_box(const std::vector<Box>& fragments, const Box& box, std::vector<Box>& inside) {
  std::vector<Box> rest;
  for (const Box& f : fragments) {
    Box meet = intersect(f, box);
    if (is_empty(meet)) {
      rest.push_back(f);
      continue;
    }
    inside.push_back(std::move(meet));
    for (Box& b : subtract(f, box)) rest.push_back(std::move(b));
  }
  return rest;
}

void take_box(Fetch& fetch, int member, int target, const Box& box) {
  std::vector<Box> rest = take_own(fetch, member, target, box);
  if (rest.empty()) return;
  Holders& holders = fetch.holders[member];
  const std::vector<size_t> near = held_near(holders, box);
  if (near.size() >= kMany && are_disjoint(holders)) {
    for (const Box& fragment : rest) take_from_disjoint(fetch, holders.held, near, target, fragment);
    return;
  }
  std::vector<Fragment> fragments;
  for (Box& b : rest) fragments.push_back({std::move(b), {}});
  for (size_t i : near) fragments = cut_by(std::move(fragments), holders.held[i]);
  for (Fragment& f : fragments) {
    if (f.holders.empty())
      ensure(false, "no position of {} holds {}, which position {} of {} needs", to_string(fetch.from),
             to_string(f.box), target, to_string(fetch.to));
    std::sort(f.holders.begin(), f.holders.end());
    emit(fetch, fastest(fetch, f.holders, target), target, std::move(f.box));
  }
}

Fetch make_fetch(const Layout& from, const Layout& to, const Cluster& cluster, const DeviceMask& device_mask) {
  Fetch fetch{from, to, cluster, step_radices(from, to), {}, {}, {}, {}, {}, {}};
  fetch.have = boxes_by_position(from, fetch.radices);
  fetch.want = boxes_by_position(to, fetch.radices);
  fetch.holders = holders_of(from, fetch.have);
  const bool same_devices = from.mesh.devices == to.mesh.devices;
  for (int t = 0; t < to.mesh.positions(); ++t) {
    const DeviceId device = to.mesh.devices[t];
    fetch.local.push_back(same_devices ? t : from.mesh.position_of(device));
    fetch.wanted.push_back(!device_mask || (*device_mask)[device.index()]);
  }
  if (has_partial_values(to)) take_into_partials(fetch);
  else take_whole(fetch);
  if (!std::ranges::is_sorted(fetch.pieces, {}, &Piece::target))
    std::ranges::stable_sort(fetch.pieces, {}, &Piece::target);
  return fetch;
}

}  // namespace partita::boxing
