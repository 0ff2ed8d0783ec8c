// Numbers layouts, and remembers their comparisons and conversions.
#include "partita/task_graph/known_layouts.h"

namespace partita {

namespace {

constexpr size_t kManyConversions = 4096, kManyPairs = size_t{1} << 18;

// Hashes numbers, one after another.
struct Sum {
  uint64_t h = 0;
  void add(int64_t value) {
    h = (h ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
};

uint64_t hash_of(const Mesh& mesh) {
  Sum sum;
  for (const int e : mesh.extents) sum.add(e);
  for (const DeviceId d : mesh.devices) sum.add(d.value);
  return sum.h;
}

uint64_t hash_of(const std::vector<Shape>& radices) {
  Sum sum;
  for (const Shape& axis : radices) {
    sum.add(-1);
    for (const int64_t radix : axis) sum.add(radix);
  }
  return sum.h;
}

template <typename T>
int numbered(std::unordered_map<uint64_t, std::vector<std::pair<T, int>>>& known, const T& value, int& count) {
  auto& alike = known[hash_of(value)];
  for (const auto& [other, number] : alike)
    if (other == value) return number;
  alike.emplace_back(value, count);
  return count++;
}

}  // namespace

size_t KnownLayouts::Hash::operator()(const Pair& pair) const {
  Sum sum;
  sum.add(int64_t{pair.from} << 32 | pair.to);
  sum.add(pair.element_bytes);
  return sum.h;
}

KnownLayouts::KnownLayouts(const Cluster& cluster)
    : cluster_(cluster), converter_(std::make_unique<Converter>(cluster)) {}

int KnownLayouts::number(const Layout& layout) {
  const int mesh = numbered(meshes_, layout.mesh, mesh_count_);
  const int radices = numbered(radices_, layout.radices, radices_count_);
  Sum sum;
  sum.add(mesh);
  sum.add(radices);
  for (const tdl::Kind& kind : layout.kinds) sum.add(kind ? static_cast<int64_t>(*kind) : -1);
  for (size_t d = 0; d < layout.boxes.rank(); ++d) {
    const Along& along = layout.boxes.along(d);
    for (const int axis : along.axes) sum.add(axis);
    for (const Interval& i : along.intervals) sum.add(i.lo), sum.add(i.hi);
  }
  std::vector<int>& alike = numbers_[sum.h];
  for (const int number : alike) {
    const Known& known = layouts_[static_cast<size_t>(number)];
    if (known.mesh == mesh && known.radices == radices && known.layout.kinds == layout.kinds &&
        known.layout.boxes == layout.boxes)
      return number;
  }
  alike.push_back(static_cast<int>(layouts_.size()));
  layouts_.push_back({layout, mesh, radices});
  return alike.back();
}

bool KnownLayouts::same_placement(int a, int b) {
  if (a == b) return true;
  const Known &x = layouts_[static_cast<size_t>(a)], &y = layouts_[static_cast<size_t>(b)];
  if (x.mesh != y.mesh) return false;
  if (same_.size() > kManyPairs) same_.clear();
  const auto [found, fresh] = same_.try_emplace({a, b});
  if (fresh) found->second = partita::same_placement(x.layout, y.layout);
  return found->second;
}

const Conversion& KnownLayouts::conversion(int from, int to, int64_t element_bytes) {
  const auto [found, fresh] = conversions_.try_emplace({from, to, element_bytes});
  if (fresh) found->second = &converter_->convert(layout(from), layout(to), element_bytes);
  return *found->second;
}

void KnownLayouts::forget_many() {
  if (conversions_.size() <= kManyConversions) return;
  conversions_.clear();
  converter_ = std::make_unique<Converter>(cluster_);
}

void KnownLayouts::forget() {
  conversions_.clear();
  converter_ = std::make_unique<Converter>(cluster_);
  layouts_.clear();
  numbers_.clear();
  meshes_.clear();
  radices_.clear();
  same_.clear();
  mesh_count_ = radices_count_ = 0;
}

}  // namespace partita
