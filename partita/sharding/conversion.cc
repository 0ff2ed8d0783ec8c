// Finds a whole conversion between two layouts: its steps, or only how many elements it moves.
#include "partita/sharding/conversion.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "partita/base/error.h"
#include "partita/sharding/members.h"
#include "partita/sharding/path.h"

namespace partita::boxing {

namespace {

// Tells whether one all-reduce along one mesh axis does it: all positions hold parts of the same values, and each gets
// all. No other path moves less, or has fewer steps. If other axes replicate the parts, replicas may share the work.
bool is_one_all_reduce(const Layout& from, const Layout& to) {
  if (from.mesh != to.mesh || from.radices != to.radices || to.is_partial() || from.boxes != to.boxes) return false;
  for (size_t a = 0; a < from.kinds.size(); ++a)
    if (from.kinds[a] && from.mesh.extents[a] > 1) return from.mesh.extents[a] == from.mesh.positions();
  return false;
}

// Counts elements between two layouts over one factoring; the first is not partial.
int64_t elements_from_whole(const Layout& from, const Layout& to, const ElementCounter& counter) {
  if (!has_partial_values(to)) {
    if (from.mesh == to.mesh) return counter.total(to.boxes) - counter.common(to.boxes, from.boxes);
    return fetch_elements(from, to, counter);
  }
  // All positions are one partial group: each keeps what it has.
  if (from.mesh.devices == to.mesh.devices && partial_member_count(to) == to.mesh.positions()) return 0;
  return direct_elements({from, name_of(from)}, {to, name_of(to)}, counter);
}

bool covers_all(const Box& box, const std::vector<Shape>& radices) {
  size_t f = 0;
  for (const Shape& axis : radices)
    for (int64_t r : axis)
      if (box[f++] != Interval{0, r}) return false;
  return true;
}

// Elements of a reduce-scatter of full parts into a split of the factored axis f into r shards, and of the fetch of
// what the end then lacks.
int64_t scattered_elements(const Layout& from, const Layout& to, size_t f, int64_t r) {
  const int64_t p = from.mesh.extents[0];
  int64_t elements = (p - 1) * volume(from.boxes[0]);
  for (int64_t q = 0; q < p; ++q) {
    const Box b = to.boxes[q];
    const int64_t v = volume(b);
    if (v) elements += v - v / b[f].size() * intersect(b[f], cut(r, p, q)).size();
  }
  return elements;
}

// The path search as a formula, for one partial group of full boxes on a mesh of one axis. The parts are fetched, or
// made whole by an all-reduce, or by a reduce-scatter into any split and a fetch of the rest.
std::optional<int64_t> elements_of_one_group(const Layout& from, const Layout& to) {
  if (from.mesh != to.mesh || from.mesh.extents.size() != 1 || has_partial_values(to)) return std::nullopt;
  const Box whole = from.boxes[0];
  if (!covers_all(whole, from.radices)) return std::nullopt;
  const int64_t p = from.mesh.extents[0];
  int64_t own = 0, wanted = 0;
  for (const Box& b : to.boxes) wanted += volume(b), own += common_elements(b, whole);
  int64_t best = std::min(p * wanted - own, 2 * (p - 1) * volume(whole) + wanted - own);
  size_t f = 0;
  for (const Shape& axis : from.radices)
    for (int64_t r : axis) {
      if (r > 1) best = std::min(best, scattered_elements(from, to, f, r));
      ++f;
    }
  return best;
}

// ---------------------------------------------------------------- between pipeline stages

// A mesh axis on which the end is whole, and the end with a split there.
struct Slices {
  size_t axis;
  NamedLayout layout;
};

// Splits the end along the innermost mesh axis on which it is whole. The tensor's axis is the first that nothing else
// splits and that has equal parts.
std::optional<Slices> slices_of(const NamedLayout& end) {
  for (size_t a = end.name->size(); a-- > 0;) {
    const int parts = end.layout.mesh.extents[a];
    if ((*end.name)[a].kind != Sbp::Kind::kBroadcast || parts < 2) continue;
    for (const Sbp& split : all_splits(end.layout)) {
      const int64_t extent = end.layout.radices[static_cast<size_t>(split.axis)][static_cast<size_t>(split.sub_axis)];
      if (extent % parts != 0 || std::find(end.name->begin(), end.name->end(), split) != end.name->end()) continue;
      NdSbp name = *end.name;
      name[a] = split;
      return Slices{a, {make_layout(end.layout.mesh, name, end.layout.radices), name}};
    }
  }
  return std::nullopt;
}

// Tells whether fetching slices and gathering them is quicker than each device's fetch of the whole. Fetches over the
// same link follow one another.
bool are_quicker(const Layout& from, const NamedLayout& end, const Slices& slices, int64_t element_bytes,
                 const Cluster& cluster) {
  const Mesh& mesh = end.layout.mesh;
  int64_t apart = 1;  // positions from one to the next along the mesh axis
  for (size_t a = slices.axis + 1; a < mesh.extents.size(); ++a) apart *= mesh.extents[a];
  const int64_t parts = mesh.extents[slices.axis], sources = from.mesh.positions();
  const auto device = [&](int64_t k) { return mesh.devices[static_cast<size_t>(k * apart)]; };
  const auto source = [&](int64_t k) { return from.mesh.devices[static_cast<size_t>(k * apart % sources)]; };
  int64_t sharing = 0;
  for (int64_t k = 0; k < parts; ++k)
    sharing += cluster.narrowest(source(k), device(k)) == cluster.narrowest(source(0), device(0));
  double gather_us = 0, inside = std::numeric_limits<double>::infinity();
  for (int64_t k = 0; k < parts; ++k) {
    gather_us = std::max(gather_us, cluster.latency_us(device(k), device((k + 1) % parts)));
    inside = std::min(inside, cluster.bandwidth(device(k), device((k + 1) % parts)));
  }
  const auto bytes = static_cast<double>(volume(Box(end.layout.boxes[0])) * element_bytes);
  const auto n = static_cast<double>(parts);
  const double fetch_us = bytes * static_cast<double>(sharing) / cluster.bandwidth(source(0), device(0)) * 1e6;
  return fetch_us / n + (n - 1) * (gather_us + bytes / n / inside * 1e6) < fetch_us;
}

// Sends a tensor in slices, if that is quicker, to devices that have none of it: each device fetches one slice, and all
// gather them. As many bytes are moved either way.
void send_in_slices(Path& path, int64_t element_bytes, const ElementCounter& counter) {
  const NamedLayout from = path.through[path.through.size() - 2], end = path.through.back();
  if (!end.name || has_partial_values(from.layout) || has_partial_values(end.layout)) return;
  for (const DeviceId d : end.layout.mesh.devices)
    if (from.layout.mesh.position_of(d) >= 0) return;
  const std::optional<Slices> slices = slices_of(end);
  if (slices && are_quicker(from.layout, end, *slices, element_bytes, counter.cluster))
    path.through.insert(path.through.end() - 1, slices->layout);
}

}  // namespace

std::pair<Layout, Layout> over_common_radices(const Layout& from, const Layout& to) {
  if (from.radices != to.radices)
    if (auto common = common_radices(from.radices, to.radices)) {
      auto f = over_radices(from, *common), t = over_radices(to, *common);
      if (f && t) return {std::move(*f), std::move(*t)};
    }
  return {from, to};
}

bool is_in_place(const Layout& from, const Layout& to) {
  if (same_placement(from, to)) return true;
  if (has_partial_values(from) || has_partial_values(to) || from.mesh.devices != to.mesh.devices ||
      from.radices != to.radices)
    return false;
  if (from.boxes == to.boxes) return true;
  if (!from.boxes.any_empty() || !to.boxes.any_empty()) return false;
  for (size_t p = 0; p < from.boxes.size(); ++p)
    if (from.boxes[p] != to.boxes[p] && !(is_empty(from.boxes[p]) && is_empty(to.boxes[p]))) return false;
  return true;
}

int64_t conversion_elements(const Layout& from, const Layout& to, const ElementCounter& counter) {
  if (from.radices == to.radices) {
    if (!has_partial_values(from)) return elements_from_whole(from, to, counter);
    if (const auto elements = elements_of_one_group(from, to)) return *elements;
  }
  auto [f, t] = over_common_radices(from, to);
  if (is_in_place(f, t)) return 0;
  if (!has_partial_values(f)) return fetch_elements(f, t, counter);
  return cheapest_path_between_meshes({f, name_of(f)}, {t, name_of(t)}, counter).cost.elements;
}

Conversion find_conversion(const Layout& from, const Layout& to, int64_t element_bytes, const ElementCounter& counter) {
  ensure(from.shape() == to.shape(), "conversion between shapes {} and {}", fmt::join(from.shape(), "x"),
         fmt::join(to.shape(), "x"));
  Conversion conversion{from, to, {}, 0};
  auto [f, t] = over_common_radices(from, to);
  if (is_in_place(f, t)) return conversion;
  Path path;
  path.through = {{f, name_of(f)}, {t, name_of(t)}};
  // Nobody can receive less than it lacks: one step is the cheapest if nothing has to be combined.
  if (has_partial_values(f) && !is_one_all_reduce(f, t))
    path = cheapest_path_between_meshes(path.through[0], path.through[1], counter);
  send_in_slices(path, element_bytes, counter);
  for (size_t i = 1; i < path.through.size(); ++i) {
    conversion.steps.push_back(direct_step(path.through[i - 1], path.through[i], element_bytes, counter));
    conversion.bytes += conversion.steps.back().bytes;
  }
  return conversion;
}

}  // namespace partita::boxing
