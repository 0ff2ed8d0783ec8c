// Admission (docs/PHYSICAL.md section 6): works out from registers and offsets alone what must stand before what, and
// proves that the edges make it so. Shares nothing with edges.cc.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/lower.h"

namespace partita {
namespace {

constexpr char kWhere[] = "while a plan was admitted";

// A reason to refuse.
struct Refusal {
  std::string why;
};

template <typename... Args>
[[noreturn]] void refuse_because(fmt::format_string<Args...> format, Args&&... args) {
  throw Refusal{fmt::format(format, std::forward<Args>(args)...)};
}

enum class Rule { kData, kCarried, kInPlace, kReuse, kAct, kQueue };

// The node at place `from` must be done before the node at place `to` begins, in the same step or (next) in the one
// after.
struct Need {
  int from = 0, to = 0;
  bool next = false;
  Rule rule = Rule::kData;
  int32_t a = -1, b = -1;  // registers (kQueue: the queue) that it is about, for the message
};

// A use, and the places of the nodes that touch it.
struct PlacedUse {
  const Use* use = nullptr;
  std::vector<int> writers, users;  // users: writers, then readers
};

// All users of a use are done before the node at place `to` writes another use of the same bytes.
struct Wait {
  const PlacedUse* earlier = nullptr;
  int to = 0;
  bool next = false;
  RegisterId later;
};

class Admission {
 public:
  explicit Admission(const PhysicalGraph& graph)
      : graph_(graph),
        table_(number_nodes(graph)),
        place_(places(graph, table_)),
        uses_(graph, table_),
        needs_(2 * table_.size() / kBlock + 1),
        waits_(needs_.size()) {}

  void check(const Watch& watch) {
    registers();
    forward();
    data();
    watch.poll(kWhere);
    acts_and_queues();
    shared_bytes();
    prove(watch);
  }

 private:
  int place(const Node& node) const { return place_[table_.number(node)]; }
  std::string name(int place) const { return to_string(graph_, graph_.order[place]); }

  // ---- the registers themselves

  void registers() const {
    for (const Register& reg : graph_.registers) {
      if (reg.offset < 0) refuse_because("register '{}' is not placed", reg.name);
      if (reg.offset % kAlignBytes != 0)
        refuse_because("register '{}': offset {} is not a multiple of {}", reg.name, reg.offset, kAlignBytes);
      if (reg.count < 1 || reg.count > std::max(reg.uses, 1) || (reg.carried && reg.count != 1))
        refuse_because("register '{}': {} slots for {} uses a step", reg.name, reg.count, reg.uses);
    }
  }

  // ---- every `now` edge points forward

  void forward() {
    for (const Edge& edge : graph_.edges) {
      check_node(edge.from);
      check_node(edge.to);
      if (edge.from == edge.to)
        refuse_because("edge {} -> {} joins a node to itself", to_string(graph_, edge.from),
                       to_string(graph_, edge.to));
    }
    for (const Edge& edge : graph_.edges)
      if (!edge.next && place(edge.from) >= place(edge.to)) refuse_because("{}", backward(edge));
  }

  void check_node(const Node& node) const {
    if (!node.task.valid() || node.task.index() >= graph_.tasks.size() || node.act < 0 ||
        node.act >= graph_.task(node.task).rate || table_.nodes[table_.number(node)] != node)
      refuse_because("an edge names task {} act {}, which is not a node", node.task.value, node.act);
  }

  // The shortest way back along `now` edges makes the cycle.
  std::string backward(const Edge& edge) const {
    std::vector<std::vector<int>> after(table_.size());
    for (const Edge& e : graph_.edges)
      if (!e.next) after[place(e.from)].push_back(place(e.to));
    const int start = place(edge.to), goal = place(edge.from);
    std::vector<int> from(table_.size(), -1), reached{start};
    from[start] = start;
    for (std::size_t i = 0; i < reached.size() && from[goal] < 0; ++i)
      for (int to : after[reached[i]])
        if (from[to] < 0) {
          from[to] = reached[i];
          reached.push_back(to);
        }
    std::string text = fmt::format("edge {} -> {} points backwards in the order", name(goal), name(start));
    if (from[goal] < 0) return text + "; it closes no cycle, so that another order would serve";
    std::vector<int> cycle{goal};
    while (cycle.back() != start) cycle.push_back(from[cycle.back()]);
    std::string names;
    for (std::size_t i = cycle.size(); i-- > 0;) names += name(cycle[i]) + " -> ";
    return text + ": no one can begin in the cycle " + names + name(start);
  }

  // ---- what must stand before what

  void need(const Node& from, const Node& to, bool next, Rule rule, int32_t a, int32_t b = -1) {
    if (from == to) return;
    const int to_place = place(to);
    const Need need{place(from), to_place, next, rule, a, b};
    needs_[target(to_place, next) / kBlock].push_back(need);
  }

