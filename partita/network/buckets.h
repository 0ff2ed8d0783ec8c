// Eliminates variables by buckets (Bertele and Brioschi, Nonserial Dynamic Programming, 1972; Dechter 1999), over any
// kind of cost. The solver (solver/eliminate.h) and the searches (search/cuts/elimination.h) use it.
//
// Worked example: variables a and b of two values, order {b, a}. A table over (a, b), {0, 2, 2, 0}, is put into b's
// bucket, {1, 0} over a into a's. Eliminating b puts min over b, {0, 0} over a, into a's bucket; eliminating a adds
// min {1, 0} = 0 to rest(). solutions(): a = 1 is least there, then b = 1 beside it.
//
// An Algebra defines costs:
//   using Cost = ..;                                  // Cost{} is none
//   static Cost sum(Cost, Cost);
//   static bool less(Cost, Cost);
//   // min over x < values of the sum of rows[i][x] over i < count, which is at least 1; scratch has room for `values`.
//   static Cost least_sum(const Cost* const* rows, size_t count, int values, Cost* scratch);
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace partita {

// A table over `scope`, row-major, the last variable fastest. The last is eliminated first.
template <typename Cost>
struct Factor {
  std::vector<int> scope;
  std::shared_ptr<const std::vector<Cost>> costs;
};

template <typename Algebra>
class Buckets {
 public:
  using Cost = typename Algebra::Cost;

  // `order` has every variable once.
  Buckets(std::vector<int> domains, std::vector<int> order)
      : domains_(std::move(domains)), order_(std::move(order)), rank_(domains_.size()), buckets_(domains_.size()) {
    for (size_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = static_cast<int>(i);
  }

  int rank(int v) const { return rank_[v]; }

  void put(Factor<Cost> f) {
    if (f.scope.empty()) rest_ = Algebra::sum(rest_, (*f.costs)[0]);
    else buckets_[f.scope.back()].push_back(std::move(f));
  }

  // The scope of the table that eliminating v makes: all other variables of tables with v.
  std::vector<int> around(int v) const {
    std::vector<int> all;
    for (const Factor<Cost>& f : buckets_[v]) all.insert(all.end(), f.scope.begin(), f.scope.end());
    std::sort(all.begin(), all.end(), [&](int a, int b) { return rank_[a] > rank_[b]; });
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::erase(all, v);
    return all;
  }

  // Eliminates v: replaces all its tables with their minimum over v's values, a table over `around` = around(v). It
  // calls `ends` before each of its entries, with their number; returns false if that says so.
  template <typename Ends>
  bool eliminate(int v, std::vector<int> around, const Ends& ends) {
    const std::vector<Factor<Cost>>& bucket = buckets_[v];
    if (bucket.empty()) return true;
    const std::vector<std::vector<size_t>> strides = strides_of(v, around);
    std::vector<const Cost*> rows;
    for (const Factor<Cost>& f : bucket) rows.push_back(f.costs->data());
    std::vector<Cost> scratch(domains_[v]), costs;
    std::vector<int> x(around.size(), 0);
    for (bool more = true; more;) {
      if (ends(costs.size())) return false;
      costs.push_back(Algebra::least_sum(rows.data(), rows.size(), domains_[v], scratch.data()));
      more = false;
      for (size_t i = around.size(); i-- > 0 && !more;) {
        more = ++x[i] < domains_[around[i]];
        const size_t steps = more ? 1 : static_cast<size_t>(x[i]) - 1;
        for (size_t f = 0; f < rows.size(); ++f)
          rows[f] = more ? rows[f] + strides[i][f] : rows[f] - steps * strides[i][f];
        if (!more) x[i] = 0;
      }
    }
    put({std::move(around), std::make_shared<const std::vector<Cost>>(std::move(costs))});
    return true;
  }

  // The least cost, once all are eliminated.
  Cost rest() const { return rest_; }

  // At most `most` assignments of least cost, each once. From the last eliminated variable to the first, each takes its
  // best values beside the later eliminated ones, the lowest of equals first.
  std::vector<std::vector<int>> solutions(size_t most) const {
    std::vector<std::vector<int>> out,
        open;  // open: by place from the order's end, the values still to take, descending
    std::vector<int> x(domains_.size(), 0);
    auto take = [&] {
      x[order_[order_.size() - open.size()]] = open.back().back();
      open.back().pop_back();
    };
    for (;;) {
      while (open.size() < order_.size()) {
        open.push_back(best_values(order_[order_.size() - 1 - open.size()], x));
        take();
      }
      out.push_back(x);
      if (out.size() >= most) return out;
      while (!open.empty() && open.back().empty()) open.pop_back();
      if (open.empty()) return out;
      take();
    }
  }

 private:
  // [place in `around`][factor of v's bucket]: the distance between entries.
  std::vector<std::vector<size_t>> strides_of(int v, const std::vector<int>& around) const {
    const std::vector<Factor<Cost>>& bucket = buckets_[v];
    std::vector<std::vector<size_t>> strides(around.size(), std::vector<size_t>(bucket.size(), 0));
    for (size_t f = 0; f < bucket.size(); ++f) {
      size_t stride = 1;
      for (size_t i = bucket[f].scope.size(); i-- > 0;) {
        const int w = bucket[f].scope[i];
        if (w != v) strides[std::find(around.begin(), around.end(), w) - around.begin()][f] = stride;
        stride *= static_cast<size_t>(domains_[w]);
      }
    }
    return strides;
  }

  // The best values of v beside x, descending.
  std::vector<int> best_values(int v, const std::vector<int>& x) const {
    std::vector<Cost> sums(domains_[v], Cost{});
    for (const Factor<Cost>& f : buckets_[v]) {
      size_t at = 0;
      for (int w : f.scope) at = at * static_cast<size_t>(domains_[w]) + static_cast<size_t>(w == v ? 0 : x[w]);
      for (size_t y = 0; y < sums.size(); ++y) sums[y] = Algebra::sum(sums[y], (*f.costs)[at + y]);
    }
    const Cost best = *std::min_element(sums.begin(), sums.end(), Algebra::less);
    std::vector<int> values;
    for (size_t y = sums.size(); y-- > 0;)
      if (!Algebra::less(best, sums[y])) values.push_back(static_cast<int>(y));
    return values;
  }

  std::vector<int> domains_, order_, rank_;
  std::vector<std::vector<Factor<Cost>>> buckets_;  // [variable]: those whose first eliminated variable it is
  Cost rest_ = {};
};

}  // namespace partita
