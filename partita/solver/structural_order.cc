// Separates variables of a part by their surroundings within it.
#include "partita/solver/structural_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "partita/solver/cut.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

class Looks {
 public:
  Looks(const Network& network, const std::vector<Table>& costs, const std::vector<int>& part_of)
      : costs_(costs), part_of_(part_of) {
    std::map<const Table*, uint64_t> numbers;
    for (const Network::Edge& e : network.edges)
      if (!crosses_parts(e, part_of))
        edges_.push_back({&e, mixed(numbers.try_emplace(e.table.get(), numbers.size()).first->second)});
  }

  std::vector<int> order() {
    for (const Table& costs : costs_) {
      uint64_t colour = costs.size();
      for (int64_t c : costs) colour = mixed(colour + static_cast<uint64_t>(c));
      colours_.push_back(colour);
    }
    refine();
    for (int round = 0; round < kTuning.parts.looks && tell_apart(); ++round) refine();
    return sorted();
  }

 private:
  static uint64_t mixed(uint64_t x) {  // SplitMix64
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  void refine() {
    for (size_t known = 0, now = different(); now > known; known = std::exchange(now, different())) {
      std::vector<uint64_t> seen(colours_.size(), 0);
      for (const auto& [edge, table] : edges_) {
        uint64_t all = table;
        for (int v : edge->variables) all = mixed(all + colours_[v]);
        for (size_t end = 0; end < edge->variables.size(); ++end) seen[edge->variables[end]] += mixed(all + end);
      }
      for (size_t v = 0; v < colours_.size(); ++v) colours_[v] = mixed(colours_[v] + seen[v]);
    }
  }

  size_t different() const {
    std::vector<uint64_t> all;
    for (size_t v = 0; v < colours_.size(); ++v) all.push_back(mixed(colours_[v] + static_cast<uint64_t>(part_of_[v])));
    std::sort(all.begin(), all.end());
    return static_cast<size_t>(std::unique(all.begin(), all.end()) - all.begin());
  }

  std::vector<int> sorted() const {
    std::vector<int> order(colours_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int v, int w) {
      return std::tuple(part_of_[v], colours_[v], v) < std::tuple(part_of_[w], colours_[w], w);
    });
    return order;
  }

  // Separates one variable in each part with some that look alike. False if there is none.
  bool tell_apart() {
    const std::vector<int> order = sorted();
    int told = -1;  // the last part that has one
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      const int v = order[i], w = order[i + 1];
      if (part_of_[v] == told || part_of_[v] != part_of_[w] || colours_[v] != colours_[w]) continue;
      colours_[v] = mixed(colours_[v]);
      told = part_of_[v];
    }
    return told >= 0;
  }

  const std::vector<Table>& costs_;
  const std::vector<int>& part_of_;
  std::vector<std::pair<const Network::Edge*, uint64_t>> edges_;  // within parts
  std::vector<uint64_t> colours_;                                 // [variable]
};

}  // namespace

std::vector<int> structural_order(const Network& network, const std::vector<Table>& costs,
                                  const std::vector<int>& part_of) {
  return Looks(network, costs, part_of).order();
}

}  // namespace partita::solver
