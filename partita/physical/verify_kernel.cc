// Verifies that a kernel reads and writes its formula's regions (TDL.md rules 5 to 9).
#include <algorithm>
#include <map>

#include "partita/physical/verify_parts.h"
#include "partita/tdl/analysis.h"

namespace partita::verifying {
namespace {

using Analyses = std::map<const tdl::Bound*, tdl::Analysis>;  // many kernels share a formula

const tdl::Analysis& analysis_of(Analyses& analyses, const tdl::Bound& bound) {
  auto [known, is_new] = analyses.try_emplace(&bound);
  if (is_new) known->second = tdl::analyze(bound);
  return known->second;
}

// The same elements, over the same axes or over two factorings of them.
bool same_part(const Box& a, const Shape& a_axes, const Box& b, const Shape& b_axes) {
  if (is_empty(a) || is_empty(b)) return is_empty(a) && is_empty(b);
  return a_axes == b_axes ? a == b : volume(a) == volume(b);
}

// By tensor of the formula. The region of an operand is the hull over the whole formula. The region of a stage is the
// one that the kernel's stages read.
struct Regions {
  std::vector<Box> operands, inner;
};
Regions regions_of(const KernelWork& work, const tdl::Analysis& analysis, const std::vector<Interval>& ranges) {
  const std::size_t tensors = work.bound->tensors.size();
  Regions regions{std::vector<Box>(tensors), std::vector<Box>(tensors)};
  for (int s = 0; s < static_cast<int>(work.bound->stages.size()); ++s)
    for (std::size_t t = 0; t < tensors; ++t) {
      const Box read = tdl::stage_reads(analysis, s, static_cast<int>(t), ranges);
      if (is_empty(read)) continue;
      Box& operand = regions.operands[t];
      operand = operand.empty() ? read : hull(operand, read);
      if (s < work.first_stage || s >= work.last_stage) continue;
      Box& inner = regions.inner[t];
      inner = inner.empty() ? read : hull(inner, read);
    }
  return regions;
}

void check_ranges(const Task& task, const KernelWork& work) {
  const tdl::Bound& bound = *work.bound;
  const auto full = tdl::full_ranges(bound);
  for (const auto& ranges : work.ranges) {
    expect(task, ranges.size() == bound.indices.size(), "{} ranges for {} indices", ranges.size(),
           bound.indices.size());
    for (std::size_t i = 0; i < ranges.size(); ++i)
      expect(task, full[i].contains(ranges[i]), "range {} of index '{}' with extent {}", to_string(Box{ranges[i]}),
             bound.indices[i].name, bound.indices[i].extent);
  }
}

void check_read(const PhysicalGraph& graph, const Task& task, const KernelWork& work, const Access& read, int firing,
                const Regions& regions) {
  const tdl::Bound& bound = *work.bound;
  expect(task, read.tensor >= 0 && read.tensor < static_cast<int>(bound.tensors.size()), "reads tensor {} of {}",
         read.tensor, bound.tensors.size());
  const tdl::BoundTensor& tensor = bound.tensors[read.tensor];
  const Register& reg = graph.reg(read.reg);
  expect(task, volume(reg.axes) == volume(tensor.factored), "'{}' is not of the shape of operand '{}'", reg.name,
         tensor.name);
  const UseRange uses = uses_of(reg, task.rate, firing, read.fresh);
  if (uses.last - uses.first > 1) return;  // the boxes of all firings at once: check_written() verifies that they cover
  const Box& held = part(graph, read, task.rate, firing);
  if (tensor.is_operand) {
    const Box& region = regions.operands[read.tensor];
    const Box wanted =
        region.empty() && !tensor.factored.empty() ? Box(tensor.factored.size(), Interval{0, 0}) : region;
    expect(task, same_part(held, reg.axes, wanted, tensor.factored), "reads {} of operand '{}', its formula {}",
           to_string(held), tensor.name, to_string(wanted));
  } else {
    const Box& region = regions.inner[read.tensor];
    if (region.empty() || reg.axes != tensor.factored) return;
    expect(task, contains(held, region), "has {} of stage '{}', its formula reads {}", to_string(held), tensor.name,
           to_string(region));
  }
}

void check_write(const PhysicalGraph& graph, const Task& task, const KernelWork& work, const tdl::Analysis& analysis,
                 const Access& write, int firing, const std::vector<Interval>& ranges) {
  const tdl::Bound& bound = *work.bound;
  const int stage = write.tensor < 0 ? -1 : bound.stage_of(write.tensor);
  expect(task, stage >= work.first_stage && stage < work.last_stage, "writes tensor {}, which none of its stages makes",
         write.tensor);
  const tdl::BoundTensor& tensor = bound.tensors[write.tensor];
  Box owned;
  expect(task, tdl::owned_box(analysis, stage, ranges, owned), "what it makes of '{}' is not one box", tensor.name);
  const Box& made = part(graph, write, task.rate, firing);
  expect(task, same_part(made, graph.reg(write.reg).axes, owned, tensor.factored),
         "writes {} of '{}', its formula makes {}", to_string(made), tensor.name, to_string(owned));
}

// Checks that all that a stage's body reads is made by earlier stages of the task, or read.
void check_all_read(const Task& task, const KernelWork& work, const tdl::Analysis& analysis, int stage) {
  const tdl::Bound& bound = *work.bound;
  for (const tdl::Read& read : analysis.stages[stage].reads) {
    const int tensor = read.access->tensor;
    const int made = bound.stage_of(tensor);
    if (made >= work.first_stage && made < stage) continue;
    expect(task, std::any_of(task.reads.begin(), task.reads.end(), [&](const Access& a) { return a.tensor == tensor; }),
           "does not read '{}', its stage {} does", bound.tensors[tensor].name, stage);
  }
}

void check_kernel(const PhysicalGraph& graph, const Task& task, const KernelWork& work, Analyses& analyses) {
  const tdl::Bound& bound = *work.bound;
  const int stages = static_cast<int>(bound.stages.size());
  expect(task, work.first_stage >= 0 && work.first_stage < work.last_stage && work.last_stage <= stages,
         "stages {} to {} of {}", work.first_stage, work.last_stage, stages);
  expect(task, work.ranges.size() == 1 || static_cast<int>(work.ranges.size()) == task.rate,
         "{} sets of ranges for {} acts", work.ranges.size(), task.rate);
  check_ranges(task, work);
  const tdl::Analysis& analysis = analysis_of(analyses, bound);
  for (std::size_t set = 0; set < work.ranges.size(); ++set) {
    const Regions regions = regions_of(work, analysis, work.ranges[set]);
    for (int firing = 0; firing < task.rate; ++firing) {
      if (work.ranges.size() > 1 && firing != static_cast<int>(set)) continue;
      for (const Access& read : task.reads) check_read(graph, task, work, read, firing, regions);
      for (const Access& write : task.writes) check_write(graph, task, work, analysis, write, firing, work.ranges[set]);
    }
  }
  for (int s = work.first_stage; s < work.last_stage; ++s) check_all_read(task, work, analysis, s);
}

}  // namespace

void check_kernels(const PhysicalGraph& graph) {
  Analyses analyses;
  for (const Task& task : graph.tasks)
    if (const auto* work = std::get_if<KernelWork>(&task.work); work && work->bound)
      check_kernel(graph, task, *work, analyses);
}

}  // namespace partita::verifying
