// Makes every op a unit of its own.
#include "partita/search/soap/units_of_ops.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"

namespace partita {

SoapGranularity parse_soap_granularity(std::string_view text) {
  if (text == "unit") return SoapGranularity::kUnit;
  if (text == "op") return SoapGranularity::kOp;
  throw Error(ExitCode::kUsage, fmt::format("granularity={}: one of unit, op", text));
}

namespace {

// By index of the unit: its place among the op's own indices. Adjacent missing indices are one place for copies.
std::vector<size_t> places_of(const std::vector<int>& follows, std::vector<int>& indices) {
  std::vector<size_t> places;
  for (size_t d = 0; d < follows.size(); ++d) {
    const int index = follows[d] < 0 ? kSoapCopies : follows[d];
    const bool more_copies = index == kSoapCopies && d > 0 && follows[d - 1] < 0;
    const auto known = std::ranges::find(indices, index);
    if (more_copies) places.push_back(places.back());
    else if (index != kSoapCopies && known != indices.end())
      places.push_back(static_cast<size_t>(known - indices.begin()));
    else places.push_back(indices.size()), indices.push_back(index);
  }
  return places;
}

SoapUnit single_op(const Graph& graph, const std::vector<bool>& weight, const SoapUnit& unit, size_t i) {
  SoapUnit out{unit.ops[i], {}, {}, {unit.ops[i]}, {}};
  const Op& op = graph.op(unit.ops[i]);
  const tdl::Bound &own = *op.bound, &leader = *graph.op(unit.leader).bound;
  const std::vector<size_t> places = places_of(unit.follows[i], out.indices);
  out.extents.resize(out.indices.size());
  for (const int index : out.indices)
    out.dimensions.push_back(index == kSoapCopies ? SoapDimension::kCopies : SoapDimension::kWhole);
  for (size_t d = 0; d < places.size(); ++d) {
    const size_t at = places[d];
    if (out.indices[at] == kSoapCopies) continue;
    if (out.extents[at].empty()) {
      out.dimensions[at] = unit.dimensions[d];
      out.extents[at].push_back(own.indices[static_cast<size_t>(out.indices[at])].extent);
    }
    out.extents[at].push_back(leader.indices[static_cast<size_t>(unit.indices[d])].extent);
  }
  const std::vector<SoapDimension> dimensions = soap_dimensions(graph, weight, op);
  for (size_t k = 0; k < dimensions.size(); ++k) {
    if (dimensions[k] == SoapDimension::kContracted || dimensions[k] == SoapDimension::kWhole) continue;
    if (std::ranges::find(out.indices, static_cast<int>(k)) != out.indices.end()) continue;
    out.indices.push_back(static_cast<int>(k));
    out.dimensions.push_back(dimensions[k]);
    out.extents.push_back({own.indices[k].extent});
  }
  out.follows.push_back(out.indices);
  return out;
}

}  // namespace

std::vector<SoapUnit> units_of_single_ops(const Graph& graph, const std::vector<SoapUnit>& units) {
  const std::vector<bool> weight = weight_tensor_mask(graph);
  std::vector<SoapUnit> singles(graph.ops.size());
  for (const SoapUnit& unit : units)
    for (size_t i = 0; i < unit.ops.size(); ++i) singles[unit.ops[i].index()] = single_op(graph, weight, unit, i);
  return singles;
}

SoapConfiguration configuration_of_op(const SoapUnit& unit, size_t i, const SoapUnit& single,
                                      const SoapConfiguration& c) {
  std::vector<int> indices;
  const std::vector<size_t> places = places_of(unit.follows[i], indices);
  SoapConfiguration out{std::vector<int>(single.indices.size(), 1), c.devices};
  std::optional<size_t> last;  // place that is split
  for (size_t d = 0; d < places.size(); ++d) {
    if (c.degrees[d] == 1) continue;
    const bool copies = single.indices[places[d]] == kSoapCopies;
    if (!last || !copies || single.indices[*last] != kSoapCopies) last = places[d];
    out.degrees[*last] *= c.degrees[d];
  }
  return out;
}

}  // namespace partita
