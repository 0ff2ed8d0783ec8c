// Whether a PhysicalGraph means something: every field in range, and every element that is read was written by the task
// that should have. What is whole and what partial is asked in shares.cc; order and edges are admission's.
#include <algorithm>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/lower.h"
#include "partita/physical/shares.h"
#include "partita/physical/text.h"
#include "partita/tdl/analysis.h"

namespace partita {
namespace {

// What is left of `box` without the parts.
std::vector<Box> without(const Box& box, const std::vector<Box>& parts) {
  std::vector<Box> left;
  if (!is_empty(box)) left.push_back(box);
  for (const Box& part : parts) {
    if (left.empty()) break;
    std::vector<Box> next;
    for (const Box& piece : left)
      for (Box& rest : subtract(piece, part)) next.push_back(std::move(rest));
    left = std::move(next);
  }
  return left;
}

// The same elements, over the same axes or over two factorings of them.
bool same_part(const Box& a, const Shape& a_axes, const Box& b, const Shape& b_axes) {
  if (is_empty(a) || is_empty(b)) return is_empty(a) && is_empty(b);
  return a_axes == b_axes ? a == b : volume(a) == volume(b);
}

class Verifier {
 public:
  explicit Verifier(const PhysicalGraph& graph) : graph_(graph) {}

  void run() {
    queues();
    registers();
    names();
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      fields(graph_.tasks[t]);
      if (const auto* part = std::get_if<CollectiveWork>(&graph_.tasks[t].work))
        groups_[part->collective].push_back(TaskId(t));
    }
    writers_.resize(graph_.registers.size());
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t)
      for (const Access& write : graph_.tasks[t].writes) writers_[write.reg.index()].push_back({TaskId(t), &write});
    for (const Task& task : graph_.tasks)
      if (const auto* work = std::get_if<KernelWork>(&task.work); work && work->bound) kernel(task, *work);
    for (const Task& task : graph_.tasks) {
      if (std::holds_alternative<CopyWork>(task.work)) copy(task);
      if (std::holds_alternative<CombineWork>(task.work)) combine(task);
      if (std::holds_alternative<LoadWork>(task.work))
        expect(task, task.reads.empty() && task.writes.size() == 1, "a load has no read and one write");
      if (std::holds_alternative<OutputWork>(task.work))
        expect(task, task.reads.size() == 1 && task.writes.empty(), "an output has one read and no write");
    }
    outputs();
    for (const auto& [id, group] : groups_) collective(group);
    for (std::size_t r = 0; r < graph_.registers.size(); ++r) written(RegisterId(r));
    for (const Task& task : graph_.tasks)
      for (const Access& read : task.reads) covered(task, read);
    check_shares(graph_);
    if (!graph_.order.empty()) order_and_edges();
  }

 private:
  template <typename... Args>
  void expect(const Task& task, bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) fail("task '{}': {}", task.name, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void expect(const Register& reg, bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) fail("register '{}': {}", reg.name, fmt::format(format, std::forward<Args>(args)...));
  }
  bool has_device(DeviceId id) const { return id.valid() && id.value < graph_.device_count; }

  // ---------------------------------------------------------------- fields

  void queues() const {
    if (graph_.device_count < 1 || graph_.compute_count < 0 || graph_.compute_count > graph_.device_count ||
        graph_.micro_batches < 1)
      fail("physical graph '{}': {} devices, {} of them for compute, {} micro-batches", graph_.name,
           graph_.device_count, graph_.compute_count, graph_.micro_batches);
    for (const Queue& queue : graph_.queues)
      if (queue.kind == QueueKind::kLink ? !queue.link.valid() : !has_device(queue.device))
        fail("queue '{}': its {} does not exist", queue.name, queue.kind == QueueKind::kLink ? "link" : "device");
  }

