// Reads the topology of a cluster file, and expands its counts into a tree of places.
#include "partita/cluster/tree.h"

#include <set>
#include <utility>

namespace partita::cluster_file {

namespace {

Wire read_wire(const Reader& r, const YAML::Node& node, const std::string& what) {
  validate_map(r, node, what, {"bandwidth_gbytes_per_s", "latency_us"}, {"per_device"});
  Wire wire;
  wire.bandwidth_bytes_per_s =
      1e9 * read_figure(r, node["bandwidth_gbytes_per_s"], what + ": bandwidth_gbytes_per_s", Sign::kPositive);
  wire.latency_us = read_figure(r, node["latency_us"], what + ": latency_us", Sign::kNotNegative);
  if (node["per_device"]) wire.per_device = read_flag(r, node["per_device"], what + ": per_device");
  return wire;
}

// Checks the keys of a level and of all levels below it, each once, whatever its count.
void validate_level(const Reader& r, const YAML::Node& node, bool root) {
  if (!node.IsMap()) r.fail_at(node, "a level must be a map with 'type' (a device) or 'children' (a switch)");
  std::string what =
      root ? "topology" : "level" + (node["name"] && node["name"].IsScalar() ? " '" + node["name"].Scalar() + "'" : "");
  if (!root && node["type"]) return validate_map(r, node, what, {"name", "type"}, {"count"});
  if (root) validate_map(r, node, what, {"link", "children"}, {"host"});
  else validate_map(r, node, what, {"name", "link", "children"}, {"count", "host"});
  const YAML::Node children = node["children"];
  if (!children.IsSequence() || children.size() == 0)
    r.fail_at(children, "{}: children must be a list of at least one level", what);
  for (const auto& child : children) validate_level(r, child, false);
}

// Far more than a tree of kMostDevices devices needs.
constexpr size_t kMostPlaces = size_t{8} * kMostDevices, kLongestName = 1000;

struct Expansion {
  const Reader& r;
  const std::map<std::string, Device>& types;
  Tree tree;
  std::set<std::string> names;
};

const Device& type_of(const Expansion& e, const YAML::Node& node, const std::string& what) {
  std::string model = read_word(e.r, node, what);
  auto it = e.types.find(model);
  if (it == e.types.end()) {
    std::vector<std::string> known;
    for (const auto& [name, d] : e.types) known.push_back(name);
    e.r.fail_at(node, "{} is '{}', which device_types does not have; {}", what, model, suggestion(model, known));
  }
  return it->second;
}

void claim(Expansion& e, const YAML::Node& node, const std::string& name) {
  if (!e.names.insert(name).second) e.r.fail_at(node, "the name '{}' is given to two places; rename one", name);
}

// Adds the host of the level `name` at place `at`; returns the host's place.
int add_host(Expansion& e, const YAML::Node& host, const std::string& name, const std::string& what, int at) {
  validate_map(e.r, host, what + ": host", {"type", "link"}, {"name"});
  Device d = type_of(e, host["type"], what + ": host: type");
  if (d.kind != DeviceKind::kCpu) e.r.fail_at(host["type"], "{}: host: '{}' is not of kind cpu", what, d.model);
  std::string own = host["name"] ? read_name(e.r, host["name"], what + ": host: name") : "host";
  d.name = name.empty() ? own : name + "." + own;
  claim(e, host, d.name);
  std::vector<Place>& places = e.tree.places;
  const int place = static_cast<int>(places.size());
  places.push_back(
      {d.name, at, places[at].depth + 1, true, read_wire(e.r, host["link"], what + ": host: link"), place});
  places[at].host_place = place;
  e.tree.hosts.push_back(d);
  e.tree.hosts_place.push_back(place);
  return place;
}

// Adds one place and all below it. `host_place`: the nearest host above.
void expand_place(Expansion& e, const YAML::Node& node, const std::string& name, int parent, Wire wire,
                  int host_place) {
  std::string what = name.empty() ? "topology" : fmt::format("level '{}'", name);
  Tree& tree = e.tree;
  const int at = static_cast<int>(tree.places.size());
  tree.places.push_back({name, parent, parent < 0 ? 0 : tree.places[parent].depth + 1, false, wire, host_place});
  if (parent >= 0) claim(e, node, name);
  if (tree.places.size() > kMostPlaces)
    e.r.fail_at(node, "more than {} levels and devices; reduce a count", kMostPlaces);
  if (name.size() > kLongestName)
    e.r.fail_at(node,
                "the name of a place, with those of the levels above it, has more than {} characters; shorten one",
                kLongestName);
  if (node["type"]) {
    Device d = type_of(e, node["type"], what + ": type");
    d.name = name;
    if (d.kind == DeviceKind::kGpu && host_place < 0)
      e.r.fail_at(node, "{} is a GPU, but no level above it has a 'host'; add one: {{type: .., link: {{..}}}}", what);
    tree.compute.push_back(d);
    tree.compute_place.push_back(at);
    return;
  }
  Wire inner = read_wire(e.r, node["link"], what + ": link");
  if (const YAML::Node host = node["host"]) host_place = add_host(e, host, name, what, at);
  const YAML::Node children = node["children"];
  for (const auto& child : children) {
    std::string base = read_name(e.r, child["name"], what + ": name of a child");
    int count = child["count"] ? read_count(e.r, child["count"], fmt::format("{}: count of '{}'", what, base)) : 1;
    for (int i = 0; i < count; ++i) {
      if (tree.compute.size() + tree.hosts.size() > kMostDevices)
        e.r.fail_at(child, "more than {} devices; reduce a count", kMostDevices);
      std::string local = child["count"] ? base + std::to_string(i) : base;
      expand_place(e, child, name.empty() ? local : fmt::format("{}.{}", name, local), at, inner, host_place);
    }
  }
}

}  // namespace

Tree read_tree(const Reader& r, const YAML::Node& topology, const std::map<std::string, Device>& types) {
  validate_level(r, topology, true);
  Expansion e{r, types, {}, {}};
  expand_place(e, topology, "", -1, {}, -1);
  return std::move(e.tree);
}

}  // namespace partita::cluster_file
