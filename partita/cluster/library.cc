// Names the algorithms of collective libraries, and reads their rows in cluster files.
#include "partita/cluster/library.h"

#include <array>
#include <set>

#include "partita/cluster/device_types.h"

namespace partita {

namespace {

// In cluster files, pairwise rows that stand alone are called direct.
constexpr std::array<std::string_view, 6> kNames = {"ring", "tree", "nvls", "hierarchical", "pairwise", "direct"};
constexpr size_t kDirect = kNames.size() - 1;
static_assert(kDirect == static_cast<size_t>(CollectiveAlgorithm::kPairwise) + 1);

}  // namespace

std::string_view name_of(CollectiveAlgorithm algorithm) { return kNames[static_cast<size_t>(algorithm)]; }

std::string LibraryRow::name() const {
  return protocol.empty() ? std::string(name_of(algorithm)) : fmt::format("{} {}", name_of(algorithm), protocol);
}

namespace cluster_file {

namespace {

double fraction(const Reader& r, const YAML::Node& node, const std::string& what) {
  const double value = read_figure(r, node, what, Sign::kPositive);
  if (value > 2) r.fail_at(node, "{} is {}; it is a part of a link's rate, about 1 at most", what, node.Scalar());
  return value;
}

LibraryRow read_row(const Reader& r, const YAML::Node& node, const std::string& where) {
  const std::string what = where + ": a row of collectives";
  validate_map(r, node, what, {"algorithm", "launch_us"},
               {"protocol", "hop_us", "network_hop_us", "bandwidth", "network_bandwidth", "own_part", "least_devices"});
  LibraryRow row;
  const std::string algorithm = read_word(r, node["algorithm"], what + ": algorithm");
  const auto known = std::find(kNames.begin(), kNames.end(), algorithm);
  if (known == kNames.end())
    r.fail_at(node["algorithm"], "{}: algorithm is '{}'; {}", what, algorithm, suggestion(algorithm, kNames));
  row.algorithm = algorithm == kNames[kDirect] ? CollectiveAlgorithm::kPairwise
                                               : static_cast<CollectiveAlgorithm>(known - kNames.begin());
  if (const YAML::Node n = node["protocol"]) row.protocol = read_word(r, n, what + ": protocol");
  row.launch_us = read_figure(r, node["launch_us"], what + ": launch_us", Sign::kNotNegative);
  if (const YAML::Node n = node["hop_us"]) row.hop_us = read_figure(r, n, what + ": hop_us", Sign::kNotNegative);
  if (const YAML::Node n = node["network_hop_us"])
    row.network_hop_us = read_figure(r, n, what + ": network_hop_us", Sign::kNotNegative);
  if (const YAML::Node n = node["bandwidth"]) row.bandwidth = fraction(r, n, what + ": bandwidth");
  if (const YAML::Node n = node["network_bandwidth"])
    row.network_bandwidth = fraction(r, n, what + ": network_bandwidth");
  if (const YAML::Node n = node["own_part"]) row.own_part = read_figure(r, n, what + ": own_part", Sign::kNotNegative);
  if (const YAML::Node n = node["least_devices"]) row.least_devices = read_count(r, n, what + ": least_devices");
  return row;
}

// Checks that rows of all kinds of collectives exist, and that no others stand beside direct ones, which keep other
// links busy.
void validate_algorithms(const Reader& r, const YAML::Node& rows, const std::string& what) {
  std::set<std::string> algorithms;
  for (const auto& row : rows) algorithms.insert(row["algorithm"].Scalar());
  if (const std::string direct(kNames[kDirect]); algorithms.contains(direct)) {
    for (const auto& row : rows)
      if (const std::string other = row["algorithm"].Scalar(); other != direct)
        r.fail_at(row,
                  "{}: collectives has a row of {} beside direct, which stands for all collectives and transfers; "
                  "remove one of the two",
                  what, other);
    return;
  }
  for (const auto& needed : {name_of(CollectiveAlgorithm::kRing), name_of(CollectiveAlgorithm::kPairwise)})
    if (!algorithms.contains(std::string(needed)))
      r.fail_at(rows, "{}: collectives lacks a row whose algorithm is {}; add one, or have direct alone", what, needed);
}

}  // namespace

Library read_library(const Reader& r, const YAML::Node& rows, const std::string& what) {
  if (!rows.IsSequence() || rows.size() == 0) r.fail_at(rows, "{}: collectives must be a list of rows", what);
  std::vector<LibraryRow> library;
  std::set<std::string> names;
  for (const auto& node : rows) {
    library.push_back(read_row(r, node, what));
    std::string name = node["algorithm"].Scalar();
    if (!library.back().protocol.empty()) name += " " + library.back().protocol;
    if (!names.insert(name).second) r.fail_at(node, "{}: collectives: {} is given twice; remove one", what, name);
  }
  validate_algorithms(r, rows, what);
  return std::make_shared<const std::vector<LibraryRow>>(std::move(library));
}

}  // namespace cluster_file

}  // namespace partita