  void registers() const {
    std::vector<int64_t> end(graph_.device_count, 0);
    bool placed = false;
    for (const Register& reg : graph_.registers) {
      expect(reg, has_device(reg.device), "device {} does not exist", reg.device.value);
      expect(reg, reg.uses == 1 || reg.uses == graph_.micro_batches,
             "{} uses a step, neither 1 nor the {} micro-batches", reg.uses, graph_.micro_batches);
      expect(reg,
             !(reg.carried && reg.constant) && !(reg.carried && reg.accumulated) &&
                 (reg.uses == 1 || (!reg.carried && !reg.constant && !reg.accumulated)),
             "carried, constant and accumulated exclude each other and have one use a step");
      expect(reg, reg.count >= 1 && reg.count <= reg.uses, "{} slots for {} uses", reg.count, reg.uses);
      expect(reg, reg.bytes >= 0, "{} bytes", reg.bytes);
      if (!reg.boxes.empty() || !reg.axes.empty()) {
        expect(reg, reg.boxes.size() == 1 || static_cast<int>(reg.boxes.size()) == reg.uses, "{} boxes for {} uses",
               reg.boxes.size(), reg.uses);
        int64_t largest = 0;
        for (const Box& box : reg.boxes) {
          expect(reg, box.size() == reg.axes.size(), "box {} has {} axes, the tensor {}", to_string(box), box.size(),
                 reg.axes.size());
          expect(reg, is_empty(box) || contains(full_box(reg.axes), box), "box {} is not inside the tensor of [{}]",
                 to_string(box), fmt::join(reg.axes, ","));
          largest = std::max(largest, volume(box));
        }
        expect(reg, reg.bytes == largest * bytes_of(reg.dtype), "{} bytes for {} elements of {}", reg.bytes, largest,
               name_of(reg.dtype));
      }
      if (reg.offset == -1) continue;
      placed = true;
      expect(reg, reg.offset >= 0 && reg.offset % kAlignBytes == 0, "offset {} is not a multiple of {}", reg.offset,
             kAlignBytes);
      if (reg.bytes > 0)
        end[reg.device.index()] = std::max(end[reg.device.index()], reg.slot_offset(reg.count - 1) + reg.bytes);
    }
    if (!placed) return;
    for (const Register& reg : graph_.registers) expect(reg, reg.offset >= 0, "is not placed, others are");
    if (graph_.peak_bytes != end)
      fail("physical graph '{}': peak_bytes [{}] are not the registers' ends [{}]", graph_.name,
           fmt::join(graph_.peak_bytes, ", "), fmt::join(end, ", "));
  }

  void names() const {
    std::set<std::string_view> seen;
    for (const Register& reg : graph_.registers) expect(reg, seen.insert(reg.name).second, "another has the same name");
    seen.clear();
    for (const Task& task : graph_.tasks) expect(task, seen.insert(task.name).second, "another has the same name");
  }

  void fields(const Task& task) const {
    expect(task, has_device(task.device), "device {} does not exist", task.device.value);
    expect(task, task.queue.valid() && task.queue.index() < graph_.queues.size(), "queue {} does not exist",
           task.queue.value);
    expect(task, task.rate == 1 || task.rate == graph_.micro_batches,
           "acts {} times a step, neither 1 nor the {} micro-batches", task.rate, graph_.micro_batches);
    expect(task, task.flops >= 0 && task.bytes >= 0 && task.stage >= 0, "negative flops, bytes or stage");
    const Queue& queue = graph_.queues[task.queue.index()];
    const bool is_collective = std::holds_alternative<CollectiveWork>(task.work);
    expect(task, is_collective == (queue.kind == QueueKind::kCollective), "queue '{}' is of the wrong kind",
           queue.name);
    if (queue.kind == QueueKind::kLink) {
      expect(task, std::holds_alternative<CopyWork>(task.work), "only transfers stand on a link's queue");
      expect(task, std::find(task.route.begin(), task.route.end(), queue.link) != task.route.end(),
             "its route does not pass the link of queue '{}'", queue.name);
    } else {
      expect(task, queue.device == task.device, "queue '{}' is another device's", queue.name);
    }
    for (const auto* accesses : {&task.reads, &task.writes})
      for (const Access& access : *accesses) fields(task, access, accesses == &task.writes);
    for (RegisterId id : task.scratch) {
      expect(task, id.valid() && id.index() < graph_.registers.size(), "scratch register {} does not exist", id.value);
      const Register& reg = graph_.reg(id);
      expect(task,
             reg.device == task.device && !reg.carried && !reg.constant && (reg.uses == 1 || reg.uses == task.rate),
             "'{}' cannot be its scratch", reg.name);
    }
  }

