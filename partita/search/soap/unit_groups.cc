// Finds alike units, and neighbours.
#include "partita/search/soap/unit_groups.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <tuple>

namespace partita {

namespace {

// Degrees by sample, attribute and parameter, and copies.
using ByDimension = std::array<int, 4>;
ByDimension degrees_by_dimension(const SoapUnit& unit, const std::vector<int>& degrees) {
  ByDimension product{1, 1, 1, 1};
  for (size_t d = 0; d < degrees.size(); ++d) {
    const SoapDimension dimension = unit.dimensions[d];
    product[dimension == SoapDimension::kCopies ? 3 : static_cast<size_t>(dimension)] *= degrees[d];
  }
  return product;
}

}  // namespace

SoapNeighbourhood soap_neighbourhood(const Graph& graph, const SoapSpace& space) {
  SoapNeighbourhood out;
  out.unit_of = units_of_ops(graph, space.units);
  std::map<std::tuple<int, const tdl::Bound*, size_t, std::vector<std::vector<int>>>, int> known;
  for (size_t u = 0; u < space.units.size(); ++u) {
    const Op& leader = graph.op(space.units[u].leader);
    const bool of_cell = leader.cell >= 0 && leader.time_step >= 0;
    const auto [group, fresh] = known.try_emplace({of_cell ? leader.cell : -1, leader.bound.get(),
                                                   of_cell ? 0 : space.units[u].ops.size(), space.sets[u].degrees},
                                                  static_cast<int>(known.size()));
    if (fresh) out.groups.emplace_back();
    out.groups[static_cast<size_t>(group->second)].push_back(static_cast<int>(u));
    out.group_of.push_back(group->second);
  }
  out.beside.resize(space.units.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].phase != Phase::kForward && !space.of_units) continue;
    for (const TensorId t : graph.ops[i].operands) {
      const OpId producer = graph.tensor(t).producer;
      if (!producer.valid()) continue;
      const int reads = out.unit_of[i], makes = out.unit_of[producer.index()];
      if (makes == reads) continue;
      out.beside[static_cast<size_t>(reads)].push_back(makes);
      out.beside[static_cast<size_t>(makes)].push_back(reads);
    }
  }
  for (std::vector<int>& units : out.beside) {
    std::ranges::sort(units);
    units.erase(std::unique(units.begin(), units.end()), units.end());
  }
  return out;
}

int64_t most_alike(const SoapSpace& space, int unit, int other, int64_t configuration) {
  const SoapUnit &of = space.units[static_cast<size_t>(unit)], &that = space.units[static_cast<size_t>(other)];
  const SoapConfiguration wanted = space.sets[static_cast<size_t>(other)].at(configuration);
  const ByDimension degrees = degrees_by_dimension(that, wanted.degrees);
  const SoapSet& set = space.sets[static_cast<size_t>(unit)];
  int64_t best = -1;
  int least = 0;
  for (size_t d = 0; d < set.degrees.size(); ++d) {
    int64_t parts = 1;
    for (const int degree : set.degrees[d]) parts *= degree;
    if (parts != static_cast<int64_t>(wanted.devices.size())) continue;
    const ByDimension its = degrees_by_dimension(of, set.degrees[d]);
    int apart = 0;
    for (size_t k = 0; k < its.size(); ++k) apart += std::abs(its[k] - degrees[k]);
    if (best >= 0 && apart >= least) continue;
    for (int64_t i = d == 0 ? 0 : set.ends[d - 1]; i < set.ends[d]; ++i)
      if (set.at(i).devices == wanted.devices) best = i, least = apart;
  }
  return best;
}

}  // namespace partita
