// Assembles one target register: transfers, staging registers, and the combination of terms.
#include "partita/physical/assemble.h"

#include <algorithm>

#include "partita/base/align.h"
#include "partita/base/error.h"
#include "partita/physical/background_load.h"

namespace partita {

namespace {

// The bytes that come from devices that are not lowered, and the position of the device with the slowest route.
struct Arrival {
  int64_t bytes = 0;
  int slowest = -1;
};
struct Between {
  const Placed& from;
  const Mesh& sources;
  const Assembly& assembly;
};

void add_transfer(Draft& draft, const std::string& name, const Context& at, const Between& between, const Term& term,
                  Access read, Access write, int64_t bytes) {
  const Assembly& a = between.assembly;
  const int position = term.source;
  const DeviceId source = between.sources.devices[position], target = draft.graph.reg(a.target).device;
  Task task = new_task(draft, name, at, target, CopyWork{});
  task.key.position = a.position;
  task.key.source = position;
  task.key.part = std::max(0, term.number);
  if (draft.complete) task.route = draft.cluster.route(source, target);
  if (source != target) {
    task.queue = draft.link_queues[draft.cluster.narrowest(source, target).index()];
    task.background = transfer_elsewhere(draft, between.sources, *a.mesh, position, a.position);
  }
  task.reads.push_back(std::move(read));
  task.writes.push_back(std::move(write));
  task.bytes = source == target ? 2 * bytes : bytes;
  add_task(draft, std::move(task), source == target ? DeviceId() : source);
}

// Adds the task of an arrival. It goes into its place, or into a staging register if it is combined then (`gather`). It
// comes when a lowered device has made its own shard.
void add_arrival(Draft& draft, const Context& at, const Between& between, const Arrival& arrival, Task* gather) {
  const Assembly& a = between.assembly;
  const DeviceId target = draft.graph.reg(a.target).device, slowest = between.sources.devices[arrival.slowest];
  const std::string name = fmt::format("{}@{}<elsewhere", at.name, device_name(draft, target));
  Access write = access(draft, a.target, a.box);
  Task task = new_task(draft, name, at, target, CopyWork{});
  if (slowest != target) {
    task.route = draft.cluster.route(slowest, target);
    task.queue = draft.link_queues[draft.cluster.narrowest(slowest, target).index()];
    task.background = transfer_elsewhere(draft, between.sources, *a.mesh, arrival.slowest, a.position);
  }
  if (const auto& here = between.from.regs; !here.empty())
    task.reads = {access(draft, between.from, here.begin()->first)};
  if (gather) {
    write.reg = add_register(draft, name, at, target, {}, {});
    write.boxes.clear();
    draft.graph.reg(write.reg).bytes = arrival.bytes;
    gather->reads.push_back(write);
  }
  task.writes = {std::move(write)};
  task.bytes = arrival.bytes;
  add_task(draft, std::move(task));
}

std::vector<Box> without(const std::vector<Box>& boxes, const Box& gone) {
  std::vector<Box> rest;
  for (const Box& box : boxes)
    for (Box& part : subtract(box, gone)) rest.push_back(std::move(part));
  return rest;
}

// Disjoint boxes that together are what the reads cover, and those that they leave of `box`.
struct Coverage {
  std::vector<Box> covered, rest;
};
Coverage coverage_of(const Draft& draft, const Box& box, const std::vector<Access>& reads) {
  Coverage c{{}, {box}};
  for (const Access& read : reads) {
    std::vector<Box> fresh{box_of(draft, read)};
    for (const Box& known : c.covered) fresh = without(fresh, known);
    for (const Box& part : fresh) c.rest = without(c.rest, part);
    c.covered.insert(c.covered.end(), fresh.begin(), fresh.end());
  }
  return c;
}

// Adds `gather` as the combination of `reads` into a box of the target.
void add_combination(Draft& draft, const Task& gather, const Context& at, RegisterId target, const Box& part,
                     std::string name, tdl::Reducer reducer, std::vector<Access> reads) {
  Task task = gather;
  task.name = std::move(name);
  task.work = CombineWork{reducer};
  task.reads = std::move(reads);
  task.writes = {access(draft, target, part)};
  task.bytes = volume(part) * bytes_of(at.dtype) * static_cast<int64_t>(1 + task.reads.size());
  task.flops = static_cast<double>(volume(part)) * static_cast<double>(task.reads.size());
  add_task(draft, std::move(task));
}

// The reads of `gather` are the terms of the assembly's box. Elements without a term get the identity of the reducer.
// With `absent` they get the identity of that reducer, by tasks of their own.
void add_combinations(Draft& draft, Task gather, const Context& at, const Assembly& a) {
  if (!a.absent) return add_combination(draft, gather, at, a.target, a.box, gather.name, a.reducer, gather.reads);
  const Coverage c = coverage_of(draft, a.box, gather.reads);
  if (c.rest.empty()) return add_combination(draft, gather, at, a.target, a.box, gather.name, a.reducer, gather.reads);
  if (c.covered.empty()) return add_combination(draft, gather, at, a.target, a.box, gather.name, *a.absent, {});
  const auto next_name = [&] {
    return named(draft, "{}.combine.{}@{}", at.name, gather.key.part, device_name(draft, gather.device));
  };
  for (const Box& part : c.covered) {
    std::vector<Access> reads;
    for (const Access& read : gather.reads)
      if (const Box meet = intersect(part, box_of(draft, read)); !is_empty(meet))
        reads.push_back(access(draft, read.reg, meet, read.fresh));
    add_combination(draft, gather, at, a.target, part, next_name(), a.reducer, std::move(reads));
    ++gather.key.part;
  }
  for (const Box& part : c.rest) {
    add_combination(draft, gather, at, a.target, part, next_name(), *a.absent, {});
    ++gather.key.part;
  }
}

}  // namespace

void assemble(Draft& draft, const Placed& from, const Mesh& sources, Assembly a, const Context& at) {
  const DeviceId device = draft.graph.reg(a.target).device;
  const std::string& own_name = device_name(draft, device);
  Task gather;
  if (a.combine)
    gather = new_task(draft, named(draft, "{}.combine@{}", at.name, own_name), at, device, CombineWork{a.reducer});
  gather.key.position = a.position;
  // If elements may be absent, reads are cut to the box that is combined.
  const auto part = [&](RegisterId reg, const Box& box, bool fresh) {
    Access read = access(draft, reg, box, fresh);
    if (!draft.complete && a.absent) read.boxes = {box};
    return read;
  };
  const Between between{from, sources, a};
  Arrival arrival;
  for (const Term& term : a.terms) {
    const DeviceId source = sources.devices[term.source];
    const int64_t bytes = volume(*term.write) * bytes_of(at.dtype);
    const auto here = from.regs.find(term.source);
    if (here == from.regs.end()) {
      arrival.bytes += a.combine ? align_up(bytes, kAlignBytes) : bytes;
      if (arrival.slowest < 0 ||
          draft.cluster.bandwidth(source, device) < draft.cluster.bandwidth(sources.devices[arrival.slowest], device))
        arrival.slowest = term.source;
      continue;
    }
    Access read = part(here->second, *term.read, from.fresh);
    std::string name = named(draft, "{}@{}<{}", at.name, own_name, device_name(draft, source));
    if (term.number >= 0) name += named(draft, ".{}", term.number);
    if (!a.combine) {
      add_transfer(draft, name, at, between, term, std::move(read), access(draft, a.target, *term.write), bytes);
    } else if (a.reads_own && source == device) {
      gather.reads.push_back(std::move(read));
    } else {
      const RegisterId staged = add_register(draft, name, at, device, a.radices, *term.write);
      add_transfer(draft, name, at, between, term, std::move(read), access(draft, staged, *term.write), bytes);
      gather.reads.push_back(part(staged, *term.write, false));
    }
  }
  if (arrival.bytes > 0) {
    add_arrival(draft, at, between, arrival, a.combine ? &gather : nullptr);
    a.absent.reset();  // which elements arrive is not known
  }
  if (a.combine) add_combinations(draft, std::move(gather), at, a);
}

void read_elsewhere(Draft& draft, const Placed& from, const Context& at) {
  if (!draft.device_mask) return;
  for (const auto& [p, reg] : from.regs) {
    const DeviceId device = from.layout.mesh.devices[p];
    Task task = new_task(draft, fmt::format("~{}.elsewhere@{}", at.name, device_name(draft, device)), at, device,
                         CopyWork{});  // '~': its name comes after most others
    if (task.turn == Task::Turn::kLazy) task.turn = Task::Turn::kInPlace;
    task.reads = {access(draft, from, p)};
    add_task(draft, std::move(task));
  }
}

}  // namespace partita
