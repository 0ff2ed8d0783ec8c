// Edges (docs/PHYSICAL.md section 5): data, acts, static queues, reuse of bytes; then those that a path implies are
// left out.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/physical/lower.h"

namespace partita {
namespace {

constexpr char kWhere[] = "while a plan's edges were made";

// An edge between places in `order`.
struct Raw {
  int from, to;
  bool next;
  EdgeKind kind;
};

// Edges into each place, the latest source first.
class Ends {
 public:
  struct End {
    int from, edge;  // -1: a node's own next act, which it reaches without one
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

// Which edges a path implies, on two unrolled steps: place p of the first step is vertex p, of the second size + p; a
// node reaches its own next act without an edge. Sources are taken in blocks of so many bits a vertex, so that memory
// stays small. A source matters until the last of its edges is judged. Most vertices come after one that all sources
// that matter reach: so are they, and edges from the block to them are implied.
class Implied {
 public:
  // Edges sorted by their source.
  Implied(const std::vector<Raw>& edges, int size)
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
    for (const Raw& edge : edges) {
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
      watch.poll(kWhere);
      end_ = std::min(size_, begin_ + kBlock);
      judge_block();
    }
    return std::move(implied_);
  }

 private:
  static constexpr int kWords = 32, kBlock = kWords * 64;
  enum class Reached : char {
    kByNone,
    kBySome,
    kByAll,
    kAfterAll
  };  // of the block's sources that matter; of kBySome the row says which

  int target(const Raw& edge) const { return edge.next ? size_ + edge.to : edge.to; }
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
        uint64_t missing = 0;
        for (int w = 0; w < kWords; ++w) missing |= matter[w] & ~row(vertex)[w];
        if (missing == 0) reached_[vertex] = Reached::kByAll;
      }
    }
    for (std::size_t e = first_[begin_]; e < first_[end_]; ++e)
      if (reached_[target(edges_[e])] == Reached::kAfterAll) implied_[e] = true;
  }

  // The row gathers the vertex's predecessors, the latest first: what an earlier one adds by an edge of its own is then
  // implied if the row holds it already. Only edges from the block are judged: in the second step no `now` edge is from
  // there.
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

  const std::vector<Raw>& edges_;
  const int size_;
  Ends now_, next_;
  std::vector<std::size_t> first_;  // [place]: the first edge from it
  std::vector<int> last_;           // [place]: the last vertex to which it has an edge
  std::vector<Reached> reached_;    // [vertex]
  std::vector<uint64_t> rows_;      // [vertex]: a bit for each source of the block
  std::vector<bool> implied_;
  int begin_ = 0, end_ = 0;  // the block
};

class Maker {
 public:
  explicit Maker(const PhysicalGraph& graph)
      : graph_(graph), table_(number_nodes(graph)), place_(places(graph, table_)), uses_(graph, table_) {}

  std::vector<Edge> make(const Watch& watch) {
    data();
    acts();
    queues();
    watch.poll(kWhere);
    reuse();
    watch.poll(kWhere);
    for (const Edge& edge : graph_.edges)
      if (edge.kind == EdgeKind::kPlan) add(edge.from, edge.to, edge.next, edge.kind);
    sort_unique();
    leave_out_implied(watch);
    std::vector<Edge> edges;
    edges.reserve(raw_.size());
    for (const Raw& e : raw_) edges.push_back({graph_.order[e.from], graph_.order[e.to], e.next, e.kind});
    return edges;
  }

 private:
  int place(const Node& node) const { return place_[table_.number(node)]; }

  void add(const Node& from, const Node& to, bool next, EdgeKind kind) {
    const int x = place(from), y = place(to);
    if (x != y) raw_.push_back({x, y, next, kind});
  }

  // Section 5.1, and the table's rows for carried registers.
  void data() {
    for (std::size_t r = 0; r < uses_.size(); ++r) {
      for (const Use& use : uses_[r])
        for (const Node& writer : use.writers)
          for (const Node& reader : use.readers) add(writer, reader, false, EdgeKind::kData);
      if (!graph_.registers[r].carried) continue;
      const Use &old = uses_[r][0], &fresh = uses_[r][1];
      for (const Node& writer : fresh.writers) {
        for (const Node& reader : old.readers) {
          add(writer, reader, true, EdgeKind::kData);
          add(reader, writer, false, EdgeKind::kReuse);
        }
        for (const Node& reader : fresh.readers) add(reader, writer, true, EdgeKind::kReuse);
        for (const Node& other : fresh.writers) add(other, writer, true, EdgeKind::kReuse);
      }
    }
  }

