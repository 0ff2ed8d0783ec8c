#include "partita/cluster/cluster.h"

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cluster/presets.h"

namespace partita {

namespace {

// ---------------------------------------------------------------- strict YAML

struct Reader {
  std::string origin;

  template <typename... Args>
  [[noreturn]] void fail_at(const YAML::Node& node, fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}:{}: {}", origin, std::max(1, node.Mark().line + 1), fmt::format(format, std::forward<Args>(args)...));
  }
};

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The key that was probably meant: few letters away, or the same quantity in another unit.
template <typename Keys>
std::string suggestion(std::string_view key, const Keys& known) {
  std::string best;
  int best_score = std::numeric_limits<int>::max();
  for (std::string_view k : known) {
    int distance = edit_distance(key, k);
    size_t common = 0;
    while (common < std::min(key.size(), k.size()) && key[common] == k[common]) ++common;
    bool close = distance <= std::max<int>(1, static_cast<int>(k.size()) / 4) ||
                 (common >= 4 && common * 2 >= std::min(key.size(), k.size()));
    if (int score = distance - 2 * static_cast<int>(common); close && score < best_score) {
      best = k;
      best_score = score;
    }
  }
  if (!best.empty()) return fmt::format("did you mean '{}'?", best);
  return fmt::format("known are {}", fmt::join(known, ", "));
}

// `node` must be a map with no other keys than these, each once; `what` names it in messages.
void check_map(const Reader& r, const YAML::Node& node, const std::string& what,
               std::initializer_list<std::string_view> required,
               std::initializer_list<std::string_view> optional = {}) {
  if (!node.IsMap()) r.fail_at(node, "{} must be a map of keys and values", what);
  std::vector<std::string_view> known(required);
  known.insert(known.end(), optional);
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) r.fail_at(entry.first, "{}: a key must be a plain word", what);
    const std::string& key = entry.first.Scalar();
    if (std::find(known.begin(), known.end(), key) == known.end())
      r.fail_at(entry.first, "{}: unknown key '{}'; {}", what, key, suggestion(key, known));
    if (!seen.insert(key).second) r.fail_at(entry.first, "{}: '{}' is given twice; remove one", what, key);
  }
  for (std::string_view key : required)
    if (!seen.count(std::string(key)))
      r.fail_at(node, "{} lacks '{}'; add it (docs/cluster.md has an example)", what, key);
}

std::string read_word(const Reader& r, const YAML::Node& node, const std::string& what) {
  if (!node.IsScalar() || node.Scalar().empty()) r.fail_at(node, "{} must be a name", what);
  return node.Scalar();
}

std::string read_name(const Reader& r, const YAML::Node& node, const std::string& what) {
  std::string name = read_word(r, node, what);
  if (name.find_first_of(". \t*[],") != std::string::npos)
    r.fail_at(node, "{} '{}' may not hold dots, blanks, commas, brackets or stars: dots join the names of levels", what,
              name);
  return name;
}

enum class Sign { kPositive, kNotNegative };

double read_figure(const Reader& r, const YAML::Node& node, const std::string& what, Sign sign) {
  if (!node.IsScalar()) r.fail_at(node, "{} must be one number", what);
  const std::string& text = node.Scalar();
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !std::isfinite(value))
    r.fail_at(node, "{} is '{}', which is not a number; the unit stands in the key, give only the figure", what, text);
  if (sign == Sign::kPositive ? value <= 0 : value < 0)
    r.fail_at(node, "{} is {}; it must be {}", what, text, sign == Sign::kPositive ? "positive" : "zero or more");
  return value;
}

int read_count(const Reader& r, const YAML::Node& node, const std::string& what) {
  double value = read_figure(r, node, what, Sign::kPositive);
  if (value != std::floor(value) || value > kMostDevices)
    r.fail_at(node, "{} is {}; it must be a whole number from 1 to {}", what, node.Scalar(), kMostDevices);
  return static_cast<int>(value);
}

bool read_flag(const Reader& r, const YAML::Node& node, const std::string& what) {
  if (node.IsScalar() && node.Scalar() == "true") return true;
  if (node.IsScalar() && node.Scalar() == "false") return false;
  r.fail_at(node, "{} must be true or false", what);
}

// ---------------------------------------------------------------- the tree that the file describes

struct Wire {
  double bandwidth_bytes_per_s = 0, latency_us = 0;
  bool per_device = false;
};

