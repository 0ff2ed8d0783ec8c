// Makes meshes and random layouts for tests, and writes the kinds of a conversion's steps as text.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/rng.h"
#include "partita/cluster/cluster.h"
#include "partita/sharding/layout.h"
#include "partita/sharding/step.h"

namespace partita::testing {

inline Mesh mesh_of(const std::vector<int>& extents, const std::vector<int>& devices = {}) {
  Mesh mesh{extents, {}};
  int n = 1;
  for (int e : extents) n *= e;
  for (int i = 0; i < n; ++i) mesh.devices.push_back(DeviceId(size_t(devices.empty() ? i : devices[i])));
  return mesh;
}

inline const Cluster& machine() {  // two nodes of eight: routes of two speeds
  static const Cluster cluster = load_cluster("dgx-h100:2");
  return cluster;
}

inline NdSbp name(std::string_view text) { return parse_nd_sbp(text); }

inline std::vector<Shape> random_radices(Rng& rng) {
  std::vector<Shape> radices;
  for (int64_t a = rng.between(0, 3); a > 0; --a) {
    radices.push_back({rng.between(1, 7)});
    if (rng.below(4) == 0) radices.back().push_back(rng.between(1, 3));
  }
  return radices;
}

inline Mesh random_mesh(Rng& rng) {
  std::vector<int> extents, devices;
  int n = 1;
  for (int64_t a = rng.between(0, 3); a > 0; --a) {
    int e = static_cast<int>(rng.between(1, 4));
    if (n * e > 8) break;
    extents.push_back(e);
    n *= e;
  }
  std::vector<int> all = {0, 1, 2, 3, 4, 8, 9, 10, 11};
  rng.shuffle(all);
  devices.assign(all.begin(), all.begin() + n);
  return mesh_of(extents, devices);
}

inline Layout random_layout(const Mesh& mesh, const std::vector<Shape>& radices, tdl::Reducer reducer, Rng& rng) {
  NdSbp sbp;
  bool partial = rng.below(2);
  for (size_t a = 0; a < mesh.extents.size(); ++a) {
    uint64_t kind = rng.below(4);
    if (kind == 0 && partial) sbp.push_back(Sbp::partial(reducer));
    else if (kind == 1 || radices.empty()) sbp.push_back(Sbp::broadcast());
    else {
      int axis = static_cast<int>(rng.below(radices.size()));
      sbp.push_back(Sbp::split(axis, static_cast<int>(rng.below(radices[axis].size()))));
    }
  }
  Layout layout = make_layout(mesh, sbp, radices);
  if (rng.below(3)) return layout;
  // Has no name: each box grows or stays at each end, the same for a partial group, so that every element stays
  // somewhere.
  Shape shape = layout.factored_shape();
  std::vector<Box> boxes = layout.boxes.list();
  for (int p = 0; p < mesh.positions(); ++p) {
    int first = layout.partial_group(p)[0];
    if (first < p) {
      boxes[p] = boxes[first];
      continue;
    }
    if (is_empty(boxes[p])) continue;
    for (size_t f = 0; f < shape.size(); ++f) {
      boxes[p][f].lo = std::max<int64_t>(0, boxes[p][f].lo - rng.between(0, 2));
      boxes[p][f].hi = std::min<int64_t>(shape[f], boxes[p][f].hi + rng.between(0, 2));
    }
  }
  layout.boxes = Boxes(mesh.extents, boxes);
  return layout;
}

// The mesh with axes of extent 1 between its own: the same positions.
inline Mesh padded(Mesh mesh, size_t axes, Rng& rng) {
  while (mesh.extents.size() < axes)
    mesh.extents.insert(mesh.extents.begin() + static_cast<int64_t>(rng.below(mesh.extents.size() + 1)), 1);
  return mesh;
}

// "reduce-scatter, all-gather"
inline std::string steps_text(const Conversion& c) {
  std::string text;
  for (const Step& s : c.steps) text += (text.empty() ? "" : ", ") + std::string(name_of(s.kind));
  return text;
}

}  // namespace partita::testing
