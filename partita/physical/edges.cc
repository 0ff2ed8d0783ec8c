// Edges (docs/PHYSICAL.md section 5): data, acts, static queues, reuse of bytes; then those that a path implies are left out.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/lower.h"

namespace partita {
namespace {

// An edge between places in `order`.
struct Raw {
  int from, to;
  bool next;
  EdgeKind kind;
};

class Maker {
 public:
  explicit Maker(const PhysicalGraph& graph)
      : graph_(graph), table_(number_nodes(graph)), place_(places(graph, table_)), uses_(graph, table_) {}

  std::vector<Edge> make() {
    data();
    acts();
    queues();
    reuse();
    for (const Edge& edge : graph_.edges)
      if (edge.kind == EdgeKind::kPlan) add(edge.from, edge.to, edge.next, edge.kind);
    sort_unique();
    leave_out_implied();
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

  // Section 5.4: per device one sweep over the uses by their first write, in two rounds; `last_` holds which use lies on
  // each byte interval.
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
      std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
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
    raw_.erase(std::unique(raw_.begin(), raw_.end(), [&](const Raw& a, const Raw& b) { return key(a) == key(b); }), raw_.end());
  }

  // Section 5.6, on two unrolled steps: place p of the first step is vertex p, of the second size + p; a node reaches its
  // own next act without an edge. Sources are taken in blocks of so many bits a vertex, so that memory stays small.
  void leave_out_implied() {
    constexpr int kWords = 32, kBlock = kWords * 64;
    const int size = table_.size();
    // Into each place: `now` edges, then `next` edges.
    std::vector<std::vector<int>> now(size), next(size);  // positions in raw_
    for (std::size_t e = 0; e < raw_.size(); ++e) {
      const Raw& edge = raw_[e];
      ensure(edge.next || edge.from < edge.to, "edge {} -> {} points backwards in the order", to_string(graph_, graph_.order[edge.from]),
             to_string(graph_, graph_.order[edge.to]));
      (edge.next ? next : now)[edge.to].push_back(static_cast<int>(e));
    }
    std::vector<bool> implied(raw_.size(), false);
    std::vector<uint64_t> reach(static_cast<std::size_t>(2 * size) * kWords);  // the block's sources that reach each vertex
    for (int block = 0; block < size; block += kBlock) {
      const int block_end = std::min(size, block + kBlock);
      std::fill(reach.begin(), reach.end(), 0);
      const auto row = [&](int vertex) { return &reach[static_cast<std::size_t>(vertex) * kWords]; };
      const auto has = [&](const uint64_t* bits, int source) { return bits[(source - block) / 64] >> ((source - block) % 64) & 1; };
      // The row of `to` gathers its predecessors, the latest first: what an earlier one adds by an edge of its own is then
      // implied if the row holds it already. Only edges from this block are judged.
      struct Into {
        int from, edge;
      };
      std::vector<Into> into;
      for (int vertex = block; vertex < 2 * size; ++vertex) {
        const int p = vertex % size;
        into.clear();
        if (vertex >= size) {
          into.push_back({p, -1});
          for (int e : next[p]) into.push_back({raw_[e].from, e});
        }
        for (int e : now[p]) into.push_back({raw_[e].from + (vertex - p), e});
        std::sort(into.begin(), into.end(), [](const Into& a, const Into& b) { return a.from > b.from; });
        uint64_t* bits = row(vertex);
        for (const Into& i : into) {
          if (i.from < block) continue;
          const bool judged = i.edge >= 0 && i.from < block_end && (vertex < size || raw_[i.edge].next);
          if (judged && has(bits, i.from)) {
            implied[i.edge] = true;
            continue;
          }
          const uint64_t* source = row(i.from);
          for (int w = 0; w < kWords; ++w) bits[w] |= source[w];
        }
        if (vertex < block_end) bits[(vertex - block) / 64] |= uint64_t{1} << ((vertex - block) % 64);
      }
    }
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

void make_edges(PhysicalGraph& graph) { graph.edges = Maker(graph).make(); }

}  // namespace partita