Wire read_wire(const Reader& r, const YAML::Node& node, const std::string& what) {
  check_map(r, node, what, {"bandwidth_gbytes_per_s", "latency_us"}, {"per_device"});
  Wire wire;
  wire.bandwidth_bytes_per_s =
      1e9 * read_figure(r, node["bandwidth_gbytes_per_s"], what + ": bandwidth_gbytes_per_s", Sign::kPositive);
  wire.latency_us = read_figure(r, node["latency_us"], what + ": latency_us", Sign::kNotNegative);
  if (node["per_device"]) wire.per_device = read_flag(r, node["per_device"], what + ": per_device");
  return wire;
}

// `memory`, a figure with its unit, or `memory_gibytes`.
int64_t read_memory(const Reader& r, const YAML::Node& node, const std::string& what) {
  const YAML::Node memory = node["memory"], gibytes = node["memory_gibytes"];
  if (memory && gibytes) r.fail_at(memory, "{}: 'memory' and 'memory_gibytes' are both given; remove one", what);
  if (!memory && !gibytes) r.fail_at(node, "{} lacks 'memory_gibytes'; add it (docs/cluster.md has an example)", what);
  if (memory) {
    const std::string text = memory.IsScalar() ? memory.Scalar() : "";
    const std::optional<Bytes> bytes = parse_bytes(text);
    if (!bytes || bytes->bare)
      r.fail_at(memory, "{}: memory is '{}'; it takes a figure with its unit, as 80GB or 80GiB", what, text);
    return bytes->bytes;
  }
  if (gibytes.IsScalar())
    if (const std::optional<Bytes> bytes = parse_bytes(gibytes.Scalar()); bytes && !bytes->bare)
      r.fail_at(gibytes,
                "{}: memory_gibytes is '{}'; the unit stands in the key, give only the figure, or write memory: {}",
                what, gibytes.Scalar(), gibytes.Scalar());
  const double figure = read_figure(r, gibytes, what + ": memory_gibytes", Sign::kPositive);
  if (figure > 1e9) r.fail_at(gibytes, "{}: memory_gibytes is {}; the figure is in GiB, not bytes", what, figure);
  return static_cast<int64_t>(figure * 0x1p30);
}

Device read_type(const Reader& r, const YAML::Node& node, const std::string& model) {
  std::string what = fmt::format("device type '{}'", model);
  check_map(r, node, what,
            {"kind", "peak_tflop_per_s", "memory_bandwidth_gbytes_per_s", "efficiency", "launch_overhead_us"},
            {"memory", "memory_gibytes"});
  Device d;
  d.model = model;
  std::string kind = read_word(r, node["kind"], what + ": kind");
  if (kind != "gpu" && kind != "cpu") r.fail_at(node["kind"], "{}: kind is '{}'; it must be gpu or cpu", what, kind);
  d.kind = kind == "gpu" ? DeviceKind::kGpu : DeviceKind::kCpu;
  const YAML::Node peaks = node["peak_tflop_per_s"];
  check_map(r, peaks, what + ": peak_tflop_per_s", {"float32", "float64"}, {"float16", "bfloat16", "int64", "bool"});
  for (const auto& entry : peaks)
    d.peak_flops_per_s[parse_dtype(entry.first.Scalar())] =
        1e12 * read_figure(r, entry.second, what + ": peak_tflop_per_s: " + entry.first.Scalar(), Sign::kPositive);
  for (DType t : {DType::kInt64, DType::kBool, DType::kFloat16, DType::kBFloat16})
    d.peak_flops_per_s.emplace(t, d.peak_flops_per_s[DType::kFloat32]);
  d.memory_bytes = read_memory(r, node, what);
  d.memory_bandwidth_bytes_per_s = 1e9 * read_figure(r, node["memory_bandwidth_gbytes_per_s"],
                                                     what + ": memory_bandwidth_gbytes_per_s", Sign::kPositive);
  d.efficiency = read_figure(r, node["efficiency"], what + ": efficiency", Sign::kPositive);
  if (d.efficiency > 1)
    r.fail_at(node["efficiency"], "{}: efficiency is {}; it is a fraction, at most 1", what, d.efficiency);
  d.launch_overhead_us = read_figure(r, node["launch_overhead_us"], what + ": launch_overhead_us", Sign::kNotNegative);
  return d;
}

