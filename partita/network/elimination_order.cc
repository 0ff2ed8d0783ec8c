// Tracks the smallest next table while variables are eliminated.
#include "partita/network/elimination_order.h"

#include <cmath>

namespace partita {

EliminationGame::EliminationGame(const std::vector<int>& domains, std::vector<std::set<int>> neighbours)
    : bits_(domains.size()), neighbours_(std::move(neighbours)) {
  for (int d : domains) domain_bits_.push_back(std::log2(d));
  for (int v = 0; v < static_cast<int>(domains.size()); ++v) {
    for (int u : neighbours_[v]) bits_[v] += domain_bits_[u];
    queue_.insert({bits_[v], v});
  }
}

void EliminationGame::take(int v, bool join) {
  queue_.erase({bits_[v], v});
  const std::set<int> ring = neighbours_[v];
  for (int a : ring) {
    neighbours_[a].erase(v);
    if (!join) continue;
    for (int b : ring)
      if (a != b) neighbours_[a].insert(b);
  }
  for (int a : ring) {
    queue_.erase({bits_[a], a});
    bits_[a] = 0;
    for (int u : neighbours_[a]) bits_[a] += domain_bits_[u];
    queue_.insert({bits_[a], a});
  }
}

}  // namespace partita