  void fields(const Task& task, const Access& access, bool is_write) const {
    expect(task, access.reg.valid() && access.reg.index() < graph_.registers.size(), "register {} does not exist",
           access.reg.value);
    const Register& reg = graph_.reg(access.reg);
    expect(task, !reg.boxes.empty(), "'{}' is scratch, and not to be read or written", reg.name);
    expect(task, access.boxes.size() <= 1 || static_cast<int>(access.boxes.size()) == task.rate,
           "{} boxes of '{}' for {} acts", access.boxes.size(), reg.name, task.rate);
    expect(task, !access.fresh || (reg.carried && !is_write), "'{}' has no new value to read", reg.name);
    expect(task, !is_write || !reg.constant, "writes '{}', which is constant", reg.name);
    if (reg.uses > 1)
      expect(task, task.rate == reg.uses || (!is_write && access.boxes.empty()),
             "acts {} times a step and '{}' has {} uses", task.rate, reg.name, reg.uses);
    if (is_write)
      expect(task, !reg.carried || task.rate == 1, "writes the carried '{}' {} times a step", reg.name, task.rate);
    if (is_write && task.rate > 1 && reg.uses == 1)
      expect(task, reg.accumulated, "writes '{}' {} times a step, which is not accumulated", reg.name, task.rate);
    const bool transfer = std::holds_alternative<CopyWork>(task.work);
    if (reg.device != task.device)
      expect(task, transfer && !is_write && !task.route.empty(),
             "uses '{}' on another device; only a transfer with a route reads there", reg.name);
    for (int act = 0; act < task.rate; ++act) {
      const Box& box = part(access, task.rate, act);
      expect(task, box.size() == reg.axes.size(), "box {} of '{}' has {} axes, not {}", to_string(box), reg.name,
             box.size(), reg.axes.size());
      expect(task, is_empty(box) || contains(whole(access, task.rate, act), box),
             "box {} is not inside '{}', which holds {}", to_string(box), reg.name,
             to_string(whole(access, task.rate, act)));
    }
  }

  // The box of the register that an act touches (of several uses: the first's), and the part of it.
  const Box& whole(const Access& access, int rate, int act) const {
    const Register& reg = graph_.reg(access.reg);
    return reg.box(reg.carried ? 0 : uses_of(reg, rate, act, true).first);
  }
  const Box& part(const Access& access, int rate, int act) const {
    if (!access.boxes.empty()) return access.boxes[access.boxes.size() == 1 ? 0 : static_cast<std::size_t>(act)];
    return whole(access, rate, act);
  }

  // ---------------------------------------------------------------- work

  void copy(const Task& task) const {
    expect(task, task.reads.size() == 1 && task.writes.size() == 1, "a copy has one read and one write");
    const Register &from = graph_.reg(task.reads[0].reg), &to = graph_.reg(task.writes[0].reg);
    expect(task, from.dtype == to.dtype && volume(from.axes) == volume(to.axes),
           "copies '{}' to '{}', of another dtype or size", from.name, to.name);
    expect(task, (from.device == to.device) == task.route.empty(),
           "a copy has a route exactly if it goes to another device");
    for (int act = 0; act < task.rate; ++act) {
      const Box &read = part(task.reads[0], task.rate, act), &write = part(task.writes[0], task.rate, act);
      expect(task,
             (from.axes == to.axes ? read == write : regrouped(read, from.axes, to.axes) == write) ||
                 (is_empty(read) && is_empty(write)),
             "reads {} of '{}' and writes {} of '{}'", to_string(read), from.name, to_string(write), to.name);
    }
  }

