// Turns layouts into keys of a memory.
#include "partita/sharding/keys.h"

namespace partita::boxing {

namespace {

constexpr size_t kGolden = 0x9E3779B97F4A7C15u;

int64_t number_of(LayoutKeys& keys, const Mesh& mesh) {
  size_t hash = mesh.extents.size();
  for (const int e : mesh.extents) hash = (hash ^ static_cast<size_t>(e)) * kGolden;
  for (const DeviceId d : mesh.devices) hash = (hash ^ static_cast<size_t>(d.value)) * kGolden;
  auto& alike = keys.meshes[hash];
  for (const auto& [known, number] : alike)
    if (known == mesh) return number;
  alike.emplace_back(mesh, keys.mesh_count);
  return keys.mesh_count++;
}

int64_t number_of(LayoutKeys& keys, const Along& along) {
  size_t hash = along.intervals.size();
  for (const Interval& i : along.intervals)
    hash = ((hash ^ static_cast<size_t>(i.lo)) * kGolden ^ static_cast<size_t>(i.hi)) * kGolden;
  auto& alike = keys.numbers[hash];
  for (const auto& [known, number] : alike)
    if (known == along) return number;
  alike.emplace_back(along, keys.count);
  return keys.count++;
}

}  // namespace

std::string key_of(LayoutKeys& keys, const Layout& layout) {
  std::string key;
  auto put = [&](int64_t v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); };
  key.reserve(sizeof(int64_t) * (3 + layout.kinds.size() + 2 * layout.boxes.rank() + layout.radices.size()));
  put(number_of(keys, layout.mesh));
  for (const tdl::Kind& k : layout.kinds) put(k ? static_cast<int64_t>(*k) : -1);
  for (const Shape& r : layout.radices) {
    put(static_cast<int64_t>(r.size()));
    for (int64_t e : r) put(e);
  }
  put(-1);
  for (size_t f = 0; f < layout.boxes.rank(); ++f) put(number_of(keys, layout.boxes.along(f)));
  return key;
}

}  // namespace partita::boxing