  void data() {
    for (std::size_t r = 0; r < uses_.size(); ++r) {
      const Register& reg = graph_.registers[r];
      const int32_t id = static_cast<int32_t>(r);
      for (const Use& use : uses_[r]) {
        if (reg.constant && !use.writers.empty())
          refuse_because("register '{}' is constant, and {} writes it", reg.name, to_string(graph_, use.writers[0]));
        const bool needs_writer = !reg.constant && !(reg.carried && (use.number == 0 || use.readers.empty()));
        if (needs_writer && use.writers.empty())
          refuse_because("register '{}': nothing writes its use {}", reg.name, use.number);
        for (const Node& writer : use.writers)
          for (const Node& reader : use.readers) need(writer, reader, false, Rule::kData, id);
      }
      if (!reg.carried) continue;
      const Use &old = uses_[r][0], &fresh = uses_[r][1];
      for (const Node& writer : fresh.writers) {
        for (const Node& reader : old.readers) {
          need(reader, writer, false, Rule::kInPlace, id);
          need(writer, reader, true, Rule::kCarried, id);
        }
        for (const Node& reader : fresh.readers) need(reader, writer, true, Rule::kReuse, id, id);
      }
    }
  }

  void acts_and_queues() {
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      const Task& task = graph_.tasks[t];
      for (int act = 0; act < task.rate; ++act) {
        const Node node = table_.nodes[table_.number(TaskId(t), act)];
        if (node.task != TaskId(t)) break;  // the collective's first participant stands for all
        need(node, {node.task, (act + 1) % task.rate}, act + 1 == task.rate, Rule::kAct, -1);
      }
    }
    std::map<int, std::vector<Node>> queues;  // static ones: their share of the order
    for (const Node& node : graph_.order)
      for (TaskId member : table_.members[table_.number(node)]) {
        const QueueId queue = graph_.task(member).queue;
        if (graph_.queues[queue.index()].is_static()) queues[queue.value].push_back(node);
      }
    for (const auto& [queue, nodes] : queues)
      for (std::size_t i = 0; i < nodes.size(); ++i)
        need(nodes[i], nodes[(i + 1) % nodes.size()], i + 1 == nodes.size(), Rule::kQueue, queue);
  }

  // ---- two uses of the same bytes

  struct Piece {  // the bytes of one use
    int64_t begin, end;
    const PlacedUse* placed;
    int first;  // place of its first write
    const Use& use() const { return *placed->use; }
  };

  void shared_bytes() {
    std::vector<std::vector<Piece>> devices(graph_.device_count);
    placed_.resize(uses_.size());
    for (std::size_t r = 0; r < uses_.size(); ++r) {
      const Register& reg = graph_.registers[r];
      if (reg.bytes == 0) continue;
      // old and new of a carried register were dealt with; here it stands for itself against all others.
      const std::size_t count = reg.carried ? 1 : uses_[r].size();
      placed_[r].resize(count);
      for (std::size_t n = 0; n < count; ++n) {
        PlacedUse& placed = placed_[r][n];
        placed.use = &uses_[r][n];
        for (const Node& writer : placed.use->writers) placed.writers.push_back(place(writer));
        placed.users = placed.writers;
        for (const Node& reader : placed.use->readers) placed.users.push_back(place(reader));
        int first = std::numeric_limits<int>::max();
        for (int writer : placed.writers) first = std::min(first, writer);
        const int64_t begin = reg.slot_offset(reg.slot(static_cast<int>(n)));
        devices[reg.device.index()].push_back({begin, begin + reg.bytes, &placed, first});
      }
    }
    for (const auto& pieces : devices) {
      for (const Piece& piece : pieces)
        if (!lives_on(piece)) before(*piece.placed, *piece.placed, true);
      shared_bytes(pieces);
    }
  }

  // Of the uses that a byte has, in the order of their first writes, each must stand before the one after it and the
  // last before the next step's first: what lies further apart follows, since every use has a writer. Goes up through
  // the bytes, and looks at a pair when it comes to stand side by side.
  void shared_bytes(const std::vector<Piece>& pieces) {
    struct Event {
      int64_t byte;
      bool opens;
      const Piece* piece;
    };
    std::vector<Event> events;
    for (const Piece& piece : pieces) {
      events.push_back({piece.begin, true, &piece});
      events.push_back({piece.end, false, &piece});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::tuple(a.byte, a.opens, a.piece) < std::tuple(b.byte, b.opens, b.piece);
    });
    const auto sooner = [](const Piece* a, const Piece* b) { return std::pair(a->first, a) < std::pair(b->first, b); };
    std::set<const Piece*, decltype(sooner)> open(sooner);
    for (const Event& event : events) {
      const auto at = event.opens ? open.insert(event.piece).first : open.find(event.piece);
      const Piece* before_it = at == open.begin() ? nullptr : *std::prev(at);
      const Piece* after_it = std::next(at) == open.end() ? nullptr : *std::next(at);
      if (event.opens) {
        if (before_it) in_order(*before_it, *event.piece);
        if (after_it) in_order(*event.piece, *after_it);
      } else {
        if (before_it && after_it) in_order(*before_it, *after_it);
        open.erase(at);
      }
      const bool other_ends = !before_it || !after_it;
      if (other_ends && open.size() > 1) before(*(*open.rbegin())->placed, *(*open.begin())->placed, true);
    }
  }