  // Every element is made of as many terms as every other (partial values of so many members), or of at most one (the
  // identity elsewhere); and of each member once.
  void combine(const Task& task) const {
    expect(task, task.writes.size() == 1, "a combine has one write");
    const Register& to = graph_.reg(task.writes[0].reg);
    for (const Access& read : task.reads) {
      const Register& from = graph_.reg(read.reg);
      expect(task, from.dtype == to.dtype && from.axes == to.axes,
             "combines '{}' into '{}', of another dtype or other axes", from.name, to.name);
    }
    for (int act = 0; act < task.rate; ++act) {
      const Box& target = part(task.writes[0], task.rate, act);
      std::vector<Box> terms;
      bool alike = true;
      for (const Access& read : task.reads) {
        terms.push_back(part(read, task.rate, act));
        alike &= terms.back() == target;
        expect(task, task.rate > 1 || is_empty(target) || !is_empty(terms.back()), "reads nothing of '{}'",
               graph_.reg(read.reg).name);
        expect(task, is_empty(terms.back()) || contains(target, terms.back()),
               "reads {} of '{}', more than the {} that it writes", to_string(terms.back()), graph_.reg(read.reg).name,
               to_string(target));
      }
      if (!alike) even(task, target, terms);
      for (std::size_t i = 0; i < terms.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
          if (is_empty(intersect(terms[i], terms[j]))) continue;
          for (RegisterId a : origins(task.reads[i].reg))
            for (RegisterId b : origins(task.reads[j].reg))
              expect(task, a != b, "counts '{}' twice", graph_.reg(a).name);
        }
    }
  }

  void even(const Task& task, const Box& target, const std::vector<Box>& terms) const {
    // Cells between the cuts that the terms make on each axis.
    std::vector<std::vector<int64_t>> cuts(target.size());
    for (std::size_t a = 0; a < target.size(); ++a) {
      std::set<int64_t> at{target[a].lo, target[a].hi};
      for (const Box& term : terms)
        if (!is_empty(term)) at.insert({term[a].lo, term[a].hi});
      cuts[a].assign(at.begin(), at.end());
    }
    if (is_empty(target)) return;
    int least = -1, most = 0;
    std::vector<std::size_t> cell(target.size(), 0);
    while (true) {
      int covered = 0;
      for (const Box& term : terms) {
        bool inside = !is_empty(term);
        for (std::size_t a = 0; a < cell.size() && inside; ++a)
          inside = term[a].lo <= cuts[a][cell[a]] && cuts[a][cell[a]] < term[a].hi;
        covered += inside;
      }
      least = least < 0 ? covered : std::min(least, covered);
      most = std::max(most, covered);
      std::size_t a = cell.size();
      while (a > 0 && ++cell[a - 1] + 1 == cuts[a - 1].size()) cell[--a] = 0;
      if (a == 0) break;
    }
    expect(task, least == most || most <= 1, "makes some elements of {} terms and others of {}", least, most);
  }

  // The caller gets every element of an output, from one task or from several, in one act or in several.
  void outputs() const {
    std::map<TensorId, std::vector<Box>> given;
    std::map<TensorId, const Task*> giver;
    for (const Task& task : graph_.tasks) {
      const auto* work = std::get_if<OutputWork>(&task.work);
      if (!work) continue;
      const Access& read = task.reads[0];
      std::vector<Box>& parts = given[work->output];
      giver[work->output] = &task;
      const std::vector<Box>& boxes = read.boxes.empty() ? graph_.reg(read.reg).boxes : read.boxes;
      parts.insert(parts.end(), boxes.begin(), boxes.end());
    }
    for (const auto& [output, parts] : given) {
      const Task& task = *giver.at(output);
      const Register& reg = graph_.reg(task.reads[0].reg);
      const auto left = without(full_box(reg.axes), parts);
      expect(task, left.empty(), "gives only a part of its output: {} of '{}' is left out",
             left.empty() ? "" : to_string(left[0]), reg.name);
    }
  }