// A place in the expanded tree: a switch with children, or a device.
struct Place {
  std::string name;
  int parent = -1, depth = 0;
  bool is_host = false;
  Wire to_parent;       // its link pair to the parent's switch
  int host_place = -1;  // the nearest host: its own, or of a level above
  LinkId up, down;      // that pair, once a route has used it
};

struct Builder {
  Reader r;
  std::map<std::string, Device> types;
  std::vector<Place> places;
  std::vector<Device> compute, hosts;
  std::vector<int> compute_place, hosts_place;
  std::set<std::string> names;

  const Device& type(const YAML::Node& node, const std::string& what) {
    std::string model = read_word(r, node, what);
    auto it = types.find(model);
    if (it == types.end()) {
      std::vector<std::string> known;
      for (const auto& [name, d] : types) known.push_back(name);
      r.fail_at(node, "{} is '{}', which device_types does not have; {}", what, model, suggestion(model, known));
    }
    return it->second;
  }

  void claim(const YAML::Node& node, const std::string& name) {
    if (!names.insert(name).second) r.fail_at(node, "the name '{}' is given to two places; rename one", name);
  }

  // One place and all below it. `host_place`: the nearest host above.
  void expand(const YAML::Node& node, const std::string& name, int parent, Wire wire, int host_place) {
    std::string what = name.empty() ? "topology" : fmt::format("level '{}'", name);
    int at = static_cast<int>(places.size());
    places.push_back({name, parent, parent < 0 ? 0 : places[parent].depth + 1, false, wire, host_place});
    if (parent >= 0) claim(node, name);
    if (node["type"]) {
      Device d = type(node["type"], what + ": type");
      d.name = name;
      if (d.kind == DeviceKind::kGpu && host_place < 0)
        r.fail_at(node, "{} is a GPU, but no level above it has a 'host'; add one: {{type: .., link: {{..}}}}", what);
      compute.push_back(d);
      compute_place.push_back(at);
      return;
    }
    Wire inner = read_wire(r, node["link"], what + ": link");
    if (const YAML::Node host = node["host"]) {
      check_map(r, host, what + ": host", {"type", "link"}, {"name"});
      Device d = type(host["type"], what + ": host: type");
      if (d.kind != DeviceKind::kCpu) r.fail_at(host["type"], "{}: host: '{}' is not of kind cpu", what, d.model);
      std::string own = host["name"] ? read_name(r, host["name"], what + ": host: name") : "host";
      d.name = name.empty() ? own : name + "." + own;
      claim(host, d.name);
      host_place = static_cast<int>(places.size());
      places.push_back(
          {d.name, at, places[at].depth + 1, true, read_wire(r, host["link"], what + ": host: link"), host_place});
      places[at].host_place = host_place;
      hosts.push_back(d);
      hosts_place.push_back(host_place);
    }
    const YAML::Node children = node["children"];
    for (const auto& child : children) {
      std::string base = read_name(r, child["name"], what + ": name of a child");
      int count = child["count"] ? read_count(r, child["count"], fmt::format("{}: count of '{}'", what, base)) : 1;
      for (int i = 0; i < count; ++i) {
        if (compute.size() + hosts.size() > kMostDevices)
          r.fail_at(child, "more than {} devices; reduce a count", kMostDevices);
        std::string local = child["count"] ? base + std::to_string(i) : base;
        expand(child, name.empty() ? local : name + "." + local, at, inner, host_place);
      }
    }
  }

  // The keys of a level and of all below it, once each, whatever their counts.
  void check(const YAML::Node& node, bool root) {
    if (!node.IsMap()) r.fail_at(node, "a level must be a map with 'type' (a device) or 'children' (a switch)");
    std::string what =
        root ? "topology"
             : "level" + (node["name"] && node["name"].IsScalar() ? " '" + node["name"].Scalar() + "'" : "");
    if (!root && node["type"]) return check_map(r, node, what, {"name", "type"}, {"count"});
    if (root) check_map(r, node, what, {"link", "children"}, {"host"});
    else check_map(r, node, what, {"name", "link", "children"}, {"count", "host"});
    const YAML::Node children = node["children"];
    if (!children.IsSequence() || children.size() == 0)
      r.fail_at(children, "{}: children must be a list of at least one level", what);
    for (const auto& child : children) check(child, false);
  }
};

