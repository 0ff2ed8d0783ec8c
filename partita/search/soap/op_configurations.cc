// Finds the indices of a formula that SOAP splits, and an op's set of configurations.
#include "partita/search/soap/op_configurations.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"
#include "partita/tdl/affine.h"

namespace partita {

std::string_view name_of(SoapDimension dimension) {
  switch (dimension) {
    case SoapDimension::kSample:
      return "sample";
    case SoapDimension::kAttribute:
      return "attribute";
    case SoapDimension::kParameter:
      return "parameter";
    case SoapDimension::kContracted:
      return "contracted";
    case SoapDimension::kWhole:
      return "whole";
    case SoapDimension::kCopies:
      return "copies";
  }
  ensure(false, "no dimension {}", static_cast<int>(dimension));
  return "";
}

namespace {

// By index: whether a result is indexed by it.
std::vector<bool> indexes_results(const tdl::Bound& bound) {
  std::vector<bool> indexes(bound.indices.size(), false);
  for (const int result : bound.results)
    for (const tdl::Affine& form : bound.stages[static_cast<size_t>(bound.stage_of(result))].lhs)
      for (size_t i = 0; i < indexes.size(); ++i)
        if (tdl::uses_index(form, static_cast<int>(i))) indexes[i] = true;
  return indexes;
}

bool is_indexed_by(const tdl::Bound& bound, int operand, int index) {
  bool indexed = false;
  for (const tdl::Stage& stage : bound.stages)
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
      if (read.tensor != operand) return;
      for (const tdl::Affine& form : read.subscripts) indexed |= tdl::uses_index(form, index);
    });
  return indexed;
}

std::vector<SoapDimension> classified(const tdl::Bound& bound, const std::vector<int>& samples,
                                      const std::vector<int>& weights) {
  const std::vector<bool> of_results = indexes_results(bound);
  std::vector<SoapDimension> out;
  for (size_t i = 0; i < bound.indices.size(); ++i) {
    const int index = static_cast<int>(i);
    if (!bound.indices[i].splittable) out.push_back(SoapDimension::kWhole);
    else if (!of_results[i]) out.push_back(SoapDimension::kContracted);
    else if (std::ranges::find(samples, index) != samples.end()) out.push_back(SoapDimension::kSample);
    else if (std::ranges::any_of(weights, [&](int operand) { return is_indexed_by(bound, operand, index); }))
      out.push_back(SoapDimension::kParameter);
    else out.push_back(SoapDimension::kAttribute);
  }
  return out;
}

}  // namespace

std::vector<SoapDimension> soap_dimensions(const Graph& graph, const std::vector<bool>& weights, const Op& op) {
  std::vector<int> samples, of_weights;
  for (const std::string& name : sample_indices(graph, op)) samples.push_back(op.bound->find_index(name));
  for (size_t k = 0; k < op.operands.size(); ++k)
    if (weights[op.operands[k].index()]) of_weights.push_back(static_cast<int>(k));
  return classified(*op.bound, samples, of_weights);
}

std::vector<SoapDimension> soap_dimensions(const tdl::Bound& bound) {
  const std::vector<bool> of_results = indexes_results(bound);
  int sample = -1;
  for (int k = 0; k < bound.operand_count && sample < 0; ++k) {
    if (bound.tensors[static_cast<size_t>(k)].factored.empty()) continue;
    const auto reads = plain_reads(bound, k);
    for (const int index : reads[0])
      if (sample < 0 && of_results[static_cast<size_t>(index)]) sample = index;
  }
  std::vector<int> weights;
  for (int k = 0; k < bound.operand_count && sample >= 0; ++k)
    if (!is_indexed_by(bound, k, sample)) weights.push_back(k);
  return classified(bound, {sample}, weights);
}

bool AllowedSoapDimensions::contains(SoapDimension dimension) const {
  return (dimension == SoapDimension::kSample && sample) || (dimension == SoapDimension::kAttribute && attribute) ||
         (dimension == SoapDimension::kParameter && parameter) ||
         (dimension == SoapDimension::kCopies && (sample || attribute || parameter));
}