  bool lives_on(const Piece& piece) const {
    const Register& reg = graph_.reg(piece.use().reg);
    return reg.carried || reg.constant;
  }

  void in_order(const Piece& earlier, const Piece& later) {
    const Register &a = graph_.reg(earlier.use().reg), &b = graph_.reg(later.use().reg);
    if (lives_on(earlier) || lives_on(later))
      refuse_because("registers '{}' and '{}' share bytes, and '{}' lives from step to step", a.name, b.name,
                     lives_on(earlier) ? a.name : b.name);
    if (earlier.first == later.first)
      refuse_because("{} writes '{}' and '{}', which share bytes", name(earlier.first), a.name, b.name);
    before(*earlier.placed, *later.placed, false);
  }

  // Every user of `earlier` is done before a writer of `later` begins.
  void before(const PlacedUse& earlier, const PlacedUse& later, bool next) {
    const bool accumulated = graph_.reg(later.use->reg).accumulated;
    for (std::size_t w = 0; w < later.writers.size(); ++w) {
      const Node& writer = later.use->writers[w];
      if (accumulated && writer.act > 0) continue;  // its act 0 stands before
      const int to = later.writers[w];
      if (!next && std::find(earlier.users.begin(), earlier.users.end(), to) != earlier.users.end())
        may_touch(*earlier.use, *later.use, writer);
      waits_[target(to, next) / kBlock].push_back({&earlier, to, next, later.use->reg});
    }
  }

  // A node that reads `operand` and writes `result` over it: element by element only, in the very same place.
  void may_touch(const Use& operand, const Use& result, const Node& node) const {
    const Register &a = graph_.reg(operand.reg), &b = graph_.reg(result.reg);
    const Task& task = graph_.task(node.task);
    const bool same_place = a.bytes == b.bytes && a.dtype == b.dtype && a.axes == b.axes && !a.boxes.empty() &&
                            !b.boxes.empty() && a.box(operand.number) == b.box(result.number) &&
                            a.slot_offset(a.slot(operand.number)) == b.slot_offset(b.slot(result.number));
    bool writes_it = std::binary_search(operand.writers.begin(), operand.writers.end(), node);
    bool whole = true;
    for (const Access& read : task.reads)
      if (read.reg == operand.reg && !read.boxes.empty()) whole = false;
    for (const Access& write : task.writes)
      if (write.reg == result.reg && !write.boxes.empty()) whole = false;
    if (!task.elementwise || !same_place || !whole || writes_it || a.accumulated || b.accumulated ||
        task.writes.size() != 1)
      refuse_because(
          "{} writes '{}' over its operand '{}', which only an element-wise task may, on the same box, offset and "
          "bytes",
          to_string(graph_, node), b.name, a.name);
  }

  // ---- paths

  // Vertex p is place p of one step, size + p of the next. Targets are taken in blocks; each vertex holds which of the
  // block's targets it reaches.
  static constexpr int kWords = 32, kBlock = kWords * 64;
  int target(int to, bool next) const { return to + (next ? table_.size() : 0); }