  // Section 5.2.
  void acts() {
    for (const Node& node : table_.nodes) {
      const int rate = graph_.task(node.task).rate;
      const bool last = node.act + 1 == rate;
      add(node, {node.task, last ? 0 : node.act + 1}, last, EdgeKind::kAct);
    }
  }

  // Section 5.3.
  void queues() {
    std::vector<const Node*> first(graph_.queues.size(), nullptr), last(graph_.queues.size(), nullptr);
    for (const Node& node : graph_.order)
      for (TaskId member : table_.members[table_.number(node)]) {
        const std::size_t q = graph_.task(member).queue.index();
        if (!graph_.queues[q].is_static()) continue;
        if (last[q]) add(*last[q], node, false, EdgeKind::kQueue);
        if (!first[q]) first[q] = &node;
        last[q] = &node;
      }
    for (std::size_t q = 0; q < first.size(); ++q)
      if (first[q]) add(*last[q], *first[q], true, EdgeKind::kQueue);
  }

  // Section 5.4: per device one sweep over the uses by their first write, in two rounds; `last_` holds which use lies
  // on each byte interval.
  struct Holder {
    const Use* use = nullptr;
    int round = 0;
  };

  void reuse() {
    struct Entry {
      int first;
      const Use* use;
    };
    std::vector<std::vector<Entry>> devices(graph_.device_count);
    for (std::size_t r = 0; r < uses_.size(); ++r) {
      const Register& reg = graph_.registers[r];
      if (reg.carried || reg.constant || reg.bytes == 0) continue;
      for (const Use& use : uses_[r]) {
        int first = std::numeric_limits<int>::max();
        for (const Node& writer : use.writers) first = std::min(first, place(writer));
        devices[reg.device.index()].push_back({first, &use});
      }
    }
    for (auto& entries : devices) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const Entry& a, const Entry& b) { return a.first < b.first; });
      std::map<int64_t, Holder> bytes;  // from this byte to the next key; no use: free
      bytes[0] = {};
      for (int round = 0; round < 2; ++round)
        for (const Entry& entry : entries) paint(bytes, *entry.use, round);
    }
  }

  void paint(std::map<int64_t, Holder>& bytes, const Use& use, int round) {
    const Register& reg = graph_.reg(use.reg);
    const int64_t begin = reg.slot_offset(reg.slot(use.number)), end = begin + reg.bytes;
    const auto split = [&](int64_t at) {
      auto it = bytes.upper_bound(at);
      const Holder holder = std::prev(it)->second;
      return bytes.emplace_hint(it, at, holder);
    };
    const auto from = split(begin), to = split(end);
    const Use* done = nullptr;
    for (auto it = from; it != to; ++it) {
      const Holder& before = it->second;
      if (!before.use || before.use == done || (before.round == 1 && round == 1)) continue;
      done = before.use;
      follow(*before.use, use, before.round != round);
    }
    bytes.erase(std::next(from), to);
    from->second = {&use, round};
  }

  void follow(const Use& before, const Use& after, bool next) {
    const bool accumulated = graph_.reg(after.reg).accumulated;
    for (const Node& writer : after.writers) {
      if (accumulated && writer.act > 0) continue;
      for (const auto* users : {&before.writers, &before.readers})
        for (const Node& user : *users) add(user, writer, next, EdgeKind::kReuse);
    }
  }

  void sort_unique() {
    const auto key = [](const Raw& e) { return std::tuple(e.from, e.to, e.next); };
    std::sort(raw_.begin(), raw_.end(), [&](const Raw& a, const Raw& b) {
      return std::tuple(a.from, a.to, a.next, a.kind) < std::tuple(b.from, b.to, b.next, b.kind);
    });
    raw_.erase(std::unique(raw_.begin(), raw_.end(), [&](const Raw& a, const Raw& b) { return key(a) == key(b); }),
               raw_.end());
  }

  // Section 5.6.
  void leave_out_implied(const Watch& watch) {
    for (const Raw& edge : raw_)
      ensure(edge.next || edge.from < edge.to, "edge {} -> {} points backwards in the order",
             to_string(graph_, graph_.order[edge.from]), to_string(graph_, graph_.order[edge.to]));
    const std::vector<bool> implied = Implied(raw_, table_.size()).found(watch);
    std::size_t kept = 0;
    for (std::size_t e = 0; e < raw_.size(); ++e)
      if (!implied[e]) raw_[kept++] = raw_[e];
    raw_.resize(kept);
  }

  const PhysicalGraph& graph_;
  NodeTable table_;
  std::vector<int> place_;
  Uses uses_;
  std::vector<Raw> raw_;
};

}  // namespace

void make_edges(PhysicalGraph& graph, const Watch& watch) { graph.edges = Maker(graph).make(watch); }

}  // namespace partita
