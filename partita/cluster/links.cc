// Reads the links that a cluster file lists beside its tree.
#include "partita/cluster/links.h"

#include <map>

namespace partita::cluster_file {

namespace {

// The names that explicit links may use, and the links that exist.
struct KnownNames {
  std::map<std::string, DeviceId> devices;
  std::set<std::string> links;
};

void add_explicit_link(const Reader& r, const YAML::Node& node, Cluster& c, const std::set<std::string>& all_names,
                       KnownNames& known) {
  if (!node.IsMap()) r.fail_at(node, "a link must be a map");
  bool pair = static_cast<bool>(node["between"]);
  if (pair) validate_map(r, node, "link", {"between", "bandwidth_gbytes_per_s", "latency_us"});
  else validate_map(r, node, "link", {"from", "to", "bandwidth_gbytes_per_s", "latency_us"}, {"between"});
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

}  // namespace

void add_explicit_links(const Reader& r, const YAML::Node& links, const std::set<std::string>& all_names,
                        Cluster& cluster) {
  if (!links.IsSequence()) r.fail_at(links, "links must be a list");
  KnownNames known;
  for (size_t i = 0; i < cluster.devices.size(); ++i) known.devices.emplace(cluster.devices[i].name, i);
  for (const Link& l : cluster.links) known.links.insert(l.name);
  for (const auto& link : links) add_explicit_link(r, link, cluster, all_names, known);
}

}  // namespace partita::cluster_file
