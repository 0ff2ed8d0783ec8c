// Makes edges (docs/inside/PHYSICAL.md section 5): data, firings, static queues, reuse of bytes. Leaves implied ones
// out again.
#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/physical/implied_edges.h"
#include "partita/physical/passes.h"

namespace partita {
namespace {

// Edges that are being made.
struct Making {
  const PhysicalGraph& graph;
  const NodeTable& table;
  std::vector<int> place;  // by number of the node
  const Uses& uses;
  std::vector<RawEdge> raw;
};

int place(const Making& m, const Node& node) { return m.place[m.table.number(node)]; }

void add(Making& m, const Node& from, const Node& to, bool next, EdgeKind kind) {
  const int x = place(m, from), y = place(m, to);
  if (x != y) m.raw.push_back({x, y, next, kind});
}

// Adds data edges: section 5.1, and the table's rows for carried registers.
void data(Making& m) {
  for (std::size_t r = 0; r < m.uses.size(); ++r) {
    for (const Use& use : m.uses[r])
      for (const Node& writer : use.writers)
        for (const Node& reader : use.readers) add(m, writer, reader, false, EdgeKind::kData);
    if (!m.graph.registers[r].carried) continue;
    const Use &old = m.uses[r][0], &fresh = m.uses[r][1];
    for (const Node& writer : fresh.writers) {
      for (const Node& reader : old.readers) {
        add(m, writer, reader, true, EdgeKind::kData);
        add(m, reader, writer, false, EdgeKind::kReuse);
      }
      for (const Node& reader : fresh.readers) add(m, reader, writer, true, EdgeKind::kReuse);
      for (const Node& other : fresh.writers) add(m, other, writer, true, EdgeKind::kReuse);
    }
  }
}

// Adds edges between firings: section 5.2.
void firings(Making& m) {
  for (const Node& node : m.table.nodes) {
    const int rate = m.graph.task(node.task).rate;
    const bool last = node.firing + 1 == rate;
    add(m, node, {node.task, last ? 0 : node.firing + 1}, last, EdgeKind::kFiring);
  }
}

// Adds edges of static queues: section 5.3.
void queues(Making& m) {
  std::vector<const Node*> first(m.graph.queues.size(), nullptr), last(m.graph.queues.size(), nullptr);
  for (const Node& node : m.graph.order)
    for (TaskId member : m.table.members[m.table.number(node)]) {
      const std::size_t q = m.graph.task(member).queue.index();
      if (!m.graph.queues[q].is_static()) continue;
      if (last[q]) add(m, *last[q], node, false, EdgeKind::kQueue);
      if (!first[q]) first[q] = &node;
      last[q] = &node;
    }
  for (std::size_t q = 0; q < first.size(); ++q)
    if (first[q]) add(m, *last[q], *first[q], true, EdgeKind::kQueue);
}

// Section 5.4: the use that lies on a byte interval, and the round of the sweep in which it came there.
struct Holder {
  const Use* use = nullptr;
  int round = 0;
};

// Adds edges from every user of `before` to every writer of `after`, whose bytes it frees.
void follow(Making& m, const Use& before, const Use& after, bool next) {
  const bool accumulated = m.graph.reg(after.reg).accumulated;
  for (const Node& writer : after.writers) {
    if (accumulated && writer.firing > 0) continue;
    for (const auto* users : {&before.writers, &before.readers})
      for (const Node& user : *users) add(m, user, writer, next, EdgeKind::kReuse);
  }
}

// The use takes its bytes from those that hold them.
void paint(Making& m, std::map<int64_t, Holder>& bytes, const Use& use, int round) {
  const Register& reg = m.graph.reg(use.reg);
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
    follow(m, *before.use, use, before.round != round);
  }
  bytes.erase(std::next(from), to);
  from->second = {&use, round};
}

// Section 5.4: per device one sweep over the uses by their first write, in two rounds.
void reuse(Making& m) {
  struct Entry {
    int first;
    const Use* use;
  };
  std::vector<std::vector<Entry>> devices(m.graph.device_count);
  for (std::size_t r = 0; r < m.uses.size(); ++r) {
    const Register& reg = m.graph.registers[r];
    if (reg.carried || reg.constant || reg.bytes == 0) continue;
    for (const Use& use : m.uses[r]) {
      int first = std::numeric_limits<int>::max();
      for (const Node& writer : use.writers) first = std::min(first, place(m, writer));
      devices[reg.device.index()].push_back({first, &use});
    }
  }
  for (auto& entries : devices) {
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
    std::map<int64_t, Holder> bytes;  // from this byte to the next key; no use: free
    bytes[0] = {};
    for (int round = 0; round < 2; ++round)
      for (const Entry& entry : entries) paint(m, bytes, *entry.use, round);
  }
}

// Sorts by source, target and step, and keeps the first kind of equal ones.
void sort_unique(std::vector<RawEdge>& raw) {
  const auto key = [](const RawEdge& e) { return std::tuple(e.from, e.to, e.next); };
  std::sort(raw.begin(), raw.end(), [](const RawEdge& a, const RawEdge& b) {
    return std::tuple(a.from, a.to, a.next, a.kind) < std::tuple(b.from, b.to, b.next, b.kind);
  });
  raw.erase(std::unique(raw.begin(), raw.end(), [&](const RawEdge& a, const RawEdge& b) { return key(a) == key(b); }),
            raw.end());
}

}  // namespace

void make_edges(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const Watch& watch) {
  constexpr char kWhere[] = "while a plan's edges were made";
  Making m{graph, table, places(graph, table), uses, {}};
  data(m);
  firings(m);
  queues(m);
  watch.poll(kWhere);
  reuse(m);
  watch.poll(kWhere);
  for (const Edge& edge : graph.edges)
    if (edge.kind == EdgeKind::kPlan) add(m, edge.from, edge.to, edge.next, edge.kind);
  sort_unique(m.raw);
  graph.edges.clear();
  graph.edges.reserve(m.raw.size());
  for (const RawEdge& e : m.raw) graph.edges.push_back({graph.order[e.from], graph.order[e.to], e.next, e.kind});
}

void leave_out_implied(PhysicalGraph& graph, const NodeTable& table, const Watch& watch) {
  const std::vector<int> place = places(graph, table);
  std::vector<RawEdge> raw;
  raw.reserve(graph.edges.size());
  for (const Edge& edge : graph.edges) {
    raw.push_back({place[table.number(edge.from)], place[table.number(edge.to)], edge.next, edge.kind});
    ensure(edge.next || raw.back().from < raw.back().to, "edge {} -> {} points backwards in the order",
           to_string(graph, edge.from), to_string(graph, edge.to));
  }
  const std::vector<bool> implied = implied_edges(raw, table.size(), watch);
  std::size_t kept = 0;
  for (std::size_t e = 0; e < raw.size(); ++e)
    if (!implied[e]) graph.edges[kept++] = graph.edges[e];
  graph.edges.resize(kept);
}

}  // namespace partita