  void prove(const Watch& watch) const {
    const int size = table_.size();
    std::vector<std::vector<int>> now(size), next(size);
    for (const Edge& edge : graph_.edges) (edge.next ? next : now)[place(edge.from)].push_back(place(edge.to));

    std::vector<uint64_t> reached(static_cast<std::size_t>(2 * size) * kWords);
    const auto row = [&](int vertex) { return reached.data() + static_cast<std::size_t>(vertex) * kWords; };
    for (std::size_t number = 0; number < needs_.size(); ++number) {
      watch.poll(kWhere);
      if (needs_[number].empty() && waits_[number].empty()) continue;
      const int block = static_cast<int>(number) * kBlock, block_end = std::min(2 * size, block + kBlock);
      int lowest = block;  // of the vertices that are asked about
      for (const Need& need : needs_[number]) lowest = std::min(lowest, need.from);
      for (const Wait& wait : waits_[number])
        for (int from : wait.earlier->users) lowest = std::min(lowest, from);
      for (int vertex = block_end - 1; vertex >= lowest; --vertex) {
        uint64_t* bits = row(vertex);
        std::fill(bits, bits + kWords, 0);
        if (vertex >= block) bits[(vertex - block) / 64] |= uint64_t{1} << ((vertex - block) % 64);
        const auto gather = [&](int successor) {
          if (successor >= block_end) return;
          const uint64_t* other = row(successor);
          for (int w = 0; w < kWords; ++w) bits[w] |= other[w];
        };
        const bool second = vertex >= size;
        for (int to : now[second ? vertex - size : vertex]) gather(second ? to + size : to);
        if (second) continue;
        for (int to : next[vertex]) gather(to + size);
        gather(vertex + size);  // a task's acts run one after another
      }
      std::optional<Need> first;  // of those that no path meets: the earliest target, of that the earliest place
      const auto meets = [&](int from, int to) {
        return from < block_end && (row(from)[(to - block) / 64] >> ((to - block) % 64) & 1);
      };
      const auto lacks = [&](const Need& need) {
        if (!first ||
            std::pair(target(need.to, need.next), need.from) < std::pair(target(first->to, first->next), first->from))
          first = need;
      };
      for (const Need& need : needs_[number])
        if (!meets(need.from, target(need.to, need.next))) lacks(need);
      for (const Wait& wait : waits_[number]) {
        const int to = target(wait.to, wait.next);
        for (int from : wait.earlier->users)
          if (from != wait.to && !meets(from, to))
            lacks({from, wait.to, wait.next, Rule::kReuse, wait.earlier->use->reg.value, wait.later.value});
      }
      if (first) refuse_because("{}", missing(*first));
    }
  }

  std::string missing(const Need& need) const {
    const auto reg = [&](int32_t id) { return graph_.registers[id].name; };
    std::string why;
    switch (need.rule) {
      case Rule::kData:
        why = fmt::format("the one writes '{}' and the other reads it", reg(need.a));
        break;
      case Rule::kCarried:
        why = fmt::format("the one writes '{}' and the other reads it in the next step", reg(need.a));
        break;
      case Rule::kInPlace:
        why = fmt::format("the one reads the old '{}' and the other replaces it", reg(need.a));
        break;
      case Rule::kAct:
        why = "a task's acts follow each other";
        break;
      case Rule::kQueue:
        why = fmt::format("static queue {} runs them in this order", graph_.queues[need.a].name);
        break;
      case Rule::kReuse:
        why = need.a == need.b ? fmt::format("both use the same bytes of '{}'", reg(need.a))
                               : fmt::format("'{}' and '{}' share bytes on device {}", reg(need.a), reg(need.b),
                                             graph_.registers[need.a].device.value);
    }
    return fmt::format("no edges make {} wait for {}{}: {}", name(need.to), name(need.from),
                       need.next ? " of the step before" : "", why);
  }

  const PhysicalGraph& graph_;
  NodeTable table_;
  std::vector<int> place_;
  Uses uses_;
  std::vector<std::vector<PlacedUse>> placed_;  // by register and use, where it has bytes
  // By block of their target.
  std::vector<std::vector<Need>> needs_;
  std::vector<std::vector<Wait>> waits_;
};

}  // namespace

std::optional<std::string> refuse(const PhysicalGraph& graph, const Watch& watch) {
  try {
    Admission(graph).check(watch);
  } catch (const Refusal& refusal) {
    return refusal.why;
  } catch (const Error& error) {  // the order is not each node once, or rates disagree
    if (error.code() != ExitCode::kBadInput) throw;
    return error.what();
  }
  return std::nullopt;
}

void admit(const PhysicalGraph& graph, const Cluster& cluster) {
  if (const auto why = refuse(graph)) fail("physical graph '{}' is refused: {}", graph.name, *why);
  check_capacity(graph, cluster);
}

void check_capacity(const PhysicalGraph& graph, const Cluster& cluster) {
  if (static_cast<std::size_t>(graph.device_count) != cluster.devices.size())
    fail("physical graph '{}' is for {} devices, cluster '{}' has {}", graph.name, graph.device_count, cluster.name,
         cluster.devices.size());
  std::vector<int64_t> end(graph.device_count, 0);
  for (const Register& reg : graph.registers)
    end[reg.device.index()] = std::max(end[reg.device.index()], reg.slot_offset(reg.count - 1) + reg.bytes);
  std::string over;
  for (std::size_t d = 0; d < end.size(); ++d) {
    const Device& device = cluster.devices[d];
    if (end[d] > device.memory_bytes)
      over += fmt::format("{}{} needs {} bytes and has {} ({} missing)", over.empty() ? "" : "; ", device.name, end[d],
                          device.memory_bytes, end[d] - device.memory_bytes);
  }
  if (!over.empty())
    throw Error(ExitCode::kInfeasible, fmt::format("physical graph '{}' does not fit: {}", graph.name, over));
}

}  // namespace partita
