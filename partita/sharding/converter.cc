// Remembers conversions, for searches, which ask for the same ones very often.
#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>

#include "partita/sharding/boxing.h"
#include "partita/sharding/conversion.h"
#include "partita/sharding/keys.h"
#include "partita/sharding/members.h"
#include "partita/sharding/waypoints.h"

namespace partita {

using boxing::NamedLayout;

struct ConverterMemory {
  ConverterMemory(const Cluster& cluster, DeviceMask device_mask) : counter(cluster, true, std::move(device_mask)) {}

  boxing::ElementCounter counter;
  boxing::LayoutKeys keys;
  std::unordered_map<std::string, Conversion> conversions;
  std::unordered_map<std::string, int64_t> elements;         // that conversions move
  std::unordered_map<std::string, int64_t> guided_elements;  // those that table() has on meshes of many axes
  std::unordered_map<std::string, std::unique_ptr<boxing::Waypoints>> waypoints;       // by mesh, factoring and reducer
  std::map<std::pair<std::string, uint64_t>, std::unique_ptr<boxing::Reach>> reaches;  // by start and partial axes
  std::unordered_map<std::string, int> numbers;                                        // of layouts, by key
  std::deque<NamedLayout> numbered;                                                    // by number
};

namespace {

// The search from a partial layout over the waypoints of its mesh that are partial on `axes` only.
boxing::Reach& reach_of(ConverterMemory& memory, const NamedLayout& from, const std::string& key, uint64_t axes) {
  std::unique_ptr<boxing::Reach>& reach = memory.reaches[{key, axes}];
  if (reach) return *reach;
  Layout anywhere = from.layout;  // partial on all axes
  anywhere.boxes = {};
  std::fill(anywhere.kinds.begin(), anywhere.kinds.end(), from.layout.reducer());
  std::unique_ptr<boxing::Waypoints>& waypoints = memory.waypoints[key_of(memory.keys, anywhere)];
  if (!waypoints)
    waypoints = std::make_unique<boxing::Waypoints>(anywhere, boxing::partial_axes(anywhere), memory.counter);
  reach = std::make_unique<boxing::Reach>(from, axes, *waypoints);
  return *reach;
}

// A layout among those that table_of_alike() looks at.
struct Entry {
  Layout layout;
  int64_t volume;  // of all positions together
  bool has_partial;
  NamedLayout named;  // only if any of them is partial, as is the key
  std::string key;
};

std::vector<Entry> entries_of(ConverterMemory& memory, std::vector<Layout> layouts) {
  const bool partials = std::any_of(layouts.begin(), layouts.end(), boxing::has_partial_values);
  std::vector<Entry> entries;
  for (Layout& l : layouts) {
    memory.counter.make_known(l);
    Entry& entry = entries.emplace_back();
    entry.volume = memory.counter.total(l.boxes);
    entry.has_partial = boxing::has_partial_values(l);
    if (partials) entry.key = key_of(memory.keys, l), entry.named = {l, name_of(l)};
    entry.layout = std::move(l);
  }
  return entries;
}

// Elements from a layout to each of `to`, one mesh and one factoring.
void add_row(ConverterMemory& memory, const Entry& from, const std::vector<const Entry*>& to,
             std::vector<int64_t>& out) {
  const boxing::ElementCounter& counter = memory.counter;
  const bool few_axes = from.layout.mesh.extents.size() <= boxing::kAllAxes;
  std::map<uint64_t, boxing::Reach*> reaches;
  for (const Entry* t : to) {
    int64_t elements = 0;
    if (!from.has_partial && !t->has_partial) {
      elements = t->volume - counter.common(t->layout.boxes, from.layout.boxes);
    } else if (from.has_partial && few_axes) {
      const uint64_t axes = boxing::partial_axes_between(from.layout, t->layout);
      boxing::Reach*& reach = reaches[axes];
      if (!reach) reach = &reach_of(memory, from.named, from.key, axes);
      elements = fewest_elements(*reach, t->named, t->key);
    } else if (from.has_partial) {
      auto [found, fresh] = memory.guided_elements.try_emplace(from.key + t->key);
      if (fresh) found->second = guided_path(from.named, t->named, counter).cost.elements;
      elements = found->second;
    } else if (boxing::partial_member_count(t->layout) != t->layout.mesh.positions()) {  // else each keeps its box
      elements = direct_elements(from.named, t->named, counter);
    }
    out.push_back(elements);
  }
}

// Bytes from each of `from` to each of `to`, places in layouts of one mesh and one factoring: row-major.
std::vector<int64_t> table_of_alike(ConverterMemory& memory, std::vector<Layout> layouts, const std::vector<int>& from,
                                    const std::vector<int>& to, int64_t element_bytes) {
  std::vector<int64_t> out;
  if (from.empty() || to.empty()) return out;
  const int64_t scale = shorten(layouts) * element_bytes;
  const std::vector<Entry> entries = entries_of(memory, std::move(layouts));
  std::vector<const Entry*> columns;
  for (int t : to) columns.push_back(&entries[t]);
  out.reserve(from.size() * to.size());
  for (int f : from) add_row(memory, entries[f], columns, out);
  for (int64_t& n : out) n *= scale;
  return out;
}

// Groups the places in `some` by mesh and factoring.
std::vector<std::vector<size_t>> by_factoring(const std::vector<Layout>& layouts, const std::vector<int>& some) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < some.size(); ++i) {
    const Layout& l = layouts[some[i]];
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      return layouts[some[g[0]]].radices == l.radices && layouts[some[g[0]]].mesh == l.mesh;
    });
    if (alike == groups.end()) groups.push_back({i});
    else alike->push_back(i);
  }
  return groups;
}

