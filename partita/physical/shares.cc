// Follows shares (share_weights.h) through the tasks of a graph, each task after what writes what it reads.
#include "partita/physical/shares.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/share_kernel.h"
#include "partita/physical/share_weights.h"
#include "partita/physical/uses.h"

namespace partita {
namespace {

using namespace shares;

// The shares of registers so far.
struct Contents {
  const PhysicalGraph& graph;
  std::vector<std::vector<Patches>> content;  // by register and use; of a carried one, those that this step wrote
  std::vector<std::vector<TaskId>> writers;   // by register
  std::set<TensorId> combined;                // tensors of which something is combined, or made to be
  std::map<TensorId, int> terms;              // of tensors that are kept as a sum
};

bool combines(const Task& task) {
  const auto* collective = std::get_if<CollectiveWork>(&task.work);
  return std::holds_alternative<CombineWork>(task.work) || (collective && collective->partial);
}

Contents empty_contents(const PhysicalGraph& graph) {
  Contents c{graph, {}, {}, {}, {}};
  for (const Register& reg : graph.registers) {
    c.content.emplace_back(reg.carried ? 1 : static_cast<std::size_t>(reg.uses));
    if (reg.term >= 0) c.terms[reg.tensor] = std::max(c.terms[reg.tensor], reg.term + 1);
  }
  c.writers.resize(graph.registers.size());
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    for (const Access& write : task.writes) c.writers[write.reg.index()].push_back(TaskId(t));
    if (!combines(task)) continue;
    for (const auto* accesses : {&task.reads, &task.writes})
      for (const Access& access : *accesses)
        if (graph.reg(access.reg).bytes > 0) c.combined.insert(graph.reg(access.reg).tensor);
  }
  return c;
}

// ---------------------------------------------------------------- reads that must be whole

bool is_there_before(const PhysicalGraph& graph, const Access& read) {
  const Register& reg = graph.reg(read.reg);
  return reg.constant || (reg.carried && !read.fresh);
}

// The share of a register before a step: the values, or a term of them.
Share share_before(const Contents& c, const Register& reg) {
  if (reg.term < 0) return Share();
  const auto weight = [&](int term) {
    return hash_of({static_cast<uint64_t>(reg.tensor.value), static_cast<uint64_t>(term)}) % kPrime;
  };
  uint64_t first = 1;
  for (int term = 1; term < c.terms.at(reg.tensor); ++term) first = subtract_mod_prime(first, weight(term));
  return share_of(reg.term == 0 ? first : weight(reg.term), tdl::Reducer::kSum);
}

bool holds_partial(const Contents& c, const Access& access) {
  if (is_there_before(c.graph, access)) return !share_before(c, c.graph.reg(access.reg)).whole();
  for (const Patches& use : c.content[access.reg.index()])
    for (const Patch& p : use)
      if (p.share.known && !p.share.whole()) return true;
  return false;
}

// Names the task that last combined a value that is not whole in a register, going back from `from`.
std::string last_combined_by(const Contents& c, RegisterId id, const Task& from) {
  std::vector<TaskId> open;
  std::set<TaskId> seen;
  const auto add_writers = [&](RegisterId reg) {
    for (TaskId w : c.writers[reg.index()])
      if (seen.insert(w).second) open.push_back(w);
  };
  const auto add_reads = [&](const Task& task) {
    for (const Access& access : task.reads)
      if (holds_partial(c, access)) add_writers(access.reg);
  };
  const bool is_read = std::any_of(from.reads.begin(), from.reads.end(), [&](const Access& a) { return a.reg == id; });
  is_read ? add_writers(id) : add_reads(from);
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Task& task = c.graph.task(open[i]);
    if (combines(task)) return task.name;
    add_reads(task);
  }
  return "";
}

void verify_whole(const Contents& c, const Task& task, RegisterId id, const Patches& patches, const char* does) {
  for (const Patch& p : patches) {
    if (!p.share.known || p.share.whole()) continue;
    const std::string last = last_combined_by(c, id, task);
    fail("task '{}': {} {} of '{}' where it must be whole, and it is not each of its terms once{}", task.name, does,
         to_string(p.box), c.graph.reg(id).name,
         last.empty() ? "" : fmt::format("; they were last combined by '{}'", last));
  }
}

