// The static memory planner (docs/PHYSICAL.md section 4): whole registers, largest first, first fit, bytes shared between
// uses whose lives in `order` do not meet.
#include <algorithm>
#include <limits>
#include <numeric>

#include "partita/base/error.h"
#include "partita/physical/lower.h"

namespace partita {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();

// From the place of the first write to that of the last use, both included.
struct Life {
  int first = 0, last = 0;
};

// One register on its device: the lives of its uses, by slot, each in ascending order.
struct Block {
  RegisterId id;
  int64_t bytes = 0, stride = 0, offset = 0;
  std::vector<std::vector<Life>> slots;
  Life hull{kForever, -1};
};

// An operand that an element-wise task reads last and a result that it writes first may be the same bytes.
class Touching {
 public:
  explicit Touching(const PhysicalGraph& graph) : graph_(graph), writer_(graph.registers.size(), -1) {
    for (std::size_t t = 0; t < graph.tasks.size(); ++t)
      for (const Access& write : graph.tasks[t].writes) {
        int& writer = writer_[write.reg.index()];
        writer = writer == -1 ? static_cast<int>(t) : kSeveral;
      }
  }

  // `result` over `operand`, in every use.
  bool allowed(RegisterId operand, RegisterId result) const {
    const Register &a = graph_.reg(operand), &b = graph_.reg(result);
    const int writer = writer_[result.index()];
    if (writer < 0 || a.carried || b.carried || a.constant || b.constant || a.accumulated || b.accumulated) return false;
    const Task& task = graph_.tasks[writer];
    if (!task.elementwise || task.writes.size() != 1 || !task.writes[0].boxes.empty()) return false;
    if (a.uses != b.uses || task.rate != a.uses || a.bytes != b.bytes || a.dtype != b.dtype || a.axes != b.axes || a.boxes != b.boxes) return false;
    bool reads = false;
    for (const Access& read : task.reads)
      if (read.reg == operand) {
        if (!read.boxes.empty()) return false;
        reads = true;
      }
    return reads;
  }

 private:
  static constexpr int kSeveral = -2;
  const PhysicalGraph& graph_;
  std::vector<int> writer_;  // the one task that writes a register, or kSeveral
};

enum class Meet { kNot, kTouch, kOverlap };

Meet meet(const std::vector<Life>& a, const std::vector<Life>& b) {
  Meet result = Meet::kNot;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].first <= b[j].last && b[j].first <= a[i].last) {
      if (a[i].last != b[j].first && b[j].last != a[i].first) return Meet::kOverlap;
      result = Meet::kTouch;
    }
    a[i].last < b[j].last ? ++i : ++j;
  }
  return result;
}

// Offsets o with lo < o < hi are taken.
struct Taken {
  int64_t lo, hi;
};

int64_t align_up(int64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

int64_t first_fit(std::vector<Taken>& taken) {
  std::sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) { return a.lo < b.lo; });
  int64_t offset = 0;
  for (const Taken& t : taken) {
    if (t.lo >= offset) break;
    if (offset < t.hi) offset = align_up(t.hi);
  }
  return offset;
}

}  // namespace

void plan_memory(PhysicalGraph& graph, const LowerOptions& options) {
  const NodeTable table = number_nodes(graph);
  const std::vector<int> place = places(graph, table);
  const auto uses = all_uses(graph);
  const Touching touching(graph);

  std::vector<std::vector<Block>> devices(graph.device_count);
  for (std::size_t r = 0; r < graph.registers.size(); ++r) {
    const Register& reg = graph.registers[r];
    Block block{RegisterId(r), reg.bytes, reg.stride_bytes(), 0, std::vector<std::vector<Life>>(reg.count), {kForever, -1}};
    const bool always = reg.carried || reg.constant || !options.share_bytes;
    for (const Use& use : uses[r]) {
      Life life{kForever, -1};
      for (const auto* users : {&use.writers, &use.readers})
        for (const Node& x : *users) {
          life.first = std::min(life.first, place[table.number(x)]);
          life.last = std::max(life.last, place[table.number(x)]);
        }
      if (always || life.last < 0) life = {-1, kForever};
      block.hull.first = std::min(block.hull.first, life.first);
      block.hull.last = std::max(block.hull.last, life.last);
      block.slots[reg.slot(use.number)].push_back(life);
    }
    for (auto& lives : block.slots)
      std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.first < b.first; });
    devices[reg.device.index()].push_back(std::move(block));
  }

  graph.peak_bytes.assign(graph.device_count, 0);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    auto& blocks = devices[d];
    std::stable_sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
      return a.bytes * static_cast<int64_t>(a.slots.size()) > b.bytes * static_cast<int64_t>(b.slots.size());
    });
    std::vector<Taken> taken;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Block& block = blocks[i];
      if (block.bytes == 0) {
        graph.reg(block.id).offset = 0;
        continue;
      }
      taken.clear();
      for (std::size_t j = 0; j < i; ++j) {
        const Block& placed = blocks[j];
        if (placed.bytes == 0 || block.hull.first > placed.hull.last || placed.hull.first > block.hull.last) continue;
        int touch = -1;  // whether these two may touch: not asked yet
        for (std::size_t x = 0; x < block.slots.size(); ++x)
          for (std::size_t y = 0; y < placed.slots.size(); ++y) {
            const Meet met = meet(block.slots[x], placed.slots[y]);
            if (met == Meet::kNot) continue;
            const int64_t there = placed.offset + static_cast<int64_t>(y) * placed.stride, shift = static_cast<int64_t>(x) * block.stride;
            const Taken both{there - block.bytes - shift, there + placed.bytes - shift};
            if (met == Meet::kTouch && touch < 0) touch = touching.allowed(block.id, placed.id) || touching.allowed(placed.id, block.id);
            if (met == Meet::kTouch && touch > 0) {
              taken.push_back({both.lo, there - shift});
              taken.push_back({there - shift, both.hi});
            } else {
              taken.push_back(both);
            }
          }
      }
      block.offset = first_fit(taken);
      graph.reg(block.id).offset = block.offset;
      const int64_t end = block.offset + static_cast<int64_t>(block.slots.size() - 1) * block.stride + block.bytes;
      graph.peak_bytes[d] = std::max(graph.peak_bytes[d], end);
    }
  }
}

}  // namespace partita