struct Router {
  Cluster& c;
  std::vector<Place>& places;
  std::map<std::pair<int, int>, std::pair<LinkId, LinkId>> own_wires;  // (device's place, switch) -> up, down

  LinkId add(const std::string& name, const Wire& w) {
    c.links.push_back({name, w.bandwidth_bytes_per_s, w.latency_us});
    return LinkId(c.links.size() - 1);
  }
  static std::string shown(const Place& p) { return p.name.empty() ? "top" : p.name; }

  // The link pair between `leaf` and the switch `parent`, for a leaf below the switch's child `child`.
  std::pair<LinkId, LinkId> wires(int leaf, int child, int parent) {
    Place& via = places[child];
    if (via.to_parent.per_device && child != leaf) {
      auto [it, fresh] = own_wires.try_emplace({leaf, parent});
      if (fresh) {
        it->second.first = add(places[leaf].name + "->" + shown(places[parent]), via.to_parent);
        it->second.second = add(shown(places[parent]) + "->" + places[leaf].name, via.to_parent);
      }
      return it->second;
    }
    if (!via.up.valid()) {
      via.up = add(via.name + "->" + shown(places[parent]), via.to_parent);
      via.down = add(shown(places[parent]) + "->" + via.name, via.to_parent);
    }
    return {via.up, via.down};
  }

  // From `leaf` up to the switch `top`: the links up, in order, and the links down, in reverse order of travel.
  void climb(int leaf, int top, std::vector<LinkId>& up, std::vector<LinkId>& down) {
    // The highest level below `top` whose devices have wires of their own is where they enter.
    std::vector<int> chain;  // leaf .. child of top
    for (int p = leaf; p != top; p = places[p].parent) chain.push_back(p);
    size_t start = 0;
    for (size_t i = 0; i < chain.size(); ++i)
      if (places[chain[i]].to_parent.per_device) start = i;
    for (size_t i = start; i < chain.size(); ++i) {
      auto [u, d] = wires(leaf, chain[i], places[chain[i]].parent);
      up.push_back(u);
      down.push_back(d);
    }
  }

  // A device and the host that feeds it over wires of its own: one pair of links, no switch.
  bool own_wired(int leaf, int host) const {
    return places[host].is_host && places[host].to_parent.per_device && places[leaf].host_place == host && host != leaf;
  }
  std::pair<LinkId, LinkId> own(int leaf, int host) {
    auto [it, fresh] = own_wires.try_emplace({leaf, host});
    if (fresh) {
      it->second.first = add(places[leaf].name + "->" + places[host].name, places[host].to_parent);
      it->second.second = add(places[host].name + "->" + places[leaf].name, places[host].to_parent);
    }
    return it->second;
  }

  int nearest_above_both(int a, int b) const {
    while (places[a].depth > places[b].depth) a = places[a].parent;
    while (places[b].depth > places[a].depth) b = places[b].parent;
    while (a != b) a = places[a].parent, b = places[b].parent;
    return a;
  }