void verify_reducer(const PhysicalGraph& graph, const Task& task, RegisterId from, const Patches& terms,
                    tdl::Reducer reducer) {
  for (const Patch& p : terms)
    if (p.share.kind && *p.share.kind != reducer)
      fail("task '{}': reduces '{}' by {}, which holds partial values under {}", task.name, graph.reg(from).name,
           tdl::name_of(reducer), tdl::name_of(*p.share.kind));
}

// ---------------------------------------------------------------- reads and writes

const Box& part(const PhysicalGraph& graph, const Access& access, int firing, int use) {
  if (!access.boxes.empty()) return access.boxes[access.boxes.size() == 1 ? 0 : static_cast<std::size_t>(firing)];
  return graph.reg(access.reg).box(use);
}

int use_written(const PhysicalGraph& graph, const Task& task, const Access& access, int firing) {
  const Register& reg = graph.reg(access.reg);
  return reg.carried ? 0 : uses_of(reg, task.rate, firing, true).first;
}

// The box that a firing writes.
const Box& part_written(const PhysicalGraph& graph, const Task& task, const Access& access, int firing) {
  return part(graph, access, firing, use_written(graph, task, access, firing));
}

Patches read(const Contents& c, const Task& task, const Access& access, int firing) {
  const Register& reg = c.graph.reg(access.reg);
  const UseRange uses = uses_of(reg, task.rate, firing, access.fresh);
  if (is_there_before(c.graph, access)) {
    const Box& box = part(c.graph, access, firing, 0);
    return is_empty(box) ? Patches{} : Patches{{box, share_before(c, reg)}};
  }
  if (uses.last - uses.first == 1)
    return clipped(c.content[access.reg.index()][reg.carried ? 0 : uses.first],
                   part(c.graph, access, firing, reg.carried ? 0 : uses.first));
  Patches all;
  for (int use = uses.first; use < uses.last; ++use)
    for (Patch& p : clipped(c.content[access.reg.index()][use], reg.box(use))) all.push_back(std::move(p));
  return all;
}