AllowedSoapDimensions parse_soap_dimensions(std::string_view text) {
  for (const std::string_view known : {"s", "o", "p", "sap", "soap"})
    if (text == known) {
      auto has = [&](char letter) { return text.find(letter) != std::string_view::npos; };
      return {has('s'), has('o'), has('a'), has('p')};
    }
  throw Error(ExitCode::kUsage, fmt::format("dimensions={}: one of s, o, p, sap, soap", text));
}

int64_t block_count(int64_t n, int64_t p) {
  ensure(p > 0 && n % p == 0, "blocks of {} of {} devices", p, n);
  return p == 1 || p == n ? n / p : 2 * (n / p);
}

std::vector<DeviceId> block_of(const std::vector<DeviceId>& devices, int64_t p, int64_t block) {
  const int64_t n = static_cast<int64_t>(devices.size()), aligned = n / p;
  ensure(block < block_count(n, p), "block {} of {} of {} devices", block, p, n);
  std::vector<DeviceId> out;
  for (int64_t r = 0; r < p; ++r)
    out.push_back(devices[static_cast<size_t>(block < aligned ? p * block + r : block - aligned + aligned * r)]);
  return out;
}

namespace {

int64_t product(const std::vector<int>& degrees) {
  int64_t p = 1;
  for (const int degree : degrees) p *= degree;
  return p;
}

// Makes the list of all degrees.
struct DegreeLister {
  const tdl::Bound& bound;
  const std::vector<bool>& open;
  const std::vector<std::vector<int64_t>>& extents;
  SoapSet& set;

  bool exists(const std::vector<int>& degrees) const {
    std::vector<int> mesh;
    std::vector<tdl::AxisStrategy> axes;
    for (size_t d = 0; d < degrees.size(); ++d) {
      if (degrees[d] == 1) continue;
      const int index = set.indices[d];
      if (index == kSoapCopies && !axes.empty() && axes.back().replicate()) return false;  // copies of copies
      mesh.push_back(degrees[d]);
      axes.emplace_back();
      if (index != kSoapCopies) axes.back().names = {bound.indices[static_cast<size_t>(index)].name};
    }
    return mesh.empty() || (has_values_for(bound, mesh, axes) && tdl::derive(bound, mesh, axes).has_value());
  }

  bool divides(size_t d, int degree) const {
    const int index = set.indices[d];
    if (index == kSoapCopies) return true;
    const auto whole = [degree](int64_t extent) { return extent % degree == 0; };
    if (!extents.empty()) return std::ranges::any_of(extents[d], whole);
    return whole(bound.indices[static_cast<size_t>(index)].extent);
  }

  // Adds every list that begins with `degrees`, in lexicographic order.
  void add(std::vector<int>& degrees) const {
    const int n = static_cast<int>(set.devices.size());
    const size_t d = degrees.size();
    if (d == set.indices.size()) {
      if (!exists(degrees)) return;
      const int64_t before = set.ends.empty() ? 0 : set.ends.back();
      set.ends.push_back(before + (set.operation ? block_count(n, product(degrees)) : 1));
      set.degrees.push_back(degrees);
      return;
    }
    const int most = open[d] ? n : 1;
    for (int degree = 1; degree <= most; ++degree) {
      if (!divides(d, degree) || n % (product(degrees) * degree) != 0) continue;
      degrees.push_back(degree);
      add(degrees);
      degrees.pop_back();
    }
  }
};

}  // namespace

SoapSet soap_set(const tdl::Bound& bound, std::vector<int> indices, const std::vector<bool>& open,
                 std::vector<DeviceId> devices, bool operation, const std::vector<std::vector<int64_t>>& extents) {
  ensure(!devices.empty(), "configurations of '{}' on no device", bound.name);
  SoapSet set{std::move(indices), std::move(devices), operation, {}, {}};
  std::vector<int> degrees;
  DegreeLister{bound, open, extents, set}.add(degrees);
  return set;
}

SoapConfiguration SoapSet::at(int64_t i) const {
  ensure(i >= 0 && i < size(), "configuration {} of {}", i, size());
  const size_t d = static_cast<size_t>(std::ranges::upper_bound(ends, i) - ends.begin());
  return {degrees[d], block_of(devices, product(degrees[d]), i - (d == 0 ? 0 : ends[d - 1]))};
}

}  // namespace partita
