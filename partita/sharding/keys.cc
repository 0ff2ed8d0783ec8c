// Layouts as keys of a memory.
#include "partita/sharding/keys.h"

#include <algorithm>

namespace partita::boxing {

namespace {

int64_t number_of(LayoutKeys& keys, const Along& along) {
  constexpr size_t kGolden = 0x9E3779B97F4A7C15u;
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
  const auto mesh = std::find(keys.meshes.begin(), keys.meshes.end(), layout.mesh);
  put(static_cast<int64_t>(mesh - keys.meshes.begin()));
  if (mesh == keys.meshes.end()) keys.meshes.push_back(layout.mesh);
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
