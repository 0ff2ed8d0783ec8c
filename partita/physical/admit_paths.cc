// Proves that edges meet every need and wait (docs/inside/PHYSICAL.md section 6): reachability on two unrolled steps,
// one block of targets after the other.
#include <algorithm>
#include <optional>

#include "partita/physical/admission.h"

namespace partita::admission {
namespace {

std::string unmet(const Admission& in, const Need& need) {
  const auto reg = [&](int32_t id) { return in.graph.registers[id].name; };
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
    case Rule::kFiring:
      why = "a task's acts follow each other";
      break;
    case Rule::kQueue:
      why = fmt::format("static queue {} runs them in this order", in.graph.queues[need.a].name);
      break;
    case Rule::kReuse:
      why = need.a == need.b ? fmt::format("both use the same bytes of '{}'", reg(need.a))
                             : fmt::format("'{}' and '{}' share bytes on device {}", reg(need.a), reg(need.b),
                                           in.graph.registers[need.a].device.value);
  }
  return fmt::format("no edges make {} wait for {}{}: {}", name(in, need.to), name(in, need.from),
                     need.next ? " of the step before" : "", why);
}

// For each vertex a row of bits: the targets of a block that it reaches.
struct Reached {
  int size = 0;                             // places of one step
  std::vector<std::vector<int>> now, next;  // by place: where its edges go
  int block = 0, block_end = 0;             // targets
  std::vector<uint64_t> bits;

  uint64_t* row(int vertex) { return bits.data() + static_cast<std::size_t>(vertex) * kWords; }
  bool meets(int from, int to) { return from < block_end && (row(from)[(to - block) / 64] >> ((to - block) % 64) & 1); }
};

// The rows of the vertices from `lowest` on, from the last to the first: each gathers those of its successors.
void fill_rows(Reached& reached, int lowest) {
  for (int vertex = reached.block_end - 1; vertex >= lowest; --vertex) {
    uint64_t* own = reached.row(vertex);
    std::fill(own, own + kWords, 0);
    if (vertex >= reached.block) own[(vertex - reached.block) / 64] |= uint64_t{1} << ((vertex - reached.block) % 64);
    const auto gather = [&](int successor) {
      if (successor >= reached.block_end) return;
      const uint64_t* other = reached.row(successor);
      for (int w = 0; w < kWords; ++w) own[w] |= other[w];
    };
    const int size = reached.size;
    const bool second = vertex >= size;
    for (int to : reached.now[second ? vertex - size : vertex]) gather(second ? to + size : to);
    if (second) continue;
    for (int to : reached.next[vertex]) gather(to + size);
    gather(vertex + size);  // a task's firings run one after another
  }
}

// Finds a need that no path meets, if any: the one with the earliest target, and for that the earliest place.
std::optional<Need> first_unmet(const Admission& in, Reached& reached, std::size_t number) {
  std::optional<Need> first;
  const auto lacks = [&](const Need& need) {
    if (!first || std::pair(target(in, need.to, need.next), need.from) <
                      std::pair(target(in, first->to, first->next), first->from))
      first = need;
  };
  for (const Need& need : in.needs[number])
    if (!reached.meets(need.from, target(in, need.to, need.next))) lacks(need);
  for (const Wait& wait : in.waits[number]) {
    const int to = target(in, wait.to, wait.next);
    for (int from : wait.earlier->users)
      if (from != wait.to && !reached.meets(from, to))
        lacks({from, wait.to, wait.next, Rule::kReuse, wait.earlier->use->reg.value, wait.later.value});
  }
  return first;
}

}  // namespace

void prove(const Admission& in, const Watch& watch) {
  const int size = in.table.size();
  Reached reached;
  reached.size = size;
  reached.now.resize(size);
  reached.next.resize(size);
  for (const Edge& edge : in.graph.edges)
    (edge.next ? reached.next : reached.now)[place(in, edge.from)].push_back(place(in, edge.to));
  reached.bits.resize(static_cast<std::size_t>(2 * size) * kWords);
  for (std::size_t number = 0; number < in.needs.size(); ++number) {
    watch.poll(kWhere);
    if (in.needs[number].empty() && in.waits[number].empty()) continue;
    reached.block = static_cast<int>(number) * kBlock;
    reached.block_end = std::min(2 * size, reached.block + kBlock);
    int lowest = reached.block;  // of the vertices that are asked about
    for (const Need& need : in.needs[number]) lowest = std::min(lowest, need.from);
    for (const Wait& wait : in.waits[number])
      for (int from : wait.earlier->users) lowest = std::min(lowest, from);
    fill_rows(reached, lowest);
    if (const std::optional<Need> first = first_unmet(in, reached, number)) refuse_because("{}", unmet(in, *first));
  }
}

}  // namespace partita::admission