void write(Contents& c, const Task& task, const Access& access, int firing, Patches made) {
  const Register& reg = c.graph.reg(access.reg);
  const int use = use_written(c.graph, task, access, firing);
  const Box& box = part(c.graph, access, firing, use);
  if (is_empty(box)) return;
  if (is_uniform(made)) made = {{box, made.empty() ? kUnknown : made[0].share}};
  if (reg.carried && reg.term < 0) verify_whole(c, task, access.reg, made, "writes");
  Patches& held = c.content[access.reg.index()][use];
  if (reg.accumulated && firing > 0) {
    held = combined(box, {held, made}, tdl::Reducer::kSum);
  } else {
    held.insert(held.end(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  }
}

// ---------------------------------------------------------------- tasks

// Tells whether a firing sums over only a part of its index.
bool makes_partial(const KernelWork& work, int firing) {
  const auto& ranges = work.ranges[work.ranges.size() == 1 ? 0 : static_cast<std::size_t>(firing)];
  for (int s = work.first_stage; s < work.last_stage; ++s)
    for (int i : work.bound->stages[s].body.reduced)
      if (ranges[i].size() < work.bound->indices[i].extent) return true;
  return false;
}

// By tensor of the formula: the shares that a firing of a kernel reads, over the formula's axes.
std::vector<Patches> held_by_kernel(const Contents& c, const Task& task, const KernelWork& work, int firing) {
  std::vector<Patches> held(work.bound->tensors.size());
  for (const Access& access : task.reads) {
    const Register& reg = c.graph.reg(access.reg);
    const Shape& axes = work.bound->tensors[access.tensor].factored;
    Patches patches = read(c, task, access, firing);
    if (!is_uniform(patches)) patches = over_axes(patches, reg.axes, axes);
    // Nothing of a tensor is read; it is known to be whole if the tensor is partial nowhere.
    if (patches.empty() && reg.tensor.valid() && !c.combined.contains(reg.tensor))
      patches = {{Box(axes.size()), Share()}};
    Patches& all = held[access.tensor];
    all.insert(all.end(), std::make_move_iterator(patches.begin()), std::make_move_iterator(patches.end()));
  }
  return held;
}

void run_kernel(Contents& c, const Task& task, const KernelWork& work, int firing) {
  const auto write_all = [&](const Share& share) {
    for (const Access& to : task.writes) write(c, task, to, firing, {{part_written(c.graph, task, to, firing), share}});
  };
  if (!work.bound) return write_all(kUnknown);
  std::vector<Patches> held = held_by_kernel(c, task, work, firing);
  // If an access reads nothing of a tensor that is partial elsewhere, the tensor is not known to be whole.
  const bool all_whole = std::all_of(task.reads.begin(), task.reads.end(), [&](const Access& access) {
    const Patches& patches = held[access.tensor];
    return (!patches.empty() || !c.graph.reg(access.reg).tensor.valid()) &&
           std::all_of(patches.begin(), patches.end(), [](const Patch& p) { return p.share.whole(); });
  });
  if (all_whole && !makes_partial(work, firing)) return write_all(Share());
  const Refuse refuse = [&](int tensor) {
    for (const Access& access : task.reads)
      if (access.tensor == tensor) verify_whole(c, task, access.reg, read(c, task, access, firing), "reads");
    fail("task '{}': its stage '{}' is partial where the next needs it whole", task.name,
         work.bound->tensors[tensor].name);
  };
  const std::vector<Patches> made = made_by_kernel(task, work, firing, std::move(held), refuse);
  for (const Access& to : task.writes) {
    Patches patches = made[to.tensor];
    if (!is_uniform(patches))
      patches = over_axes(patches, work.bound->tensors[to.tensor].factored, c.graph.reg(to.reg).axes);
    write(c, task, to, firing, std::move(patches));
  }
}

void run_collective(Contents& c, std::vector<TaskId> ring, int firing) {
  const auto rank = [&](TaskId t) { return std::get<CollectiveWork>(c.graph.task(t).work).rank; };
  std::sort(ring.begin(), ring.end(), [&](TaskId a, TaskId b) { return rank(a) < rank(b); });
  const auto& work = std::get<CollectiveWork>(c.graph.task(ring[0]).work);
  for (std::size_t i = 0; i < c.graph.task(ring[0]).reads.size(); ++i) {
    std::vector<Patches> held;
    for (TaskId t : ring) {
      const Task& task = c.graph.task(t);
      held.push_back(read(c, task, task.reads[i], firing));
      if (work.partial) verify_reducer(c.graph, task, task.reads[i].reg, held.back(), work.reducer);
    }
    for (TaskId t : ring) {
      const Task& task = c.graph.task(t);
      const Access& to = task.writes[i];
      write(c, task, to, firing, combined(part_written(c.graph, task, to, firing), held, work.reducer, !work.partial));
    }
  }
}

void run_task(Contents& c, const Task& task, int firing) {
  if (const auto* kernel = std::get_if<KernelWork>(&task.work)) {
    run_kernel(c, task, *kernel, firing);
  } else if (const auto* combine = std::get_if<CombineWork>(&task.work)) {
    std::vector<Patches> terms;
    for (const Access& access : task.reads) terms.push_back(read(c, task, access, firing));
    for (std::size_t i = 0; i < terms.size(); ++i)
      verify_reducer(c.graph, task, task.reads[i].reg, terms[i], combine->reducer);
    const Access& to = task.writes[0];
    write(c, task, to, firing, combined(part_written(c.graph, task, to, firing), terms, combine->reducer));
  } else if (std::holds_alternative<CopyWork>(task.work)) {
    const Access &from = task.reads[0], &to = task.writes[0];
    write(c, task, to, firing,
          over_axes(read(c, task, from, firing), c.graph.reg(from.reg).axes, c.graph.reg(to.reg).axes));
  } else if (std::holds_alternative<LoadWork>(task.work)) {
    const Access& to = task.writes[0];
    write(c, task, to, firing, {{part_written(c.graph, task, to, firing), Share()}});
  } else if (std::holds_alternative<OutputWork>(task.work)) {
    verify_whole(c, task, task.reads[0].reg, read(c, task, task.reads[0], firing), "gives");
  }
}

// ---------------------------------------------------------------- tensors kept as a sum

// Checks that a step leaves whole sums: each register of a carried sum makes the whole with any register of each other
// term.
void check_terms(const Contents& c) {
  std::map<TensorId, std::vector<RegisterId>> registers;
  for (std::size_t r = 0; r < c.graph.registers.size(); ++r)
    if (const Register& reg = c.graph.registers[r]; reg.carried && reg.term >= 0)
      registers[reg.tensor].push_back(RegisterId(r));
  for (const auto& [tensor, all] : registers)
    for (const RegisterId id : all) {
      const Register& reg = c.graph.reg(id);
      std::vector<Patches> terms;
      for (int term = 0; term < c.terms.at(tensor); ++term) {
        std::vector<Patches> of_term;
        for (const RegisterId other : all)
          if (term == reg.term ? other == id : c.graph.reg(other).term == term)
            of_term.push_back(c.content[other.index()][0]);
        terms.push_back(combined(reg.box(0), of_term, tdl::Reducer::kSum, true));
      }
      for (const Patch& p : combined(reg.box(0), terms, tdl::Reducer::kSum))
        if (p.share.known && !p.share.whole())
          fail("register '{}': what a step leaves of {} is a sum that has not each of its terms once", reg.name,
               to_string(p.box));
    }
}

// ---------------------------------------------------------------- units

// A unit is a task, or all participants of a collective.
using Units = std::vector<std::vector<TaskId>>;

Units units_of(const PhysicalGraph& graph) {
  Units units;
  std::map<CollectiveId, std::size_t> unit_of;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const auto* collective = std::get_if<CollectiveWork>(&graph.tasks[t].work);
    if (collective) {
      const auto [known, is_new] = unit_of.try_emplace(collective->collective, units.size());
      if (!is_new) {
        units[known->second].push_back(TaskId(t));
        continue;
      }
    }
    units.push_back({TaskId(t)});
  }
  return units;
}

void run_unit(Contents& c, const std::vector<TaskId>& unit) {
  const Task& first = c.graph.task(unit[0]);
  for (int firing = 0; firing < first.rate; ++firing) {
    if (std::holds_alternative<CollectiveWork>(first.work)) run_collective(c, unit, firing);
    else run_task(c, first, firing);
  }
}

}  // namespace

void check_shares(const PhysicalGraph& graph) {
  Contents c = empty_contents(graph);
  const Units units = units_of(graph);
  std::vector<int> unit_of(graph.tasks.size(), -1);
  for (std::size_t u = 0; u < units.size(); ++u)
    for (TaskId member : units[u]) unit_of[member.index()] = static_cast<int>(u);
  std::vector<std::vector<int>> after(units.size());
  std::vector<int> missing(units.size(), 0);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t)
    for (const Access& read : graph.tasks[t].reads) {
      if (is_there_before(graph, read)) continue;
      for (TaskId w : c.writers[read.reg.index()])
        after[unit_of[w.index()]].push_back(unit_of[t]), ++missing[unit_of[t]];
    }
  std::vector<int> ready;
  for (std::size_t u = units.size(); u-- > 0;)
    if (missing[u] == 0) ready.push_back(static_cast<int>(u));
  while (!ready.empty()) {  // units left over wait for themselves; admission refuses them
    const int u = ready.back();
    ready.pop_back();
    run_unit(c, units[u]);
    for (int next : after[u])
      if (--missing[next] == 0) ready.push_back(next);
  }
  check_terms(c);
}

}  // namespace partita
