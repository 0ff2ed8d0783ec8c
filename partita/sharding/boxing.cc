// Finds conversions without a memory, shortens layouts, and finds the conversions inside an op.
//
// The room's internals, from the entry down:
//   conversion.h     a conversion; converter.cc has the same with a memory
//   path.h           its path, by waypoints.h on meshes of few axes and by guided_path.cc on others
//   single_step.h    the steps of the path
//   fetch.h          the pieces of a fetch; count.h counts what it moves without them
#include "partita/sharding/boxing.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/sharding/conversion.h"
#include "partita/sharding/single_step.h"

namespace partita {

Conversion convert(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster,
                   const DeviceMask& device_mask) {
  return boxing::find_conversion(from, to, element_bytes, boxing::ElementCounter(cluster, false, device_mask));
}

int64_t conversion_bytes(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster) {
  return boxing::conversion_elements(from, to, boxing::ElementCounter(cluster, false)) * element_bytes;
}

Step fetch(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster,
           const DeviceMask& device_mask) {
  ensure(from.shape() == to.shape(), "fetch between shapes {} and {}", fmt::join(from.shape(), "x"),
         fmt::join(to.shape(), "x"));
  auto [f, t] = boxing::over_common_radices(from, to);
  return boxing::fetch_step(f, t, element_bytes, boxing::ElementCounter(cluster, false, device_mask));
}

int64_t shorten(std::vector<Layout>& layouts) {
  const std::vector<Shape> radices = layouts[0].radices;
  const int64_t positions = layouts[0].mesh.positions();
  int64_t product = 1;
  size_t f = 0;
  for (size_t a = 0; a < radices.size(); ++a)
    for (size_t s = 0; s < radices[a].size(); ++s, ++f) {
      const int64_t part = radices[a][s] / positions;
      if (part < 2 || radices[a][s] % positions != 0) continue;
      auto even = [&](const Interval& i) { return i.lo % part == 0 && i.hi % part == 0; };
      if (!std::all_of(layouts.begin(), layouts.end(),
                       [&](const Layout& l) { return std::ranges::all_of(l.boxes.along(f).intervals, even); }))
        continue;
      product *= part;
      for (Layout& l : layouts) {
        l.radices[a][s] = positions;
        Along along = l.boxes.along(f);
        for (Interval& i : along.intervals) i = {i.lo / part, i.hi / part};
        l.boxes = l.boxes.with(f, std::move(along));
      }
    }
  return product;
}

void for_each_inner_conversion(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                               const std::function<void(size_t which, const Layout& from, const Layout& to)>& go) {
  ensure(mesh.extents == derived.mesh, "inner steps of '{}': derived for mesh {}, asked for {}", bound.name,
         fmt::join(derived.mesh, "x"), fmt::join(mesh.extents, "x"));
  auto kinds = derived.kinds;  // kinds after the steps so far
  for (size_t i = 0; i < derived.inner.size(); ++i) {
    const tdl::InnerStep& inner = derived.inner[i];
    Layout at{mesh, bound.tensors[inner.tensor].radices, derived.boxes[inner.tensor], {}};
    for (size_t a = 0; a < mesh.extents.size(); ++a) at.kinds.push_back(kinds[a][inner.tensor]);
    Layout before = at;
    if (!inner.axes.empty()) {
      for (int a : inner.axes) kinds[a][inner.tensor].reset(), at.kinds[a].reset();
      go(i, before, at);
      before = at;
    }
    if (!inner.needed.empty()) {
      at.boxes = inner.needed;
      go(i, before, at);
    }
  }
}

std::vector<Conversion> inner_conversions(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                                          int64_t element_bytes, Converter& converter) {
  std::vector<Conversion> all(derived.inner.size());
  for_each_inner_conversion(bound, derived, mesh, [&](size_t i, const Layout& from, const Layout& to) {
    const Conversion& part = converter.convert(from, to, element_bytes);
    if (all[i].from.boxes.empty()) all[i].from = from;
    for (const Step& step : part.steps) all[i].steps.push_back(step);
    all[i].bytes += part.bytes;
    all[i].to = to;
  });
  return all;
}

int64_t inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element_bytes,
                    const Cluster& cluster) {
  int64_t bytes = 0;
  Converter converter(cluster);
  for (const Conversion& c : inner_conversions(bound, derived, mesh, element_bytes, converter)) bytes += c.bytes;
  return bytes;
}

}  // namespace partita
