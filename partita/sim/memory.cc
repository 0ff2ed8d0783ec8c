// Derives the memory in use over time from the times at which a trace's tasks ran.
#include <algorithm>
#include <map>
#include <utility>

#include "partita/physical/kept_gradients.h"
#include "partita/physical/uses.h"
#include "partita/sim/simulate.h"

namespace partita {

namespace {

struct Span {
  int64_t from = INT64_MAX, to = 0;  // start of the first participant, end of the last; to 0: it did not run
};

// When each node ran in each step.
struct Spans {
  const NodeTable& table;
  int steps = 0;
  std::vector<Span> at;  // [step][node]

  Span& of(int node, int step) { return at[static_cast<size_t>(step) * table.size() + node]; }
  const Span& of(int node, int step) const { return at[static_cast<size_t>(step) * table.size() + node]; }
};

Spans spans_of(const NodeTable& table, const std::vector<Event>& events) {
  Spans spans{table, 0, {}};
  for (const Event& e : events) spans.steps = std::max(spans.steps, e.step + 1);
  spans.at.resize(static_cast<size_t>(table.size()) * spans.steps);
  for (const Event& e : events) {
    Span& s = spans.of(table.number(e.task, e.firing), e.step);
    s = {std::min(s.from, e.start_ns), std::max(s.to, e.end_ns)};
  }
  return spans;
}

// Tells whether a writer's result is written over its operand. Such a result takes its place when the task ends.
bool over_operand(const PhysicalGraph& graph, const Node& writer, const Use& use) {
  const Task& task = graph.task(writer.task);
  const Register& reg = graph.reg(use.reg);
  return task.elementwise && std::any_of(task.reads.begin(), task.reads.end(), [&](const Access& read) {
           const Register& operand = graph.reg(read.reg);
           const int from = uses_of(operand, task.rate, writer.firing, read.fresh).first;
           return read.reg != use.reg && operand.device == reg.device && operand.bytes == reg.bytes &&
                  operand.slot_offset(operand.slot(from)) == reg.slot_offset(reg.slot(use.number));
         });
}

// From the first write of a use to the end of its last reader, in one step; `from` is INT64_MAX if nothing wrote it.
Span live_span(const PhysicalGraph& graph, const Use& use, const Spans& spans, int step) {
  Span live;
  for (const Node& w : use.writers) {
    const Span& at = spans.of(spans.table.number(w), step);
    if (at.to == 0) continue;
    live = {std::min(live.from, over_operand(graph, w, use) ? at.to : at.from), std::max(live.to, at.to)};
  }
  for (const Node& r : use.readers) live.to = std::max(live.to, spans.of(spans.table.number(r), step).to);
  return live;
}

}  // namespace

std::vector<MemorySample> memory_over_time(const PhysicalGraph& graph, const std::vector<Event>& events) {
  const NodeTable table = number_nodes(graph);
  const Spans spans = spans_of(table, events);
  std::map<std::pair<int64_t, int32_t>, int64_t> change;  // (time, device) -> bytes
  for (const Register& reg : graph.registers)
    if (reg.carried || reg.constant) change[{0, reg.device.value}] += reg.bytes;
  const Uses uses(graph, table);
  const KeptGradients kept = kept_gradients(graph, table);
  std::vector<KeptUntil<int64_t>> kept_until;  // by step
  for (int s = 0; s < spans.steps; ++s)
    kept_until.emplace_back(graph, kept, 0, [&](int node, DeviceId) { return spans.of(node, s).to; });
  for (const Use& use : uses.all()) {
    const Register& reg = graph.reg(use.reg);
    if (reg.carried || reg.constant) continue;
    for (int s = 0; s < spans.steps; ++s) {
      Span live = live_span(graph, use, spans, s);
      if (live.from == INT64_MAX) continue;
      live.to = std::max(live.to, kept_until[static_cast<size_t>(s)].of(use));
      change[{live.from, reg.device.value}] += reg.bytes;
      change[{live.to, reg.device.value}] -= reg.bytes;
    }
  }
  std::vector<MemorySample> samples;
  std::map<int32_t, int64_t> live;
  for (const auto& [at, bytes] : change) {
    if (bytes == 0) continue;
    live[at.second] += bytes;
    DeviceId device;
    device.value = at.second;
    samples.push_back({device, at.first, live[at.second]});
  }
  return samples;
}

}  // namespace partita
