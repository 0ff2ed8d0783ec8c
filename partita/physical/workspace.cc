// Plans the kernels of a graph's tasks to count the scratch that they declare. The plans themselves are not kept. A
// graph that is searched or simulated never runs. Its calls differ in their ranges on every device and in every firing,
// so plans would be much larger than the graph. A run makes the plans of its own calls (runtime/firings.h).
#include "partita/physical/workspace.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "partita/kernel_plan/kernel_plan.h"

namespace partita {

KernelRequest request_of(const KernelWork& work, const std::vector<Interval>& ranges,
                         const std::vector<PlacedShard>& reads, const std::vector<PlacedShard>& writes) {
  return {work.definition,
          work.attributes,
          *work.bound,
          work.first_stage,
          work.last_stage,
          ranges,
          kernel_shards(*work.bound, reads, writes)};
}

std::pair<const Box&, const Box&> boxes_of(const Access& access, const Register& reg, int firing) {
  const Box& whole = reg.box(reg.boxes.size() == 1 ? 0 : firing);
  return {whole, access.boxes.empty() ? whole : access.boxes[access.boxes.size() == 1 ? 0 : firing]};
}

namespace {

// Writes a call as text: calls with equal texts need equal scratch.
class Call {
 public:
  explicit Call(std::string& text) : text_(text) { text_.clear(); }
  template <typename Number>
  void add(Number x) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number> || std::is_pointer_v<Number>);
    text_.append(reinterpret_cast<const char*>(&x), sizeof x);  // NOLINT(bugprone-sizeof-expression): pointers too
  }
  void add(const std::string& word) {
    add(word.size());
    text_ += word;
  }
  void add(const std::vector<Interval>& box) {
    add(box.size());
    for (const Interval& i : box) add(i.lo), add(i.hi);
  }
  void add(const Shape& shape) {
    add(shape.size());
    for (int64_t x : shape) add(x);
  }

 private:
  std::string& text_;
};

std::vector<PlacedShard> placed_shards(const std::vector<Access>& accesses, const PhysicalGraph& graph, int firing) {
  std::vector<PlacedShard> shards;
  for (const Access& access : accesses) {
    const Register& reg = graph.reg(access.reg);
    const auto [whole, box] = boxes_of(access, reg, firing);
    shards.push_back({access.tensor, {reg.dtype, box, dense_strides(extents(whole))}, reg.axes});
  }
  return shards;
}

}  // namespace

int64_t Workspaces::bytes_of(const Task& task, const PhysicalGraph& graph) {
  const KernelWork* work = std::get_if<KernelWork>(&task.work);
  if (!work) return 0;
  int64_t bytes = 0;
  for (int firing = 0; firing < task.rate; ++firing) {
    const std::vector<Interval>& ranges = work->ranges[work->ranges.size() == 1 ? 0 : firing];
    Call call(call_);
    call.add(work->bound.get()), call.add(work->first_stage), call.add(work->last_stage), call.add(work->definition);
    for (const auto& [name, value] : work->attributes) call.add(name), call.add(value);
    call.add(ranges);
    for (const auto* accesses : {&task.reads, &task.writes}) {
      call.add(accesses->size());
      for (const Access& access : *accesses) {
        const Register& reg = graph.reg(access.reg);
        const auto [whole, box] = boxes_of(access, reg, firing);
        call.add(access.tensor), call.add(reg.dtype), call.add(reg.axes), call.add(whole), call.add(box);
      }
    }
    const auto [known, fresh] = known_.try_emplace(call_, 0);
    if (fresh)
      known->second = plan_kernel(request_of(*work, ranges, placed_shards(task.reads, graph, firing),
                                             placed_shards(task.writes, graph, firing)))
                          .workspace_bytes();
    bytes = std::max(bytes, known->second);
    if (work->ranges.size() == 1) break;
  }
  return bytes;
}

}  // namespace partita
