// Finds which node must stand before which, from registers and offsets alone (docs/inside/PHYSICAL.md section 6).
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "partita/physical/admission.h"

namespace partita::admission {
namespace {

void add_need(Admission& in, const Node& from, const Node& to, bool next, Rule rule, int32_t a, int32_t b = -1) {
  if (from == to) return;
  const int to_place = place(in, to);
  const Need need{place(in, from), to_place, next, rule, a, b};
  in.needs[target(in, to_place, next) / kBlock].push_back(need);
}

// The bytes of one use.
struct Piece {
  int64_t begin, end;
  const PlacedUse* placed;
  int first;  // place of its first write
  const Use& use() const { return *placed->use; }
};

bool lives_on(const Admission& in, const Piece& piece) {
  const Register& reg = in.graph.reg(piece.use().reg);
  return reg.carried || reg.constant;
}

// Refuses a node that reads `operand` and writes `result` over it, unless it does so element by element in the very
// same place.
void may_touch(const Admission& in, const Use& operand, const Use& result, const Node& node) {
  const Register &a = in.graph.reg(operand.reg), &b = in.graph.reg(result.reg);
  const Task& task = in.graph.task(node.task);
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
        to_string(in.graph, node), b.name, a.name);
}

// Needs every user of `earlier` to be done before a writer of `later` begins.
void before(Admission& in, const PlacedUse& earlier, const PlacedUse& later, bool next) {
  const bool accumulated = in.graph.reg(later.use->reg).accumulated;
  for (std::size_t w = 0; w < later.writers.size(); ++w) {
    const Node& writer = later.use->writers[w];
    if (accumulated && writer.firing > 0) continue;  // its firing 0 stands before
    const int to = later.writers[w];
    if (!next && std::find(earlier.users.begin(), earlier.users.end(), to) != earlier.users.end())
      may_touch(in, *earlier.use, *later.use, writer);
    in.waits[target(in, to, next) / kBlock].push_back({&earlier, to, next, later.use->reg});
  }
}

void in_order(Admission& in, const Piece& earlier, const Piece& later) {
  const Register &a = in.graph.reg(earlier.use().reg), &b = in.graph.reg(later.use().reg);
  if (lives_on(in, earlier) || lives_on(in, later))
    refuse_because("registers '{}' and '{}' share bytes, and '{}' lives from step to step", a.name, b.name,
                   lives_on(in, earlier) ? a.name : b.name);
  if (earlier.first == later.first)
    refuse_because("{} writes '{}' and '{}', which share bytes", name(in, earlier.first), a.name, b.name);
  before(in, *earlier.placed, *later.placed, false);
}

// Take the uses that one byte has in the order of their first writes. Each must stand before the one after it, and the
// last before the next step's first. Pairs that lie further apart follow, since every use has a writer. The sweep goes
// up through the bytes. It looks at a pair of uses when they become neighbours in that order.
void sweep_bytes(Admission& in, const std::vector<Piece>& pieces) {
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
      if (before_it) in_order(in, *before_it, *event.piece);
      if (after_it) in_order(in, *event.piece, *after_it);
    } else {
      if (before_it && after_it) in_order(in, *before_it, *after_it);
      open.erase(at);
    }
    const bool other_ends = !before_it || !after_it;
    if (other_ends && open.size() > 1) before(in, *(*open.rbegin())->placed, *(*open.begin())->placed, true);
  }
}

// By device: a piece for every use that has bytes.
std::vector<std::vector<Piece>> pieces_of(Admission& in) {
  std::vector<std::vector<Piece>> devices(in.graph.device_count);
  in.placed.resize(in.uses.size());
  for (std::size_t r = 0; r < in.uses.size(); ++r) {
    const Register& reg = in.graph.registers[r];
    if (reg.bytes == 0) continue;
    // old and new of a carried register are dealt with elsewhere. Here it stands as one use against all others.
    const std::size_t count = reg.carried ? 1 : in.uses[r].size();
    in.placed[r].resize(count);
    for (std::size_t n = 0; n < count; ++n) {
      PlacedUse& placed = in.placed[r][n];
      placed.use = &in.uses[r][n];
      for (const Node& writer : placed.use->writers) placed.writers.push_back(place(in, writer));
      placed.users = placed.writers;
      for (const Node& reader : placed.use->readers) placed.users.push_back(place(in, reader));
      int first = std::numeric_limits<int>::max();
      for (int writer : placed.writers) first = std::min(first, writer);
      const int64_t begin = reg.slot_offset(reg.slot(static_cast<int>(n)));
      devices[reg.device.index()].push_back({begin, begin + reg.bytes, &placed, first});
    }
  }
  return devices;
}

}  // namespace

void find_data_needs(Admission& in) {
  for (std::size_t r = 0; r < in.uses.size(); ++r) {
    const Register& reg = in.graph.registers[r];
    const int32_t id = static_cast<int32_t>(r);
    for (const Use& use : in.uses[r]) {
      if (reg.constant && !use.writers.empty())
        refuse_because("register '{}' is constant, and {} writes it", reg.name, to_string(in.graph, use.writers[0]));
      const bool needs_writer = !reg.constant && !(reg.carried && (use.number == 0 || use.readers.empty()));
      if (needs_writer && use.writers.empty())
        refuse_because("register '{}': nothing writes its use {}", reg.name, use.number);
      for (const Node& writer : use.writers)
        for (const Node& reader : use.readers) add_need(in, writer, reader, false, Rule::kData, id);
    }
    if (!reg.carried) continue;
    const Use &old = in.uses[r][0], &fresh = in.uses[r][1];
    for (const Node& writer : fresh.writers) {
      for (const Node& reader : old.readers) {
        add_need(in, reader, writer, false, Rule::kInPlace, id);
        add_need(in, writer, reader, true, Rule::kCarried, id);
      }
      for (const Node& reader : fresh.readers) add_need(in, reader, writer, true, Rule::kReuse, id, id);
    }
  }
}

void find_firing_needs(Admission& in) {
  for (std::size_t t = 0; t < in.graph.tasks.size(); ++t) {
    const Task& task = in.graph.tasks[t];
    for (int firing = 0; firing < task.rate; ++firing) {
      const Node node = in.table.nodes[in.table.number(TaskId(t), firing)];
      if (node.task != TaskId(t)) break;  // the collective's first participant stands for all
      add_need(in, node, {node.task, (firing + 1) % task.rate}, firing + 1 == task.rate, Rule::kFiring, -1);
    }
  }
  std::map<int, std::vector<Node>> queues;  // static ones: their share of the order
  for (const Node& node : in.graph.order)
    for (TaskId member : in.table.members[in.table.number(node)]) {
      const QueueId queue = in.graph.task(member).queue;
      if (in.graph.queues[queue.index()].is_static()) queues[queue.value].push_back(node);
    }
  for (const auto& [queue, nodes] : queues)
    for (std::size_t i = 0; i < nodes.size(); ++i)
      add_need(in, nodes[i], nodes[(i + 1) % nodes.size()], i + 1 == nodes.size(), Rule::kQueue, queue);
}

void find_reuse_needs(Admission& in) {
  for (const auto& pieces : pieces_of(in)) {
    for (const Piece& piece : pieces)
      if (!lives_on(in, piece)) before(in, *piece.placed, *piece.placed, true);
    sweep_bytes(in, pieces);
  }
}

}  // namespace partita::admission
