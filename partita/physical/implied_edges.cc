// Finds implied edges with rows of bits, on two unrolled steps.
#include "partita/physical/implied_edges.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

namespace partita {
namespace {

// Edges into each place, the latest source first.
class Ends {
 public:
  struct End {
    int from, edge;  // -1: a node's own next firing, which it reaches without one
  };

  explicit Ends(int places) : begin_(static_cast<std::size_t>(places) + 1) {}
  // All are counted before any is put.
  void count(int to) { ++begin_[to + 1]; }
  void counted() {
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    ends_.resize(begin_.back());
    next_ = begin_;
  }
  void put(int to, const End& end) { ends_[next_[to]++] = end; }
  std::span<const End> operator[](int to) const { return {ends_.data() + begin_[to], ends_.data() + begin_[to + 1]}; }

 private:
  std::vector<std::size_t> begin_, next_;
  std::vector<End> ends_;
};

// Checks the edges from one block of sources after the other, with a bit a source in each vertex, so that memory stays
// small. A source matters until the last of its edges is checked. Once all sources that matter reach a vertex, they
// reach every vertex behind it. Edges from the block to these are implied, so most vertices need no bits.
class Implied {
 public:
  // Edges sorted by their source.
  Implied(const std::vector<RawEdge>& edges, int size)
      : edges_(edges),
        size_(size),
        now_(size),
        next_(size),
        first_(static_cast<std::size_t>(size) + 1, 0),
        last_(size, -1),
        reached_(static_cast<std::size_t>(2) * size),
        rows_(static_cast<std::size_t>(2 * size) * kWords),
        implied_(edges.size(), false) {
    for (int p = 0; p < size; ++p) next_.count(p);
    for (const RawEdge& edge : edges) {
      (edge.next ? next_ : now_).count(edge.to);
      ++first_[edge.from + 1];
      last_[edge.from] = std::max(last_[edge.from], target(edge));
    }
    now_.counted();
    next_.counted();
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    for (int p = size; p-- > 0;) {
      next_.put(p, {p, -1});
      for (std::size_t e = first_[p]; e < first_[p + 1]; ++e)
        (edges[e].next ? next_ : now_).put(edges[e].to, {p, static_cast<int>(e)});
    }
  }

  std::vector<bool> found(const Watch& watch) {
    for (begin_ = 0; begin_ < size_; begin_ = end_) {
      watch.poll("while a plan's edges were made");
      end_ = std::min(size_, begin_ + kBlock);
      judge_block();
    }
    return std::move(implied_);
  }

 private:
  static constexpr int kWords = 32, kBlock = kWords * 64;
  // Whether none, some or all of the block's sources that matter reach a vertex; for kBySome its row says which.
  // kByAll: this is the first such vertex on a path. kAfterAll: one stands before it.
  enum class Reached : char { kByNone, kBySome, kByAll, kAfterAll };

  int target(const RawEdge& edge) const { return edge.next ? size_ + edge.to : edge.to; }
  uint64_t* row(int vertex) { return &rows_[static_cast<std::size_t>(vertex) * kWords]; }
  uint64_t& word(uint64_t* row, int source) const { return row[(source - begin_) / 64]; }
  uint64_t bit(int source) const { return uint64_t{1} << ((source - begin_) % 64); }

  void judge_block() {
    uint64_t matter[kWords] = {};
    std::vector<int> sources;  // that matter, by their last edge
    for (int p = begin_; p < end_; ++p)
      if (last_[p] >= 0) sources.push_back(p), word(matter, p) |= bit(p);
    std::sort(sources.begin(), sources.end(),
              [&](int a, int b) { return std::pair(last_[a], a) < std::pair(last_[b], b); });
    std::size_t done = 0;
    for (int vertex = begin_; vertex < 2 * size_; ++vertex) {
      for (; done < sources.size() && last_[sources[done]] < vertex; ++done)
        word(matter, sources[done]) &= ~bit(sources[done]);
      if (done == sources.size()) break;
      reached_[vertex] = Reached::kByNone;
      if (vertex < size_) {
        gather(vertex, now_[vertex], 0);
      } else {
        gather(vertex, now_[vertex - size_], size_);
        gather(vertex, next_[vertex - size_], 0);
      }
      if (vertex < end_) {
        if (reached_[vertex] == Reached::kByNone) std::fill_n(row(vertex), kWords, 0);
        word(row(vertex), vertex) |= bit(vertex);
        reached_[vertex] = Reached::kBySome;
      } else if (reached_[vertex] == Reached::kBySome) {
        uint64_t absent = 0;
        for (int w = 0; w < kWords; ++w) absent |= matter[w] & ~row(vertex)[w];
        if (absent == 0) reached_[vertex] = Reached::kByAll;
      }
    }
    for (std::size_t e = first_[begin_]; e < first_[end_]; ++e)
      if (reached_[target(edges_[e])] == Reached::kAfterAll) implied_[e] = true;
  }

  // The row gathers the vertex's predecessors, the latest first. An earlier one that it holds already adds an implied
  // edge. Only edges from the block are checked, and no `now` edge of the second step is from there.
  void gather(int vertex, std::span<const Ends::End> ends, int shift) {
    Reached& state = reached_[vertex];
    uint64_t* own = row(vertex);
    for (const Ends::End& end : ends) {
      const int from = end.from + shift;
      if (from < begin_ || state == Reached::kAfterAll) return;
      if (reached_[from] == Reached::kByNone) continue;
      if (reached_[from] != Reached::kBySome) {
        state = Reached::kAfterAll;
      } else if (state == Reached::kByNone) {
        std::copy_n(row(from), kWords, own);
        state = Reached::kBySome;
      } else if (end.edge >= 0 && from < end_ && (word(own, from) & bit(from))) {
        implied_[end.edge] = true;
      } else {
        const uint64_t* other = row(from);
        for (int w = 0; w < kWords; ++w) own[w] |= other[w];
      }
    }
  }

  const std::vector<RawEdge>& edges_;
  const int size_;
  Ends now_, next_;
  std::vector<std::size_t> first_;  // [place]: the first edge from it
  std::vector<int> last_;           // [place]: the last vertex to which it has an edge
  std::vector<Reached> reached_;    // [vertex]
  std::vector<uint64_t> rows_;      // [vertex]: a bit for each source of the block
  std::vector<bool> implied_;
  int begin_ = 0, end_ = 0;  // the block
};

}  // namespace

std::vector<bool> implied_edges(const std::vector<RawEdge>& edges, int size, const Watch& watch) {
  return Implied(edges, size).found(watch);
}

}  // namespace partita