  void collective(const std::vector<TaskId>& group) const {
    const Task& first = graph_.task(group[0]);
    const auto& work = std::get<CollectiveWork>(first.work);
    const bool reduces = work.kind == StepKind::kAllReduce || work.kind == StepKind::kReduceScatter;
    expect(first, reduces || work.kind == StepKind::kAllGather || work.kind == StepKind::kAllToAll,
           "{} is not a collective", text::word(text::kSteps, work.kind));
    expect(first, work.partial == reduces, "{} of {} values", text::word(text::kSteps, work.kind),
           work.partial ? "partial" : "whole");
    expect(first, static_cast<int>(group.size()) == work.size, "{} participants of {}", group.size(), work.size);
    std::vector<bool> ranks(group.size(), false);
    std::set<DeviceId> devices;
    for (TaskId id : group) {
      const Task& task = graph_.task(id);
      const auto& mine = std::get<CollectiveWork>(task.work);
      expect(task, task.reads.size() == 1 && task.writes.size() == 1, "a participant has one read and one write");
      expect(
          task,
          mine.kind == work.kind && mine.size == work.size && mine.partial == work.partial && task.rate == first.rate,
          "kind, size or rate are not those of '{}' in the same collective", first.name);
      expect(task, !mine.partial || mine.reducer == work.reducer, "reduces by {}, '{}' in the same collective by {}",
             tdl::name_of(mine.reducer), first.name, tdl::name_of(work.reducer));
      expect(task, mine.rank >= 0 && mine.rank < work.size && !ranks[mine.rank],
             "rank {} of {} is taken or does not exist", mine.rank, work.size);
      expect(task, devices.insert(task.device).second, "another participant is on its device");
      ranks[mine.rank] = true;
      const Register &from = graph_.reg(task.reads[0].reg), &to = graph_.reg(task.writes[0].reg),
                     &other = graph_.reg(first.reads[0].reg);
      expect(task,
             from.dtype == to.dtype && from.axes == to.axes && from.dtype == other.dtype && from.axes == other.axes,
             "'{}' and '{}' differ in dtype or axes, among themselves or from the other participants'", from.name,
             to.name);
    }
    for (int act = 0; act < first.rate; ++act) {
      std::vector<Box> held;
      for (TaskId id : group) held.push_back(part(graph_.task(id).reads[0], first.rate, act));
      for (TaskId id : group) {
        const Task& task = graph_.task(id);
        const Box& target = part(task.writes[0], first.rate, act);
        if (is_empty(target)) continue;
        if (work.partial) {
          for (std::size_t i = 0; i < held.size(); ++i)
            expect(task, contains(held[i], target), "gets {}, of which '{}' holds only {}", to_string(target),
                   graph_.task(group[i]).name, to_string(held[i]));
        } else if (const auto left = without(target, held); !left.empty()) {
          expect(task, false, "gets {}, of which no participant holds {}", to_string(target), to_string(left[0]));
        }
      }
    }
  }

  // Reads and writes are what the formula's regions say (TDL.md rules 5 to 9).
  void kernel(const Task& task, const KernelWork& work) {
    const tdl::Bound& bound = *work.bound;
    const int stages = static_cast<int>(bound.stages.size());
    expect(task, work.first_stage >= 0 && work.first_stage < work.last_stage && work.last_stage <= stages,
           "stages {} to {} of {}", work.first_stage, work.last_stage, stages);
    expect(task, work.ranges.size() == 1 || static_cast<int>(work.ranges.size()) == task.rate,
           "{} sets of ranges for {} acts", work.ranges.size(), task.rate);
    const auto full = tdl::full_ranges(bound);
    for (const auto& ranges : work.ranges) {
      expect(task, ranges.size() == bound.indices.size(), "{} ranges for {} indices", ranges.size(),
             bound.indices.size());
      for (std::size_t i = 0; i < ranges.size(); ++i)
        expect(task, full[i].contains(ranges[i]), "range {} of index '{}' with extent {}", to_string(Box{ranges[i]}),
               bound.indices[i].name, bound.indices[i].extent);
    }
    const tdl::Analysis& analysis = analysis_of(work.bound);
    for (std::size_t set = 0; set < work.ranges.size(); ++set) {
      // The region of an operand is the hull over the whole formula, of a stage what these stages read of it.
      std::vector<Box> operands(bound.tensors.size()), inner(bound.tensors.size());
      for (int s = 0; s < stages; ++s) {
        for (std::size_t t = 0; t < bound.tensors.size(); ++t) {
          const Box read = tdl::stage_reads(analysis, s, static_cast<int>(t), work.ranges[set]);
          if (is_empty(read)) continue;
          operands[t] = operands[t].empty() ? read : hull(operands[t], read);
          if (s >= work.first_stage && s < work.last_stage) inner[t] = inner[t].empty() ? read : hull(inner[t], read);
        }
      }
      for (int act = 0; act < task.rate; ++act) {
        if (work.ranges.size() > 1 && act != static_cast<int>(set)) continue;
        for (const Access& read : task.reads) kernel_read(task, work, read, act, operands, inner);
        for (const Access& write : task.writes) kernel_write(task, work, analysis, write, act, work.ranges[set]);
      }
    }
    for (int s = work.first_stage; s < work.last_stage; ++s) missing_access(task, work, analysis, s);
  }