  // Of all devices, by their places. Links are numbered in the order in which the routes of all pairs, row by row,
  // first use them.
  void add_routes(const std::vector<int>& place_of) {
    const size_t n = place_of.size();
    c.routes.climbs.resize(n);
    // By switch: the devices below, and those of them whose links up to it are still to be made.
    std::map<int, std::vector<int>> below;
    std::map<int, size_t> missing;
    for (int place : place_of)
      for (int top = places[place].parent; top >= 0; top = places[top].parent) below[top].push_back(place);
    for (const auto& [top, leaves] : below) {
      auto child = [&](int leaf) {
        while (places[leaf].parent != top) leaf = places[leaf].parent;
        return leaf;
      };
      const bool parts =
          std::any_of(leaves.begin(), leaves.end(), [&](int leaf) { return child(leaf) != child(leaves[0]); });
      for (int leaf : leaves)  // a host that is wired to all others below never climbs to its switch
        missing[top] += parts && !std::all_of(leaves.begin(), leaves.end(), [&](int other) {
                          return other == leaf || (places[leaf].parent == top && own_wired(other, leaf));
                        });
    }
    auto make = [&](size_t device, int top) {
      for (const Routes::Climb& made : c.routes.climbs[device])
        if (made.top == top) return;
      Routes::Climb climb_to{top, {}, {}};
      climb(place_of[device], top, climb_to.up, climb_to.down);
      std::reverse(climb_to.down.begin(), climb_to.down.end());
      c.routes.climbs[device].push_back(std::move(climb_to));
      if (missing[top] > 0) --missing[top];
    };
    std::map<int, std::vector<size_t>> wired;  // by host's place: the devices that it has wires of its own to
    for (size_t i = 0; i < n; ++i)
      if (const int host = places[place_of[i]].host_place; host >= 0 && own_wired(place_of[i], host))
        wired[host].push_back(i);
    std::map<int, size_t> device_of;
    for (size_t i = 0; i < n; ++i) device_of[place_of[i]] = i;
    for (size_t i = 0; i < n; ++i) {
      const int place = place_of[i], host = places[place].host_place;
      bool fresh = false;
      for (int top = places[place].parent; top >= 0 && !fresh; top = places[top].parent) fresh = missing[top] > 0;
      for (size_t j = fresh ? 0 : n; j < n; ++j) {
        if (i == j) continue;
        if (own_wired(place, place_of[j])) own(place, place_of[j]);
        else if (!own_wired(place_of[j], place)) {
          const int top = nearest_above_both(place, place_of[j]);
          make(i, top);
          make(j, top);
        }
      }
      if (host >= 0 && own_wired(place, host) && device_of.count(host)) {
        const auto [up, down] = own(place, host);
        c.routes.set(DeviceId(i), DeviceId(device_of[host]), {up});
        c.routes.set(DeviceId(device_of[host]), DeviceId(i), {down});
      }
    }
    for (size_t i = 0; i < n; ++i)
      std::sort(c.routes.climbs[i].begin(), c.routes.climbs[i].end(),
                [&](const auto& a, const auto& b) { return places[a.top].depth > places[b.top].depth; });
  }
};

// What explicit links may name, and those there are.
struct KnownNames {
  std::map<std::string, DeviceId> devices;
  std::set<std::string> links;
};

void add_explicit_link(const Reader& r, const YAML::Node& node, Cluster& c, const std::set<std::string>& all_names,
                       KnownNames& known) {
  if (!node.IsMap()) r.fail_at(node, "a link must be a map");
  bool pair = static_cast<bool>(node["between"]);
  if (pair) check_map(r, node, "link", {"between", "bandwidth_gbytes_per_s", "latency_us"});
  else check_map(r, node, "link", {"from", "to", "bandwidth_gbytes_per_s", "latency_us"}, {"between"});
  if (pair && (!node["between"].IsSequence() || node["between"].size() != 2))
    r.fail_at(node["between"], "link: between must be a list of two devices");
  YAML::Node ends[2] = {pair ? node["between"][0] : node["from"], pair ? node["between"][1] : node["to"]};
  DeviceId ids[2];
  std::string names[2];
  for (int e = 0; e < 2; ++e) {
    names[e] = read_word(r, ends[e], "link: an end");
    if (const auto found = known.devices.find(names[e]); found != known.devices.end()) ids[e] = found->second;
    if (!ids[e].valid() && !all_names.count(names[e]))
      r.fail_at(ends[e], "link: no device is named '{}'; {}", names[e], suggestion(names[e], all_names));
  }
  if (names[0] == names[1]) r.fail_at(node, "link: both ends are '{}'", names[0]);
  double bandwidth =
      1e9 * read_figure(r, node["bandwidth_gbytes_per_s"], "link: bandwidth_gbytes_per_s", Sign::kPositive);
  double latency = read_figure(r, node["latency_us"], "link: latency_us", Sign::kNotNegative);
  if (!ids[0].valid() || !ids[1].valid()) return;  // of a device that `use_devices` leaves out
  for (int e = 0; e < (pair ? 2 : 1); ++e) {
    std::string name = fmt::format("{}=>{}", names[e], names[1 - e]);
    if (!known.links.insert(name).second)
      r.fail_at(node, "link: the link from '{}' to '{}' is given twice; remove one", names[e], names[1 - e]);
    c.links.push_back({name, bandwidth, latency});
    c.routes.set(ids[e], ids[1 - e], {LinkId(c.links.size() - 1)});
  }
}

// ", or --cluster dgx-h100:2", where the cluster is a preset that comes in more sizes.
std::string larger(const std::string& reference, int devices) {
  const std::optional<std::string> preset = preset_of_size(reference, devices);
  return preset ? fmt::format(", or --cluster {}", *preset) : "";
}

}  // namespace

