// Reads and validates placement instances.
#include "partita/partitioning/instance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

#include "partita/base/json_fields.h"

namespace partita::partitioning {

namespace {

using Json = nlohmann::ordered_json;
constexpr double kSameCost = 1e-6;     // costs of one output may differ by so much, as in the authors' programs
constexpr int kMostDevices = 100'000;  // of one kind

const Json& list(Fields& fields, const std::string& key, const std::string& file) {
  const Json& found = fields.get(key);
  if (!found.is_array()) fail("{}: the field '{}' is a list, not {}", file, key, found.type_name());
  return found;
}

double amount(Fields& fields, const std::string& key, const std::string& where) {
  const double value = fields.value<double>(key);
  constexpr double kMost = 1e200;  // sums of these are finite
  if (!(value >= 0 && value <= kMost))
    fail("{}: the field '{}' is {}; give a number from 0 to {}", where, key, value, kMost);
  return value;
}

int device_count(Fields& fields, const std::string& key, const std::string& file) {
  const int value = fields.value<int>(key);
  if (value < 0 || value > kMostDevices)
    fail("{}: the field '{}' is {}; give a number from 0 to {}", file, key, value, kMostDevices);
  return value;
}

// true, false, 1 or 0.
bool flag(Fields& fields, const std::string& key, const std::string& where) {
  const Json& found = fields.get(key);
  if (found.is_boolean()) return found.get<bool>();
  if (found.is_number_integer() && (found == 0 || found == 1)) return found == 1;
  fail("{}: the field '{}' is {}; give true, false, 1 or 0", where, key,
       found.dump(-1, ' ', false, Json::error_handler_t::replace));
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Instance read(std::string_view text) {
    const Json json = parse_json_object(text, file_);
    Fields fields(json, file_);
    instance_.max_size = amount(fields, "maxSizePerFPGA", file_);
    instance_.accelerators = device_count(fields, "maxFPGAs", file_);
    instance_.cpus = device_count(fields, "maxCPUs", file_);
    if (instance_.accelerators + instance_.cpus == 0)
      fail("{}: maxFPGAs and maxCPUs are both 0; give at least one device", file_);
    for (const Json& node : list(fields, "nodes", file_)) add_node(node);
    if (instance_.nodes.empty()) fail("{}: there are no nodes; give at least one", file_);
    for (const Json& edge : list(fields, "edges", file_)) add_edge(edge);
    for (Node& node : instance_.nodes)
      for (std::vector<int>* of : {&node.readers, &node.reads}) {
        std::sort(of->begin(), of->end());
        of->erase(std::unique(of->begin(), of->end()), of->end());
      }
    put_in_order();
    return std::move(instance_);
  }

 private:
  void add_node(const Json& json) {
    std::string where = fmt::format("{}: nodes[{}]", file_, instance_.nodes.size());
    Fields fields(json, where);
    Node node;
    node.id = fields.value<long long>("id");
    where += fmt::format(" (id {})", node.id);
    Fields named(json, where);
    node.supported = flag(named, "supportedOnFpga", where);
    node.backward = flag(named, "isBackwardNode", where);
    node.cpu = amount(named, "cpuLatency", where);
    node.accelerator = amount(named, "fpgaLatency", where);
    if (named.optional("size")) node.size = amount(named, "size", where);
    node.color = instance_.colors;
    if (named.optional("colorClass")) {
      const auto [at, is_new] = colors_.emplace(named.value<long long>("colorClass"), instance_.colors);
      node.color = at->second;
      instance_.colors += is_new;
    } else {
      ++instance_.colors;
    }
    const auto [at, is_new] = index_.emplace(node.id, instance_.nodes.size());
    if (!is_new) fail("{}: nodes[{}] has this id too; give each node its own", where, at->second);
    instance_.nodes.push_back(std::move(node));
    first_edge_.emplace_back();
  }

  int node_of(Fields& fields, const std::string& key, const std::string& where) const {
    const auto id = fields.value<long long>(key);
    const auto found = index_.find(id);
    if (found == index_.end()) fail("{}: {} is {}, and no node has this id; name one of nodes", where, key, id);
    return static_cast<int>(found->second);
  }

  void add_edge(const Json& json) {
    const std::string where = fmt::format("{}: edges[{}]", file_, edges_);
    Fields fields(json, where);
    const int source = node_of(fields, "sourceId", where), target = node_of(fields, "destId", where);
    Node& from = instance_.nodes[source];
    Node& to = instance_.nodes[target];
    const double cost = amount(fields, "cost", where);
    if (source == target) fail("{}: leads from node {} to itself; leave it out", where, from.id);
    if (from.backward && !to.backward)
      fail("{}: leads from the backward node {} to the forward node {}; forward nodes read forward nodes only", where,
           from.id, to.id);
    if (!first_edge_[source]) {
      first_edge_[source] = edges_;
      from.cost = cost;
    } else if (std::abs(cost - from.cost) > kSameCost) {
      fail("{}: the cost of node {}'s output is {} here and {} in edges[{}]; give all its edges the same", where,
           from.id, cost, from.cost, *first_edge_[source]);
    }
    from.readers.push_back(target);
    to.reads.push_back(source);
    ++edges_;
  }

  void put_in_order() {
    const auto& nodes = instance_.nodes;
    std::vector<int>& order = instance_.order;
    std::vector<size_t> missing;
    for (size_t v = 0; v < nodes.size(); ++v) {
      missing.push_back(nodes[v].reads.size());
      if (missing[v] == 0) order.push_back(static_cast<int>(v));
    }
    for (size_t at = 0; at < order.size(); ++at)
      for (const int reader : nodes[order[at]].readers)
        if (--missing[reader] == 0) order.push_back(reader);
    if (order.size() == nodes.size()) return;
    size_t v = 0;
    while (missing[v] == 0) ++v;
    // Back from a node that waits, so many times that only a node of a cycle is left.
    for (size_t step = 0; step < nodes.size(); ++step)
      v = *std::find_if(nodes[v].reads.begin(), nodes[v].reads.end(), [&](int u) { return missing[u] > 0; });
    fail("{}: node {} reads, through others, what it makes itself; take an edge out of this cycle", file_, nodes[v].id);
  }

  const std::string& file_;
  Instance instance_;
  std::unordered_map<long long, size_t> index_;
  std::map<long long, int> colors_;
  std::vector<std::optional<int>> first_edge_;  // of each node's output
  int edges_ = 0;
};

}  // namespace

Instance parse_instance(std::string_view text, const std::string& file) { return Reader(file).read(text); }

}  // namespace partita::partitioning