  void kernel_read(const Task& task, const KernelWork& work, const Access& read, int act,
                   const std::vector<Box>& operands, const std::vector<Box>& inner) const {
    const tdl::Bound& bound = *work.bound;
    expect(task, read.tensor >= 0 && read.tensor < static_cast<int>(bound.tensors.size()), "reads tensor {} of {}",
           read.tensor, bound.tensors.size());
    const tdl::BoundTensor& tensor = bound.tensors[read.tensor];
    const Register& reg = graph_.reg(read.reg);
    expect(task, volume(reg.axes) == volume(tensor.factored), "'{}' is not of the shape of operand '{}'", reg.name,
           tensor.name);
    const UseRange uses = uses_of(reg, task.rate, act, read.fresh);
    if (uses.last - uses.first > 1)
      return;  // all acts' parts at once: whether they cover is asked where they are written
    const Box& held = part(read, task.rate, act);
    if (tensor.is_operand) {
      const Box& region = operands[read.tensor];
      const Box wanted =
          region.empty() && !tensor.factored.empty() ? Box(tensor.factored.size(), Interval{0, 0}) : region;
      expect(task, same_part(held, reg.axes, wanted, tensor.factored), "reads {} of operand '{}', its formula {}",
             to_string(held), tensor.name, to_string(wanted));
    } else {
      const Box& region = inner[read.tensor];
      if (region.empty() || reg.axes != tensor.factored) return;
      expect(task, contains(held, region), "has {} of stage '{}', its formula reads {}", to_string(held), tensor.name,
             to_string(region));
    }
  }

  void kernel_write(const Task& task, const KernelWork& work, const tdl::Analysis& analysis, const Access& write,
                    int act, const std::vector<Interval>& ranges) const {
    const tdl::Bound& bound = *work.bound;
    const int stage = write.tensor < 0 ? -1 : bound.stage_of(write.tensor);
    expect(task, stage >= work.first_stage && stage < work.last_stage,
           "writes tensor {}, which none of its stages makes", write.tensor);
    const tdl::BoundTensor& tensor = bound.tensors[write.tensor];
    Box owned;
    expect(task, tdl::owned_box(analysis, stage, ranges, owned), "what it makes of '{}' is not one box", tensor.name);
    const Box& made = part(write, task.rate, act);
    expect(task, same_part(made, graph_.reg(write.reg).axes, owned, tensor.factored),
           "writes {} of '{}', its formula makes {}", to_string(made), tensor.name, to_string(owned));
  }

  // A stage needs what its body reads: made by the stages before it in the task, or read.
  void missing_access(const Task& task, const KernelWork& work, const tdl::Analysis& analysis, int stage) const {
    const tdl::Bound& bound = *work.bound;
    for (const tdl::Read& read : analysis.stages[stage].reads) {
      const int tensor = read.access->tensor;
      const int made = bound.stage_of(tensor);
      if (made >= work.first_stage && made < stage) continue;
      expect(task,
             std::any_of(task.reads.begin(), task.reads.end(), [&](const Access& a) { return a.tensor == tensor; }),
             "does not read '{}', its stage {} does", bound.tensors[tensor].name, stage);
    }
  }