// The layouts of a list whose boxes are boxes over another factoring too.
struct Refined {
  std::vector<int> all;      // by place in the list: the place among the refined layouts, or -1
  std::vector<int> refined;  // without these
};

// Appends the layouts over `radices` to `alike`, if they exist.
Refined refine(const std::vector<Layout>& layouts, const std::vector<int>& some, const std::vector<size_t>& which,
               const std::optional<std::vector<Shape>>& radices, std::vector<Layout>& alike) {
  Refined refined;
  for (size_t i : which) {
    auto over = radices ? over_radices(layouts[some[i]], *radices) : std::nullopt;
    refined.all.push_back(over ? static_cast<int>(alike.size()) : -1);
    if (!over) continue;
    refined.refined.push_back(static_cast<int>(alike.size()));
    alike.push_back(std::move(*over));
  }
  return refined;
}

}  // namespace

Converter::Converter(const Cluster& cluster, DeviceMask device_mask)
    : memory_(std::make_unique<ConverterMemory>(cluster, std::move(device_mask))) {}
Converter::~Converter() = default;

const Conversion& Converter::convert(const Layout& from, const Layout& to, int64_t element_bytes) {
  std::string key(reinterpret_cast<const char*>(&element_bytes), sizeof element_bytes);
  key += key_of(memory_->keys, from);
  key += key_of(memory_->keys, to);
  auto it = memory_->conversions.find(key);
  if (it == memory_->conversions.end())
    it =
        memory_->conversions.emplace(std::move(key), boxing::find_conversion(from, to, element_bytes, memory_->counter))
            .first;
  return it->second;
}

int64_t Converter::bytes(const Layout& from, const Layout& to, int64_t element_bytes) {
  // If nothing has to be combined, looking it up takes longer than counting it.
  if (from.radices == to.radices && !boxing::has_partial_values(from) && !boxing::has_partial_values(to))
    return boxing::conversion_elements(from, to, memory_->counter) * element_bytes;
  std::string key = key_of(memory_->keys, from);
  key += key_of(memory_->keys, to);
  auto [it, fresh] = memory_->elements.try_emplace(std::move(key));
  if (fresh) {
    auto [f, t] = boxing::over_common_radices(from, to);
    const bool on_one_mesh = f.radices == t.radices && f.mesh == t.mesh && f.mesh.extents.size() > 1;
    it->second = on_one_mesh && (boxing::has_partial_values(f) || boxing::has_partial_values(t))
                     ? table_of_alike(*memory_, {f, t}, {0}, {1}, 1)[0]
                     : boxing::conversion_elements(f, t, memory_->counter);
  }
  return it->second * element_bytes;
}

std::vector<int64_t> Converter::table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                                      const std::vector<int>& to, int64_t element_bytes) {
  std::vector<int64_t> out(from.size() * to.size(), 0);
  // Fills one block for each two factorings, over their common refinement.
  for (const std::vector<size_t>& rows : by_factoring(layouts, from))
    for (const std::vector<size_t>& columns : by_factoring(layouts, to)) {
      const Layout &first = layouts[from[rows[0]]], &other = layouts[to[columns[0]]];
      const auto common = first.mesh == other.mesh ? common_radices(first.radices, other.radices) : std::nullopt;
      std::vector<Layout> alike;
      const Refined f = refine(layouts, from, rows, common, alike), t = refine(layouts, to, columns, common, alike);
      const std::vector<int64_t> counted =
          table_of_alike(*memory_, std::move(alike), f.refined, t.refined, element_bytes);
      auto next = counted.begin();
      for (size_t r = 0; r < rows.size(); ++r)
        for (size_t c = 0; c < columns.size(); ++c)
          out[rows[r] * to.size() + columns[c]] =
              f.all[r] >= 0 && t.all[c] >= 0 ? *next++
                                             : bytes(layouts[from[rows[r]]], layouts[to[columns[c]]], element_bytes);
    }
  return out;
}

int64_t Converter::inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                               int64_t element_bytes) {
  int64_t sum = 0;
  for_each_inner_conversion(bound, derived, mesh, [&](size_t, const Layout& from, const Layout& to) {
    sum += bytes(from, to, element_bytes);
  });
  return sum;
}

int Converter::number(const Layout& layout) {
  const auto [found, fresh] =
      memory_->numbers.try_emplace(key_of(memory_->keys, layout), static_cast<int>(memory_->numbered.size()));
  if (fresh) memory_->numbered.push_back({layout, name_of(layout)});
  return found->second;
}

std::vector<int> Converter::through(int from, int to) {
  const NamedLayout &f = memory_->numbered[from], &t = memory_->numbered[to];
  if (f.layout.radices != t.layout.radices) {
    const auto [fine_from, fine_to] = boxing::over_common_radices(f.layout, t.layout);
    if (fine_from.radices == fine_to.radices) return through(number(fine_from), number(fine_to));
  }
  if (boxing::is_in_place(f.layout, t.layout)) return {};
  if (!boxing::has_partial_values(f.layout)) return {from, to};
  boxing::Path path;
  if (f.layout.mesh == t.layout.mesh && f.layout.radices == t.layout.radices &&
      f.layout.mesh.extents.size() <= boxing::kAllAxes) {
    const uint64_t axes = boxing::partial_axes_between(f.layout, t.layout);
    path = path_to(reach_of(*memory_, f, key_of(memory_->keys, f.layout), axes), t);
  } else {
    path = cheapest_path_between_meshes(f, t, memory_->counter);
  }
  std::vector<int> numbers;
  for (const NamedLayout& n : path.through) numbers.push_back(number(n.layout));
  return numbers;
}

Step Converter::step(int from, int to, int64_t element_bytes) const {
  return direct_step(memory_->numbered[from], memory_->numbered[to], element_bytes, memory_->counter);
}

}  // namespace partita
