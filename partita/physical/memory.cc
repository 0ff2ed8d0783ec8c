// The static memory planner (docs/PHYSICAL.md section 4): whole registers, largest first, first fit, bytes shared between
// uses whose lives in `order` do not meet.
#include <algorithm>
#include <limits>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/threads.h"
#include "partita/physical/in_place.h"
#include "partita/physical/lower.h"

namespace partita {
namespace {

constexpr int kThreads = 2;  // each device is planned by itself
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

int64_t align_up(int64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

// One slot of a placed register. What most of them are passed over by stands here, not behind a pointer.
struct Slot {
  int64_t begin, end;
  Life hull;
  const Block* block;
  std::size_t number;
};

// The registers of one device that are placed, by the first bytes of their slots. Most live shortly: those of each stretch of time have a list
// of their own, for registers that live within it.
class Placed {
 public:
  Placed(const InPlace& in_place, int places) : in_place_(in_place), places_(std::max(1, places)), of_stretch_(kStretches) {}

  // The lowest offset where no slot of `block` meets, in bytes and in time, a slot that is placed.
  int64_t first_fit(const Block& block) const {
    int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t x = 0; x < block.slots.size(); ++x) {
        const int64_t shift = static_cast<int64_t>(x) * block.stride, free = lowest_free(block, x, offset + shift) - shift;
        moved |= free != offset && block.slots.size() > 1;
        offset = free;
      }
    }
    return offset;
  }

  void add(const Block& block) {
    for (std::size_t x = 0; x < block.slots.size(); ++x) {
      const int64_t begin = block.offset + static_cast<int64_t>(x) * block.stride;
      const Slot slot{begin, begin + block.bytes, block.hull, &block, x};
      insert(slot, all_);
      for (std::size_t s = stretch_of(block.hull.first); s <= stretch_of(block.hull.last); ++s) insert(slot, of_stretch_[s]);
    }
  }

 private:
  static constexpr std::size_t kStretches = 64;

  std::size_t stretch_of(int place) const { return static_cast<std::size_t>(std::clamp(place, 0, places_ - 1)) * kStretches / static_cast<std::size_t>(places_); }

  static void insert(const Slot& slot, std::vector<Slot>& slots) {
    slots.insert(std::upper_bound(slots.begin(), slots.end(), slot, [](const Slot& a, const Slot& b) { return a.begin < b.begin; }), slot);
  }

  // The lowest place from `at` on for slot x alone. Slots come by their first byte, so that one pass does: what was passed
  // lies below, except where an operand's place was allowed and then left again.
  int64_t lowest_free(const Block& block, std::size_t x, int64_t at) const {
    std::vector<const Slot*> touched;
    const auto move_to = [&](int64_t to) {
      at = align_up(to);
      for (bool moved = true; moved;) {
        moved = false;
        for (const Slot* slot : touched)
          if (slot->begin < at && at < slot->end) {
            at = align_up(slot->end);
            moved = true;
          }
      }
    };
    const std::size_t first = stretch_of(block.hull.first);
    for (const Slot& slot : first == stretch_of(block.hull.last) ? of_stretch_[first] : all_) {
      if (slot.begin >= at + block.bytes) break;
      if (slot.end <= at || block.hull.first > slot.hull.last || slot.hull.first > block.hull.last) continue;
      const Block& placed = *slot.block;
      const Meet met = meet(block.slots[x], placed.slots[slot.number]);
      if (met == Meet::kNot) continue;
      if (met == Meet::kTouch && at <= slot.begin && (in_place_.allowed(block.id, placed.id) || in_place_.allowed(placed.id, block.id))) {
        touched.push_back(&slot);
        if (at < slot.begin) move_to(slot.begin);
      } else {
        move_to(slot.end);
      }
    }
    return at;
  }

  const InPlace& in_place_;
  const int places_;  // of the order
  std::vector<Slot> all_;
  std::vector<std::vector<Slot>> of_stretch_;
};

}  // namespace

void plan_memory(PhysicalGraph& graph, const LowerOptions& options) {
  const NodeTable table = number_nodes(graph);
  const std::vector<int> place = places(graph, table);
  const auto uses = all_uses(graph);
  const InPlace in_place(graph);

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
  shared_out(kThreads, devices.size(), [&](std::size_t d, int) {
    auto& blocks = devices[d];
    std::stable_sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
      return a.bytes * static_cast<int64_t>(a.slots.size()) > b.bytes * static_cast<int64_t>(b.slots.size());
    });
    Placed placed(in_place, static_cast<int>(graph.order.size()));
    for (Block& block : blocks) {
      if (block.bytes == 0) {
        graph.reg(block.id).offset = 0;
        continue;
      }
      block.offset = placed.first_fit(block);
      placed.add(block);
      graph.reg(block.id).offset = block.offset;
      const int64_t end = block.offset + static_cast<int64_t>(block.slots.size() - 1) * block.stride + block.bytes;
      graph.peak_bytes[d] = std::max(graph.peak_bytes[d], end);
    }
  });
}

}  // namespace partita
