#include "partita/physical/testing/tagged_memory.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/physical/uses.h"

namespace partita::testing {
namespace {

constexpr int64_t kPoison = -1;
constexpr int64_t kElementBytes = 4;  // one tag for so many bytes

const Box* part_of(const Access& access, int firing) {
  if (access.boxes.empty()) return nullptr;
  return &access.boxes[access.boxes.size() == 1 ? 0 : static_cast<std::size_t>(firing)];
}
bool adds(const Register& reg, int firing) { return reg.accumulated && firing > 0; }

}  // namespace

TaggedMemory::TaggedMemory(const PhysicalGraph& graph) : graph_(graph) {
  tags_.resize(graph.device_count);
  for (const Register& reg : graph.registers) {
    auto& tags = tags_[reg.device.index()];
    const int64_t end = reg.slot_offset(reg.count - 1) + reg.bytes;
    tags.resize(std::max<std::size_t>(tags.size(), static_cast<std::size_t>((end + kElementBytes - 1) / kElementBytes)),
                kPoison);
  }
  for (std::size_t r = 0; r < graph.registers.size(); ++r)
    if (graph.registers[r].carried || graph.registers[r].constant)
      fill(RegisterId(r), 0, nullptr, tag(RegisterId(r), 0, 0));
}

int64_t TaggedMemory::tag(RegisterId id, int use, int64_t step) const {
  const Register& reg = graph_.reg(id);
  const int64_t number = reg.constant ? 0 : reg.carried ? step + use : step * reg.uses + use;
  return static_cast<int64_t>(id.index()) * 1'000'000 + number;
}

// Visits the elements of a box (null: all) of a use, in the device's memory: dense over the use's box.
template <typename F>
void TaggedMemory::each(RegisterId id, int use, const Box* part, F&& visit) {
  const Register& reg = graph_.reg(id);
  auto& tags = tags_[reg.device.index()];
  const int64_t base = reg.slot_offset(reg.slot(use)) / kElementBytes;
  if (reg.boxes.empty() || !part) {
    const int64_t elements = reg.boxes.empty() ? reg.bytes / kElementBytes : volume(reg.box(reg.carried ? 0 : use));
    for (int64_t i = 0; i < elements; ++i) visit(tags[base + i]);
    return;
  }
  if (is_empty(*part)) return;
  const Box inside = relative_to(*part, reg.box(reg.carried ? 0 : use));
  const Shape shape = extents(reg.box(reg.carried ? 0 : use));
  Shape at;
  for (const Interval& i : inside) at.push_back(i.lo);
  while (true) {
    int64_t index = 0;
    for (std::size_t a = 0; a < at.size(); ++a) index = index * shape[a] + at[a];
    visit(tags[base + index]);
    std::size_t a = at.size();
    while (a > 0 && ++at[a - 1] == inside[a - 1].hi) --a, at[a] = inside[a].lo;
    if (a == 0) return;
  }
}

void TaggedMemory::fill(RegisterId id, int use, const Box* part, int64_t value) {
  each(id, use, part, [&](int64_t& t) { t = value; });
}

void TaggedMemory::expect(const Task& task, int firing, RegisterId id, int use, int64_t step, const Box* part,
                          const char* what) {
  bool right = true;
  const int64_t wanted = tag(id, use, step);
  each(id, use, part, [&](int64_t& t) { right &= t == wanted; });
  if (!right && corrupt_.empty())
    corrupt_ = fmt::format("step {}: {}#{} {} '{}' use {}, which is not there", step, task.name, firing, what,
                           graph_.reg(id).name, use);
}

void TaggedMemory::check_reads(const Task& task, int firing, int64_t step) {
  for (const Access& read : task.reads) {
    const UseRange range = uses_of(graph_.reg(read.reg), task.rate, firing, read.fresh);
    for (int use = range.first; use < range.last; ++use)
      expect(task, firing, read.reg, use, step, part_of(read, firing), "reads");
  }
}

void TaggedMemory::begin(TaskId id, int64_t firings) {
  const Task& task = graph_.task(id);
  const int firing = static_cast<int>(firings % task.rate);
  const int64_t step = firings / task.rate;
  check_reads(task, firing, step);
  for (const Access& write : task.writes) {
    const Register& reg = graph_.reg(write.reg);
    const bool reads_it =
        std::any_of(task.reads.begin(), task.reads.end(), [&](const Access& read) { return read.reg == write.reg; });
    if (adds(reg, firing) || reads_it || task.elementwise)
      continue;  // element by element: an operand may lie there until the end
    fill(write.reg, uses_of(reg, task.rate, firing, true).first, part_of(write, firing), kPoison);
  }
  for (RegisterId scratch : task.scratch) {
    const int use = uses_of(graph_.reg(scratch), task.rate, firing, true).first;
    fill(scratch, use, nullptr, tag(scratch, use, step));
  }
}

void TaggedMemory::end(TaskId id, int64_t firings) {
  const Task& task = graph_.task(id);
  const int firing = static_cast<int>(firings % task.rate);
  const int64_t step = firings / task.rate;
  check_reads(task, firing, step);
  for (RegisterId scratch : task.scratch)
    expect(task, firing, scratch, uses_of(graph_.reg(scratch), task.rate, firing, true).first, step, nullptr,
           "uses scratch");
  for (const Access& write : task.writes) {
    const Register& reg = graph_.reg(write.reg);
    const int use = uses_of(reg, task.rate, firing, true).first;
    if (adds(reg, firing)) expect(task, firing, write.reg, use, step, part_of(write, firing), "adds to");
    fill(write.reg, use, part_of(write, firing), tag(write.reg, use, step));
  }
}

}  // namespace partita::testing
