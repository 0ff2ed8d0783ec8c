// Makes a cluster from a preset or a YAML file: devices and hosts first, then their routes.
#include <map>
#include <optional>
#include <set>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/cluster/cluster.h"
#include "partita/cluster/device_types.h"
#include "partita/cluster/links.h"
#include "partita/cluster/presets.h"
#include "partita/cluster/router.h"
#include "partita/cluster/tree.h"
#include "partita/cluster/yaml_size.h"

namespace partita {

using cluster_file::Reader;
using cluster_file::Tree;

namespace {

YAML::Node load_yaml(const Reader& r, const std::string& yaml) {
  cluster_file::validate_yaml_size(r, yaml);
  try {
    return YAML::Load(yaml);
  } catch (const YAML::Exception& e) {
    fail("{}:{}: not YAML: {}", r.origin, e.mark.line + 1, e.msg);
  }
}

// ", or --cluster dgx-h100:2" if the cluster is a preset that comes in more sizes.
std::string larger(const std::string& reference, int devices) {
  const std::optional<std::string> preset = preset_of_size(reference, devices);
  return preset ? fmt::format(", or --cluster {}", *preset) : "";
}

// The number of compute devices to keep: `devices` if positive, else what the file says.
int devices_kept(const Reader& r, const YAML::Node& use_devices, const std::string& name, int available, int devices) {
  if (!use_devices) return available;
  const int kept = devices > 0 ? devices : read_count(r, use_devices, "use_devices");
  if (kept > available)
    fail("{}: cluster '{}' has {} devices, {} are asked for; use at most {}{}", r.origin, name, available, kept,
         available, larger(r.origin, kept));
  return kept;
}

// Adds the first `kept` compute devices, then the hosts that feed them; returns their places.
std::vector<int> add_devices(const Tree& tree, int kept, Cluster& c) {
  std::vector<int> place_of;
  std::map<int, DeviceId> id_of_place;
  auto add = [&](const Device& device, int place) {
    id_of_place[place] = DeviceId(c.devices.size());
    place_of.push_back(place);
    c.devices.push_back(device);
  };
  std::set<int> needed;
  for (int i = 0; i < kept; ++i) {
    add(tree.compute[i], tree.compute_place[i]);
    if (tree.compute[i].kind == DeviceKind::kGpu) needed.insert(tree.places[tree.compute_place[i]].host_place);
  }
  c.compute_count = kept;
  for (size_t i = 0; i < tree.hosts.size(); ++i)
    if (needed.count(tree.hosts_place[i])) add(tree.hosts[i], tree.hosts_place[i]);
  for (size_t i = 0; i < c.devices.size(); ++i)
    c.devices[i].host =
        c.devices[i].kind == DeviceKind::kCpu ? DeviceId(i) : id_of_place.at(tree.places[place_of[i]].host_place);
  return place_of;
}

}  // namespace

namespace {

Cluster read_cluster(const Reader& r, std::string_view yaml, int devices) {
  YAML::Node root = load_yaml(r, std::string(yaml));
  validate_map(r, root, "cluster", {"name", "device_types", "topology"}, {"links", "use_devices"});
  Cluster c;
  c.name = read_word(r, root["name"], "name");
  if (devices > 0) {
    root["use_devices"] = devices;
    c.text = YAML::Dump(root) + "\n";
  } else {
    c.text = yaml;
  }
  Tree tree = read_tree(r, root["topology"], read_types(r, root["device_types"]));
  const int available = static_cast<int>(tree.compute.size());
  const std::vector<int> place_of =
      add_devices(tree, devices_kept(r, root["use_devices"], c.name, available, devices), c);
  add_routes(c, tree.places, place_of);
  if (const YAML::Node links = root["links"]) {
    std::set<std::string> all_names;
    for (const Device& d : tree.compute) all_names.insert(d.name);
    for (const Device& d : tree.hosts) all_names.insert(d.name);
    add_explicit_links(r, links, all_names, c);
  }
  return c;
}

}  // namespace

Cluster parse_cluster(std::string_view yaml, std::string_view origin, int devices) {
  const Reader r{std::string(origin)};
  try {
    return read_cluster(r, yaml, devices);
  } catch (const YAML::Exception& e) {
    fail("{}:{}: not a cluster: {}", origin, std::max(1, e.mark.line + 1), e.msg);
  }
}

Cluster load_cluster(std::string_view reference, int devices) {
  if (auto text = preset_text(reference)) return parse_cluster(*text, reference, devices);
  const std::string file(reference);
  if (!leads_somewhere(file)) {
    std::vector<std::string> names;
    for (const ClusterPreset& p : cluster_presets()) names.push_back(p.name);
    fail("cluster '{}' is neither a file that can be read nor a preset ({}){}", reference, fmt::join(names, ", "),
         one_cluster_hint(reference));
  }
  return parse_cluster(read_file(file, "a cluster's YAML file", kMostOfDescription), reference, devices);
}

}  // namespace partita
