// Computes on meshes and layouts: coordinates, shapes, partial groups, their text.
#include "partita/sharding/layout.h"

#include "partita/base/error.h"
#include "partita/sharding/check_mesh.h"

namespace partita {

namespace {

bool same_box(const Box& a, const Box& b) { return a == b || (is_empty(a) && is_empty(b)); }

}  // namespace

void check_mesh(const Mesh& mesh) {
  int64_t n = 1;
  for (int e : mesh.extents) n *= e;
  ensure(n == mesh.positions(), "mesh of extents {} with {} devices", fmt::join(mesh.extents, "x"), mesh.positions());
}

std::vector<int> Mesh::coordinates(int position) const {
  std::vector<int> c(extents.size());
  for (size_t a = extents.size(); a-- > 0; position /= extents[a]) c[a] = position % extents[a];
  return c;
}

int Mesh::position(const std::vector<int>& coordinates) const {
  int p = 0;
  for (size_t a = 0; a < extents.size(); ++a) p = p * extents[a] + coordinates[a];
  return p;
}

int Mesh::position_of(DeviceId device) const {
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i] == device) return static_cast<int>(i);
  return -1;
}

std::string to_string(const Mesh& mesh) {
  constexpr int kListed = 16;
  std::vector<std::string> ids;
  for (size_t first = 0, last = 0; first < mesh.devices.size(); first = ++last) {
    while (mesh.positions() > kListed && last + 1 < mesh.devices.size() &&
           mesh.devices[last + 1].value == mesh.devices[last].value + 1)
      ++last;
    ids.push_back(last > first ? fmt::format("{}..{}", mesh.devices[first].value, mesh.devices[last].value)
                               : std::to_string(mesh.devices[first].value));
  }
  return fmt::format("{} [{}]", mesh.extents.empty() ? "1" : fmt::format("{}", fmt::join(mesh.extents, "x")),
                     fmt::join(ids, ", "));
}

Shape Layout::shape() const {
  Shape s;
  for (const Shape& r : radices) s.push_back(volume(r));
  return s;
}

bool Layout::is_partial() const {
  for (const tdl::Kind& k : kinds)
    if (k) return true;
  return false;
}

tdl::Reducer Layout::reducer() const {
  for (const tdl::Kind& k : kinds)
    if (k) return *k;
  ensure(false, "the reducer of a layout without partial values: {}", to_string(*this));
  return tdl::Reducer::kSum;
}

std::vector<int> Layout::partial_group(int position) const {
  std::vector<int> group, axes;
  int own = position, stride = mesh.positions();  // own: the position whose coordinates on the partial axes are 0
  for (size_t a = 0; a < kinds.size(); ++a) {
    stride /= mesh.extents[a];
    if (!kinds[a]) continue;
    axes.push_back(static_cast<int>(a));
    own -= position / stride % mesh.extents[a] * stride;
  }
  for_each_coordinate(mesh.extents, axes, [&](size_t member) { group.push_back(own + static_cast<int>(member)); });
  return group;
}

std::string to_string(const Layout& layout) {
  if (auto name = name_of(layout)) return to_string(layout.mesh) + " " + to_string(*name);
  std::string text;
  for (const Box& b : layout.boxes) text += (text.empty() ? "" : ", ") + to_string(b);
  std::string kinds;
  if (layout.is_partial())
    for (const tdl::Kind& k : layout.kinds)
      kinds += (kinds.empty() ? " " : ",") + (k ? fmt::format("P({})", tdl::name_of(*k)) : "-");
  return fmt::format("{} {{{}}}{}", to_string(layout.mesh), text, kinds);
}

bool same_placement(const Layout& a, const Layout& b) {
  if (a.mesh != b.mesh || a.kinds != b.kinds) return false;
  if (a.radices == b.radices) {
    if (!a.boxes.any_empty() || !b.boxes.any_empty() || a.boxes == b.boxes) return a.boxes == b.boxes;
    for (size_t p = 0; p < a.boxes.size(); ++p)
      if (!same_box(a.boxes[p], b.boxes[p])) return false;
    return true;
  }
  auto common = common_radices(a.radices, b.radices);
  if (!common) return false;
  auto fine_a = over_radices(a, *common), fine_b = over_radices(b, *common);
  return fine_a && fine_b && same_placement(*fine_a, *fine_b);
}

}  // namespace partita
