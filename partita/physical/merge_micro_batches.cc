// Merges the lowered graphs of micro-batches of two sizes: 8 samples in 3 micro-batches are 3, 3 and 2. Each size is
// lowered by itself. Tasks and registers of one name become one, with the boxes of their own size in each firing.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/graph/batch.h"
#include "partita/graph/micro_batches.h"
#include "partita/physical/spread_micro_batches.h"

namespace partita {

namespace {

// Both sizes, as they are merged.
struct Merging {
  const Graph& graph;
  LocallyLowered& large;
  LocallyLowered& small;
  std::vector<int64_t> first;                   // by micro-batch: its first sample
  std::map<std::string, RegisterId> registers;  // of `large`, by name
  std::vector<RegisterId> now;                  // by register of `small`
  std::vector<Box> large_box, small_box;  // by register of `large`: of one micro-batch; empty if the size has none
  std::map<CollectiveId, CollectiveId> collectives;  // of `small`
};

bool is_large(const Merging& m, size_t micro_batch) {
  return m.graph.micro_batch_samples[micro_batch] == m.graph.micro_batch_samples[0];
}

Box none_like(const Box& box) { return Box(box.size(), Interval{0, 0}); }

[[noreturn]] void refuse(const Merging& m, const std::string& what) {
  const int64_t run = *find_batch(*m.graph.whole) / runs_of_batch(m.graph);
  fail(
      "micro-batches: parts of {} and {} samples are laid out differently on these devices ({}); use a number of parts "
      "that divides the batch",
      m.graph.micro_batch_samples.front() * run, m.graph.micro_batch_samples.back() * run, what);
}

void merge_registers(Merging& m) {
  PhysicalGraph &all = m.large.graph, &other = m.small.graph;
  for (size_t r = 0; r < all.registers.size(); ++r) {
    m.registers.emplace(all.registers[r].name, RegisterId(r));
    const Box box = all.registers[r].boxes.empty() ? Box() : all.registers[r].boxes[0];
    m.large_box.push_back(box);
    m.small_box.push_back(none_like(box));
  }
  for (size_t s = 0; s < other.registers.size(); ++s) {
    const Register& reg = other.registers[s];
    const auto [found, fresh] = m.registers.emplace(reg.name, RegisterId(all.registers.size()));
    m.now.push_back(found->second);
    const Box box = reg.boxes.empty() ? Box() : reg.boxes[0];
    if (fresh) {
      all.registers.push_back(reg);
      m.large.micro_batch_axes.push_back(m.small.micro_batch_axes[s]);
      m.large_box.push_back(none_like(box));
      m.small_box.push_back(box);
      continue;
    }
    Register& same = all.reg(found->second);
    if (same.device != reg.device || same.uses != reg.uses || same.dtype != reg.dtype) refuse(m, reg.name);
    same.bytes = std::max(same.bytes, reg.bytes);
    m.small_box[found->second.index()] = box;
  }
}

// Places the boxes of every use in the whole batch.
void place_registers(Merging& m) {
  PhysicalGraph& all = m.large.graph;
  const int64_t batch = m.first.back() + m.graph.micro_batch_samples.back();
  for (size_t r = 0; r < all.registers.size(); ++r) {
    Register& reg = all.registers[r];
    const MicroBatchAxis& axis = m.large.micro_batch_axes[r];
    if (reg.boxes.empty()) continue;  // scratch
    if (axis.axis >= 0) reg.axes[static_cast<size_t>(axis.axis)] = batch * axis.inner;
    if (reg.uses == 1) {
      if (axis.axis < 0) continue;
      reg.boxes[0][static_cast<size_t>(axis.axis)] = {0, batch * axis.inner};
      reg.bytes = volume(reg.boxes[0]) * bytes_of(reg.dtype);
      continue;
    }
    reg.boxes.clear();
    for (size_t micro_batch = 0; micro_batch < m.first.size(); ++micro_batch)
      reg.boxes.push_back(
          in_batch(is_large(m, micro_batch) ? m.large_box[r] : m.small_box[r], axis, m.first[micro_batch]));
  }
}

// Merges an access of each size; null: that size has none.
Access merged(const Merging& m, const Task& task, const Access* large, const Access* small) {
  Access out = large ? *large : *small;
  const size_t r = out.reg.index();
  const bool whole = (!large || large->boxes.empty()) && (!small || small->boxes.empty()) && large && small;
  out.boxes.clear();
  if (task.rate == 1) {
    out.boxes = (large ? large : small)->boxes;
    return out;
  }
  if (whole && m.large.graph.reg(out.reg).uses > 1) return out;
  if (whole && m.large.micro_batch_axes[r].axis < 0) return out;
  for (size_t micro_batch = 0; micro_batch < m.first.size(); ++micro_batch) {
    const Access* own = is_large(m, micro_batch) ? large : small;
    const Box& all = is_large(m, micro_batch) ? m.large_box[r] : m.small_box[r];
    const Box box = !own ? none_like(all) : own->boxes.empty() ? all : own->boxes[0];
    out.boxes.push_back(in_batch(box, m.large.micro_batch_axes[r], m.first[micro_batch]));
  }
  return out;
}

std::vector<Access> merged(const Merging& m, const Task& task, const std::vector<Access>& large,
                           const std::vector<Access>& small) {
  const auto same = [](const Access& a, const Access& b) {
    return a.reg == b.reg && a.fresh == b.fresh && a.tensor == b.tensor;
  };
  std::vector<Access> out;
  std::vector<bool> taken(small.size(), false);
  for (const Access& a : large) {
    const Access* other = nullptr;
    for (size_t s = 0; s < small.size() && !other; ++s)
      if (!taken[s] && same(a, small[s])) taken[s] = true, other = &small[s];
    if (!other && a.tensor >= 0) refuse(m, task.name);
    out.push_back(merged(m, task, &a, other));
  }
  for (size_t s = 0; s < small.size(); ++s)
    if (!taken[s]) {
      if (small[s].tensor >= 0) refuse(m, task.name);
      out.push_back(merged(m, task, nullptr, &small[s]));
    }
  return out;
}

void merge_work(Merging& m, Task& task, const Task* large, const Task* small) {
  if (auto* kernel = std::get_if<KernelWork>(&task.work)) {
    if (!large || !small) refuse(m, task.name);
    const Op& op = m.graph.op(task.op);
    if (op.micro_batch_index < 0) return;
    const auto &l = std::get<KernelWork>(large->work).ranges[0], &s = std::get<KernelWork>(small->work).ranges[0];
    kernel->bound = m.graph.whole->op(task.op).bound;
    kernel->ranges.clear();
    for (size_t micro_batch = 0; micro_batch < m.first.size(); ++micro_batch)
      kernel->ranges.push_back(in_batch(is_large(m, micro_batch) ? l : s, {op.micro_batch_index, op.micro_batch_inner},
                                        m.first[micro_batch]));
  } else if (auto* participant = std::get_if<CollectiveWork>(&task.work)) {
    if (large && small) {
      const auto& other = std::get<CollectiveWork>(small->work);
      if (other.size != participant->size || other.rank != participant->rank || other.kind != participant->kind)
        refuse(m, task.name);
    } else if (!large) {
      participant->collective = m.collectives.at(participant->collective);
    }
  }
}

void merge_task(Merging& m, Task& task, const Task* large, const Task* small) {
  const Task before = task;
  if (large && small && large->work.index() != small->work.index()) refuse(m, task.name);
  merge_work(m, task, large ? &before : nullptr, small);
  const std::vector<Access> none;
  task.reads = merged(m, task, large ? before.reads : none, small ? small->reads : none);
  task.writes = merged(m, task, large ? before.writes : none, small ? small->writes : none);
  if (large && small) {
    for (RegisterId id : small->scratch)
      if (std::find(task.scratch.begin(), task.scratch.end(), id) == task.scratch.end()) {
        if (task.addend) task.scratch.insert(task.scratch.end() - 1, id);
        else task.scratch.push_back(id);
      }
  }
}

// Gives the registers of `small` their numbers in the merged graph.
void renumber(Merging& m) {
  for (Task& task : m.small.graph.tasks) {
    for (auto* accesses : {&task.reads, &task.writes})
      for (Access& a : *accesses) a.reg = m.now[a.reg.index()];
    for (RegisterId& id : task.scratch) id = m.now[id.index()];
  }
}

void merge_tasks(Merging& m) {
  PhysicalGraph& all = m.large.graph;
  std::map<std::string, Task*> small;
  for (Task& task : m.small.graph.tasks) small.emplace(task.name, &task);
  int collectives = 0;
  std::set<std::string> known;
  for (const Task& task : all.tasks) {
    known.insert(task.name);
    if (auto* participant = std::get_if<CollectiveWork>(&task.work))
      collectives = std::max(collectives, participant->collective.value + 1);
  }
  for (Task& task : m.small.graph.tasks)
    if (auto* participant = std::get_if<CollectiveWork>(&task.work); participant && !known.contains(task.name))
      if (m.collectives.try_emplace(participant->collective, CollectiveId(static_cast<size_t>(collectives))).second)
        ++collectives;
  for (Task& task : all.tasks) {
    const auto other = small.find(task.name);
    merge_task(m, task, &task, other == small.end() ? nullptr : other->second);
  }
  for (Task& task : m.small.graph.tasks) {
    if (known.contains(task.name)) continue;
    all.tasks.push_back(task);
    merge_task(m, all.tasks.back(), nullptr, &task);
  }
}

}  // namespace

void merge_micro_batches(LocallyLowered& large, LocallyLowered small, const Graph& graph) {
  Merging m{graph, large, small, first_runs(graph), {}, {}, {}, {}, {}};
  merge_registers(m);
  renumber(m);
  merge_tasks(m);
  place_registers(m);
  large.micro_batch_axes.assign(large.graph.registers.size(), {});
}

}  // namespace partita
