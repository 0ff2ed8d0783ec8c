// Leaves out values that no solution can take.
#include <algorithm>
#include <utility>

#include "partita/solver/model.h"

namespace partita::solver {

int collect_without_partner(const Model& m, int v, const Model::Neighbour& neighbour, const Alive& alive,
                            std::vector<int>& lost) {
  const PairView view = m.view(neighbour);
  const int w = neighbour.variable, kinds = view.own->count;
  std::vector<char> there(kinds, 0), has(view.other->count, 0);
  for (int x = 0; x < m.domain(v); ++x) there[(*view.own)(x)] |= alive[m.offset[v] + x];
  for (int k = 0; k < view.other->count; ++k) {
    const double* costs = view.by_other + static_cast<size_t>(k) * kinds;
    for (int i = 0; i < kinds && !has[k]; ++i) has[k] = there[i] && costs[i] < kInfinity;
  }
  lost.clear();
  int left = 0;
  for (int y = 0; y < m.domain(w); ++y) {
    if (!alive[m.offset[w] + y]) continue;
    if (has[(*view.other)(y)]) ++left;
    else lost.push_back(y);
  }
  return left;
}

namespace {

class Propagation {
 public:
  Propagation(const Model& m, Alive& alive, std::vector<int> changed)
      : m_(m), alive_(alive), queued_(m.variables(), changed.empty()), queue_(std::move(changed)) {
    if (queue_.empty())
      for (int v = 0; v < m.variables(); ++v) queue_.push_back(v);
    for (int v : queue_) queued_[v] = 1;
  }

  bool run() {
    for (int v = 0; v < m_.variables(); ++v) {
      bool any = false;
      for (int i = m_.offset[v]; i < m_.offset[v + 1]; ++i) {
        if (alive_[i] && m_.unary[i] == kInfinity) drop(v, i);
        any |= alive_[i];
      }
      if (!any) return false;
    }
    do {
      while (!queue_.empty()) {
        const int v = queue_.back();
        queue_.pop_back();
        queued_[v] = 0;
        for (const Model::Neighbour& nb : m_.neighbours[v]) {
          if (collect_without_partner(m_, v, nb, alive_, lost_) == 0) return false;
          for (int y : lost_) drop(nb.variable, m_.offset[nb.variable] + y);
        }
      }
      if (!uses()) return false;
    } while (!queue_.empty());
    return true;
  }

 private:
  void drop(int v, int index) {
    alive_[index] = 0;
    if (!queued_[v]) queued_[v] = 1, queue_.push_back(v);
  }

  int64_t least(int v, const Model::Use& u) const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t x = 0; x < u.amounts.size(); ++x)
      if (alive_[m_.offset[v] + x]) least = std::min(least, u.amounts[x]);
    return least;
  }

  bool uses() {
    if (!m_.limited) return true;
    if (m_.limit < 0) return false;
    std::vector<Wide> load(m_.times.size() + 1, 0);
    for (int v = 0; v < m_.variables(); ++v)
      for (const Model::Use& u : m_.uses[v]) {
        const int64_t amount = least(v, u);
        load[u.lower] += amount;
        load[u.upper] -= amount;
      }
    for (size_t t = 1; t < load.size(); ++t) load[t] += load[t - 1];
    Wide peak = 0;
    for (Wide l : load) peak = std::max(peak, l);
    for (int v = 0; v < m_.variables(); ++v)
      for (const Model::Use& u : m_.uses[v]) {
        const int64_t amount = least(v, u);
        const int64_t largest = *std::max_element(u.amounts.begin(), u.amounts.end());
        if (largest - amount + peak <= m_.limit) continue;
        const Wide room = m_.limit - *std::max_element(load.begin() + u.lower, load.begin() + u.upper);
        if (room < 0) return false;
        for (size_t x = 0; x < u.amounts.size(); ++x)
          if (alive_[m_.offset[v] + x] && u.amounts[x] - Wide{amount} > room)
            drop(v, m_.offset[v] + static_cast<int>(x));
      }
    return true;
  }

  const Model& m_;
  Alive& alive_;
  std::vector<char> queued_;
  std::vector<int> queue_, lost_;
};

}  // namespace

bool propagate(const Model& model, Alive& alive, std::vector<int> changed) {
  return Propagation(model, alive, std::move(changed)).run();
}

}  // namespace partita::solver