Cluster parse_cluster(std::string_view yaml, std::string_view origin, int devices) {
  Reader r{std::string(origin)};
  YAML::Node root;
  try {
    root = YAML::Load(std::string(yaml));
  } catch (const YAML::Exception& e) {
    fail("{}:{}: not YAML: {}", r.origin, e.mark.line + 1, e.msg);
  }
  check_map(r, root, "cluster", {"name", "device_types", "topology"}, {"links", "use_devices"});
  Cluster c;
  c.name = read_word(r, root["name"], "name");
  if (devices > 0) {
    root["use_devices"] = devices;
    c.text = YAML::Dump(root) + "\n";
  } else {
    c.text = yaml;
  }
  Builder b{r};
  const YAML::Node types = root["device_types"];
  if (!types.IsMap() || types.size() == 0) r.fail_at(types, "device_types must be a map from a name to its figures");
  for (const auto& entry : types) {
    std::string model = read_word(r, entry.first, "a device type's name");
    if (b.types.count(model)) r.fail_at(entry.first, "device type '{}' is given twice; rename one", model);
    b.types[model] = read_type(r, entry.second, model);
  }
  b.check(root["topology"], true);
  b.expand(root["topology"], "", -1, {}, -1);

  int available = static_cast<int>(b.compute.size()), kept = available;
  if (root["use_devices"]) {
    kept = devices > 0 ? devices : read_count(r, root["use_devices"], "use_devices");
    if (kept > available)
      fail("{}: cluster '{}' has {} devices, {} are asked for; use at most {}{}", r.origin, c.name, available, kept,
           available, larger(r.origin, kept));
  }
  // Compute devices first, then the hosts that feed one that is kept.
  std::vector<int> place_of;
  std::map<int, DeviceId> id_of_place;
  for (int i = 0; i < kept; ++i) {
    id_of_place[b.compute_place[i]] = DeviceId(c.devices.size());
    place_of.push_back(b.compute_place[i]);
    c.devices.push_back(b.compute[i]);
  }
  c.compute_count = kept;
  std::set<int> needed;
  for (int i = 0; i < kept; ++i)
    if (b.compute[i].kind == DeviceKind::kGpu) needed.insert(b.places[b.compute_place[i]].host_place);
  for (size_t i = 0; i < b.hosts.size(); ++i)
    if (needed.count(b.hosts_place[i])) {
      id_of_place[b.hosts_place[i]] = DeviceId(c.devices.size());
      place_of.push_back(b.hosts_place[i]);
      c.devices.push_back(b.hosts[i]);
    }
  for (size_t i = 0; i < c.devices.size(); ++i)
    c.devices[i].host =
        c.devices[i].kind == DeviceKind::kCpu ? DeviceId(i) : id_of_place.at(b.places[place_of[i]].host_place);

  Router router{c, b.places, {}};
  router.add_routes(place_of);

  if (const YAML::Node links = root["links"]) {
    if (!links.IsSequence()) r.fail_at(links, "links must be a list");
    std::set<std::string> all_names;
    for (const Device& d : b.compute) all_names.insert(d.name);
    for (const Device& d : b.hosts) all_names.insert(d.name);
    KnownNames known;
    for (size_t i = 0; i < c.devices.size(); ++i) known.devices.emplace(c.devices[i].name, i);
    for (const Link& l : c.links) known.links.insert(l.name);
    for (const auto& link : links) add_explicit_link(r, link, c, all_names, known);
  }
  return c;
}

Cluster load_cluster(std::string_view reference, int devices) {
  if (auto text = preset_text(reference)) return parse_cluster(*text, reference, devices);
  std::ifstream file{std::string(reference)};
  if (!file) {
    std::vector<std::string> names;
    for (const ClusterPreset& p : cluster_presets()) names.push_back(p.name);
    fail("cluster '{}' is neither a file that can be read nor a preset ({})", reference, fmt::join(names, ", "));
  }
  std::stringstream text;
  text << file.rdbuf();
  if (!file) fail("cluster '{}' cannot be read; give a YAML file (docs/cluster.md)", reference);
  return parse_cluster(text.str(), reference, devices);
}

const std::vector<LinkId>* Routes::own(DeviceId from, DeviceId to) const {
  if (from.index() >= own_.size()) return nullptr;
  const auto found = own_[from.index()].find(to.value);
  return found == own_[from.index()].end() ? nullptr : &found->second;
}