  // Where a register's elements were made: itself, or what was copied into it.
  std::vector<RegisterId> origins(RegisterId id, int depth = 0) const {
    const auto& writers = writers_[id.index()];
    const bool copied =
        !writers.empty() && depth < 16 && std::all_of(writers.begin(), writers.end(), [&](const Writer& w) {
          return std::holds_alternative<CopyWork>(graph_.task(w.task).work);
        });
    if (!copied || graph_.reg(id).carried) return {id};
    std::vector<RegisterId> result;
    for (const Writer& w : writers)
      for (RegisterId origin : origins(graph_.task(w.task).reads[0].reg, depth + 1)) result.push_back(origin);
    return result;
  }

  const tdl::Analysis& analysis_of(const std::shared_ptr<const tdl::Bound>& bound) {
    auto [known, is_new] = analyses_.try_emplace(bound.get());
    if (is_new) known->second = tdl::analyze(*bound);
    return known->second;
  }

  // ---------------------------------------------------------------- every element that is read was written

  struct Writer {
    TaskId task;
    const Access* access;
  };

  // The parts that are written in a use.
  std::vector<Box> parts_written(RegisterId id, int use) const {
    const Register& reg = graph_.reg(id);
    std::vector<Box> parts;
    for (const Writer& w : writers_[id.index()]) {
      const Task& task = graph_.task(w.task);
      if (reg.uses > 1) parts.push_back(part(*w.access, task.rate, use));
      else parts.push_back(part(*w.access, task.rate, 0));
    }
    return parts;
  }

  void written(RegisterId id) const {
    const Register& reg = graph_.reg(id);
    const auto& writers = writers_[id.index()];
    for (int use = 0; use < reg.uses; ++use) {
      const std::vector<Box> parts = parts_written(id, use);
      for (std::size_t i = 0; i < parts.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
          expect(reg, is_empty(intersect(parts[i], parts[j])), "'{}' and '{}' both write {}",
                 graph_.task(writers[j].task).name, graph_.task(writers[i].task).name,
                 to_string(intersect(parts[i], parts[j])));
      if (!reg.carried) continue;
      const auto left = without(reg.box(0), parts);
      expect(reg, left.empty(), "is carried into the next step, and nothing writes {}",
             left.empty() ? "" : to_string(left[0]));
    }
  }

  void covered(const Task& task, const Access& read) const {
    const Register& reg = graph_.reg(read.reg);
    if (reg.constant || (reg.carried && !read.fresh)) return;
    for (int act = 0; act < task.rate; ++act) {
      const UseRange uses = uses_of(reg, task.rate, act, read.fresh);
      for (int use = uses.first; use < uses.last; ++use) {
        const Box& wanted = uses.last - uses.first > 1 ? reg.box(use) : part(read, task.rate, act);
        const auto left = without(wanted, parts_written(read.reg, reg.carried ? 0 : use));
        expect(task, left.empty(), "reads {} of '{}', of which nothing writes {}", to_string(wanted), reg.name,
               left.empty() ? "" : to_string(left[0]));
      }
    }
  }

  void order_and_edges() const {
    const NodeTable table = number_nodes(graph_);
    places(graph_, table);
    for (const Edge& edge : graph_.edges)
      for (const Node& node : {edge.from, edge.to})
        if (!node.task.valid() || node.task.index() >= graph_.tasks.size() || node.act < 0 ||
            node.act >= graph_.task(node.task).rate || table.nodes[table.number(node)] != node)
          fail("physical graph '{}': an edge names task {} act {}, which is not a node", graph_.name, node.task.value,
               node.act);
  }

  const PhysicalGraph& graph_;
  std::map<CollectiveId, std::vector<TaskId>> groups_;
  std::vector<std::vector<Writer>> writers_;  // by register
  std::map<const tdl::Bound*, tdl::Analysis> analyses_;
};

}  // namespace

void verify(const PhysicalGraph& graph) { Verifier(graph).run(); }

}  // namespace partita