std::vector<int> Routes::own_to(DeviceId from) const {
  std::vector<int> devices;
  if (from.index() >= own_.size()) return devices;
  for (const auto& [to, links] : own_[from.index()]) devices.push_back(to);
  return devices;
}

void Routes::set(DeviceId from, DeviceId to, std::vector<LinkId> links) {
  if (own_.size() <= from.index()) own_.resize(from.index() + 1);
  own_[from.index()][to.value] = std::move(links);
}

int Routes::nearest_switch(DeviceId from, DeviceId to) const {
  for (const Climb& a : climbs[from.index()])
    for (const Climb& b : climbs[to.index()])
      if (a.top == b.top) return a.top;
  return -1;
}

std::vector<LinkId> Routes::between(DeviceId from, DeviceId to) const {
  std::vector<LinkId> links;
  for_each_link(from, to, [&](LinkId l) { links.push_back(l); });
  return links;
}

LinkId Cluster::narrowest(DeviceId from, DeviceId to) const {
  LinkId best;
  routes.for_each_link(from, to, [&](LinkId l) {
    if (!best.valid() || link(l).bandwidth_bytes_per_s < link(best).bandwidth_bytes_per_s) best = l;
  });
  return best;
}

double Cluster::bandwidth(DeviceId from, DeviceId to) const {
  LinkId l = narrowest(from, to);
  return l.valid() ? link(l).bandwidth_bytes_per_s : std::numeric_limits<double>::infinity();
}

double Cluster::latency_us(DeviceId from, DeviceId to) const {
  double sum = 0;
  routes.for_each_link(from, to, [&](LinkId l) { sum += link(l).latency_us; });
  return sum;
}

DeviceId Cluster::find_device(std::string_view name) const {
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i].name == name) return DeviceId(i);
  return DeviceId();
}

namespace {

// Of the pairs of devices of different children that no wire of their own joins, as many as join what all of them do: a
// forest. What is not reached yet is asked for child by child, so that only wires are asked about in vain.
template <typename HasWire>
void add_forest(const std::vector<int>& devices, const std::vector<int>& children, const HasWire& has_wire,
                std::vector<std::pair<int, int>>& pairs) {
  std::map<int, std::vector<int>> left;  // by child
  for (size_t i = 0; i < devices.size(); ++i) left[children[i]].push_back(devices[i]);
  while (!left.empty()) {
    std::vector<std::pair<int, int>> reached = {{left.begin()->second.back(), left.begin()->first}};  // device, child
    left.begin()->second.pop_back();
    for (size_t at = 0; at < reached.size(); ++at) {
      const auto [from, own] = reached[at];
      for (auto& [child, those] : left) {
        if (child == own) continue;
        std::erase_if(those, [&, from = from, child = child](int d) {
          if (has_wire(from, d)) return false;
          pairs.emplace_back(std::minmax(from, d));
          reached.emplace_back(d, child);
          return true;
        });
      }
      std::erase_if(left, [](const auto& entry) { return entry.second.empty(); });
    }
  }
}

// Compute devices, a < b, so that whatever all pairs of a speed and faster ones join, those of them that are listed
// join as well: all with a wire of their own, and all that meet at a switch; but below a switch to which all devices
// have links of one speed, a forest.
std::vector<std::pair<int, int>> pairs_that_join(const Cluster& cluster) {
  const int n = cluster.compute_count;
  std::vector<std::pair<int, int>> pairs;
  for (int d = 0; d < n; ++d)
    for (int other : cluster.routes.own_to(DeviceId(size_t(d))))
      if (other < n) pairs.emplace_back(std::minmax(d, other));
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  const std::vector<std::pair<int, int>> wired = pairs;
  auto has_wire = [&](int a, int b) {
    return std::binary_search(wired.begin(), wired.end(), std::pair<int, int>(std::minmax(a, b)));
  };
  auto all = [&](const std::vector<int>& devices, const auto& meet) {
    for (size_t i = 0; i < devices.size(); ++i)
      for (size_t j = i + 1; j < devices.size(); ++j)
        if (meet(devices[i], devices[j])) pairs.emplace_back(devices[i], devices[j]);
  };
  struct Below {
    std::vector<int> devices, children;  // the switch's child that each is below: the switch before, or itself
    bool alike = true;
  };
  auto speed = [&](const std::vector<LinkId>& links) {
    double bandwidth = std::numeric_limits<double>::infinity(), latency = 0;
    for (LinkId l : links)
      bandwidth = std::min(bandwidth, cluster.link(l).bandwidth_bytes_per_s), latency += cluster.link(l).latency_us;
    return std::pair(bandwidth, latency);
  };
  std::map<int, Below> switches;
  std::map<int, std::array<std::pair<double, double>, 2>> first;
  for (int d = 0; d < n; ++d) {
    int child = -1 - d;
    if (cluster.routes.climbs.size() <= static_cast<size_t>(d)) break;
    for (const Routes::Climb& climb : cluster.routes.climbs[static_cast<size_t>(d)]) {
      Below& below = switches[climb.top];
      const std::array<std::pair<double, double>, 2> mine = {speed(climb.up), speed(climb.down)};
      const auto [known, fresh] = first.try_emplace(climb.top, mine);
      below.alike = below.alike && known->second == mine;
      below.devices.push_back(d);
      below.children.push_back(child);
      child = climb.top;
    }
  }
  for (const auto& [top, below] : switches) {
    if (!below.alike) {
      all(below.devices,
          [&](int a, int b) { return cluster.routes.nearest_switch(DeviceId(size_t(a)), DeviceId(size_t(b))) == top; });
      continue;
    }
    add_forest(below.devices, below.children, has_wire, pairs);
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

}  // namespace

// Groups are joined from the fastest pair of devices to the slowest (single linkage); each group is a stretch of the
// list, so that what is joined last, over the slowest links, is parted first. The larger group goes first, then the one
// with the lower device, so that equal parts fall between groups where sizes allow it.
std::vector<DeviceId> slowest_link_first(const Cluster& cluster) {
  int n = cluster.compute_count;
  struct Pair {
    double bandwidth, latency;
    int a, b;
  };
  std::vector<Pair> pairs;
  for (const auto& [a, b] : pairs_that_join(cluster)) {
    DeviceId x{size_t(a)}, y{size_t(b)};
    pairs.push_back({std::min(cluster.bandwidth(x, y), cluster.bandwidth(y, x)),
                     std::max(cluster.latency_us(x, y), cluster.latency_us(y, x)), a, b});
  }
  auto faster = [](const Pair& p, const Pair& q) {
    return p.bandwidth != q.bandwidth ? p.bandwidth > q.bandwidth : p.latency < q.latency;
  };
  std::stable_sort(pairs.begin(), pairs.end(), faster);
  std::vector<std::vector<int>> groups(n);
  std::vector<int> group_of(n);
  for (int i = 0; i < n; ++i) groups[i] = {i}, group_of[i] = i;
  for (size_t i = 0; i < pairs.size();) {
    // All pairs of one speed join at once, so that their order does not depend on which is looked at first.
    size_t end = i;
    while (end < pairs.size() && !faster(pairs[i], pairs[end])) ++end;
    std::vector<int> leader(n);
    std::iota(leader.begin(), leader.end(), 0);
    auto find = [&](int g) {
      while (leader[g] != g) g = leader[g];
      return g;
    };
    for (; i < end; ++i) {
      int a = find(group_of[pairs[i].a]), b = find(group_of[pairs[i].b]);
      leader[std::max(a, b)] = std::min(a, b);
    }
    std::map<int, std::vector<int>> joined;
    for (int g = 0; g < n; ++g)
      if (!groups[g].empty()) joined[find(g)].push_back(g);
    for (auto& [head, members] : joined) {
      if (members.size() == 1) continue;
      std::stable_sort(members.begin(), members.end(), [&](int x, int y) {
        if (groups[x].size() != groups[y].size()) return groups[x].size() > groups[y].size();
        return *std::min_element(groups[x].begin(), groups[x].end()) <
               *std::min_element(groups[y].begin(), groups[y].end());
      });
      std::vector<int> all;
      for (int g : members) {
        all.insert(all.end(), groups[g].begin(), groups[g].end());
        groups[g].clear();
      }
      for (int d : all) group_of[d] = head;
      groups[head] = all;
    }
  }
  std::vector<DeviceId> order;
  for (const std::vector<int>& g : groups)
    for (int d : g) order.push_back(DeviceId(size_t(d)));
  return order;
}

}  // namespace partita
