// Plans memory statically (docs/inside/PHYSICAL.md section 4). This is the one place where registers come to share
// bytes. It places whole registers, the largest first, first fit. Uses whose lives in `order` do not meet may share
// bytes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "partita/base/align.h"
#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/base/threads.h"
#include "partita/physical/continued.h"
#include "partita/physical/in_place.h"
#include "partita/physical/kept_gradients.h"
#include "partita/physical/passes.h"

namespace partita {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();
constexpr int64_t kAllBytes = std::numeric_limits<int64_t>::max();

// A life goes from the place of the first write to that of the last use, both included. Only places at which some life
// on the device begins or ends count, and they are numbered.
struct Life {
  int first = 0, last = 0;
  bool operator==(const Life&) const = default;
};

// One register on its device. The lives of its uses are listed by slot, in ascending order within each.
struct Block {
  int64_t bytes = 0, stride = 0;
  std::size_t slots = 0, first_slot = 0;  // among those of the device
  bool operator==(const Block&) const = default;
};

// All that a device's offsets depend on. Devices that do the same work, each on its shard, have equal contents.
struct Contents {
  std::vector<Block> blocks;            // the largest first
  std::vector<std::size_t> first_life;  // by slot, and the end
  std::vector<Life> lives;
  std::vector<std::pair<int, int>> over;  // (result, operand) by block: the result may lie on the operand; ascending
  std::span<const Life> lives_of(const Block& block, std::size_t slot) const {
    const std::size_t s = block.first_slot + slot;
    return {lives.data() + first_life[s], first_life[s + 1] - first_life[s]};
  }
  bool operator==(const Contents&) const = default;
};

// Finds the greatest number of a range, by doubling.
class Greatest {
 public:
  explicit Greatest(std::vector<int64_t> numbers) {
    of_.push_back(std::move(numbers));
    for (std::size_t step = 1; 2 * step <= of_[0].size(); step *= 2) {
      const std::vector<int64_t>& half = of_.back();
      std::vector<int64_t> twice(half.size() - step);
      for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = std::max(half[i], half[i + step]);
      of_.push_back(std::move(twice));
    }
  }
  int64_t of(int first, int last) const {
    const auto length = static_cast<std::size_t>(last - first) + 1;
    const auto row = static_cast<std::size_t>(std::bit_width(length)) - 1;
    const std::vector<int64_t>& known = of_[row];
    return std::max(known[static_cast<std::size_t>(first)],
                    known[static_cast<std::size_t>(last) + 1 - (std::size_t{1} << row)]);
  }

 private:
  std::vector<std::vector<int64_t>> of_;  // by power of two, by the first number
};

enum class Meet { kNot, kTouch, kOverlap };

Meet meet(std::span<const Life> a, std::span<const Life> b) {
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

// Bytes that are taken, as disjoint intervals in ascending order. Each goes from one multiple of kAlignBytes to
// another.
class Taken {
  struct Part {
    int64_t begin, end;
  };

 public:
  void add(int64_t begin, int64_t end) {
    end = align_up(end, kAlignBytes);
    const auto first =
        std::lower_bound(parts_.begin(), parts_.end(), begin, [](const Part& p, int64_t at) { return p.end < at; });
    auto past = first;
    for (; past != parts_.end() && past->begin <= end; ++past) {
      begin = std::min(begin, past->begin);
      end = std::max(end, past->end);
    }
    if (first == past) {
      parts_.insert(first, {begin, end});
      return;
    }
    *first = {begin, end};
    parts_.erase(first + 1, past);
  }

  bool is_empty() const { return parts_.empty(); }

  // Looks for places that are free, each at the one before or above it.
  class Search {
   public:
    explicit Search(const Taken& taken) : next_(taken.parts_.data()), end_(next_ + taken.parts_.size()) {}
    // The lowest place from `at` on for so many bytes.
    int64_t lowest_free(int64_t at, int64_t bytes) {
      if (next_ != end_ && next_->end <= at)
        next_ = std::upper_bound(next_ + 1, end_, at, [](int64_t place, const Part& part) { return place < part.end; });
      for (; next_ != end_ && next_->begin < at + bytes; ++next_) at = next_->end;
      return at;
    }

   private:
    const Part* next_;  // the first that ends above the last place
    const Part* end_;
  };

 private:
  std::vector<Part> parts_;
};

// The slots of one device's registers that are placed. Time is cut into short spans, the leaves of a binary tree. A
// life that lasts through all of a span overlaps every other life in it, so only the taken bytes matter. These are kept
// for whole branches of the tree. In the spans where a life begins or ends, lives are compared.
//
// Example: the spans are 0 to 7. A life from 1 to 6 is compared in 1 and 6, and takes bytes throughout the branches {2,
// 3} and {4, 5}.
class PlacedSlots {
 public:
  PlacedSlots(const Contents& contents, int places)
      : contents_(contents),
        places_(std::max(1, places)),
        leaves_(std::bit_ceil(static_cast<std::size_t>(places_) / kPlaces + 1)),
        throughout_(2 * leaves_),
        within_(2 * leaves_),
        ends_(leaves_),
        seen_(2 * leaves_, 0) {}

  // The lowest offset where no slot of the block meets, in bytes and in time, a slot that is placed.
  int64_t first_fit(int number) {
    const Block& block = contents_.blocks[number];
    int64_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t x = 0; x < block.slots; ++x) {
        const int64_t shift = static_cast<int64_t>(x) * block.stride,
                      free = lowest_free(number, x, offset + shift) - shift;
        moved |= free != offset && block.slots > 1;
        offset = free;
      }
    }
    return offset;
  }

  void add(int number, int64_t offset) {
    const Block& block = contents_.blocks[number];
    for (std::size_t x = 0; x < block.slots; ++x) {
      const int64_t begin = offset + static_cast<int64_t>(x) * block.stride, end = begin + block.bytes;
      for (const Life& life : contents_.lives_of(block, x)) {
        const std::size_t first = leaf_of(life.first), last = leaf_of(life.last);
        for_branches(first + 1, last, [&](std::size_t branch) {
          throughout_[branch].add(begin, end);
          for (; branch > 0; branch /= 2) within_[branch].add(begin, end);
        });
        for (const std::size_t leaf : {first, last}) {
          for (std::size_t branch = leaves_ + leaf; branch > 0; branch /= 2) within_[branch].add(begin, end);
          std::vector<Slot>& slots = ends_[leaf];
          slots.insert(std::upper_bound(slots.begin(), slots.end(), begin,
                                        [](int64_t at, const Slot& s) { return at < s.begin; }),
                       {begin, end, number, x});
          if (first == last) break;
        }
      }
    }
  }

 private:
  static constexpr int kPlaces = 32;  // in a span, about

  struct Slot {
    int64_t begin, end;
    int block;
    std::size_t number;
  };

  std::size_t leaf_of(int place) const {
    return static_cast<std::size_t>(std::clamp(place, 0, places_ - 1)) * leaves_ / static_cast<std::size_t>(places_);
  }

  // The fewest branches that together have the leaves of [first, past).
  template <typename F>
  void for_branches(std::size_t first, std::size_t past, F&& each) const {
    if (first >= past) return;
    for (first += leaves_, past += leaves_; first < past; first /= 2, past /= 2) {
      if (first % 2 == 1) each(first++);
      if (past % 2 == 1) each(--past);
    }
  }

  bool may_lie_over(int a, int b) const {
    const std::vector<std::pair<int, int>>& over = contents_.over;
    return std::binary_search(over.begin(), over.end(), std::pair(a, b)) ||
           std::binary_search(over.begin(), over.end(), std::pair(b, a));
  }

  // The lowest place from `at` on for only slot x. Each move skips places where it cannot lie, so that the order of
  // moves does not matter.
  int64_t lowest_free(int number, std::size_t x, int64_t at) {
    const Block& block = contents_.blocks[number];
    const std::span<const Life> lives = contents_.lives_of(block, x);
    taken_.clear();
    compared_.clear();
    touched_.clear();
    ++search_;
    const auto look_at = [&](const Taken& bytes) {
      if (!bytes.is_empty()) taken_.emplace_back(bytes);
    };
    for (const Life& life : lives) {
      const std::size_t first = leaf_of(life.first), last = leaf_of(life.last);
      for_branches(first + 1, last, [&](std::size_t branch) { look_at(within_[branch]); });
      for (const std::size_t leaf : {first, last}) {
        // So are those above the others.
        for (std::size_t branch = leaves_ + leaf; branch > 0 && seen_[branch] != search_; branch /= 2) {
          seen_[branch] = search_;
          look_at(throughout_[branch]);
        }
        compared_.emplace_back(ends_[leaf]);
        if (first == last) break;
      }
    }
    for (int64_t before = -1; before != at;) {
      before = at;
      for (Taken::Search& bytes : taken_) at = bytes.lowest_free(at, block.bytes);
      for (std::span<const Slot>& slots : compared_)
        for (; !slots.empty() && slots.front().begin < at + block.bytes; slots = slots.subspan(1)) {
          const Slot& slot = slots.front();
          if (slot.end <= at) continue;
          const Meet met = meet(lives, contents_.lives_of(contents_.blocks[slot.block], slot.number));
          if (met == Meet::kNot) continue;
          if (met == Meet::kTouch && at <= slot.begin && may_lie_over(number, slot.block)) {
            touched_.push_back(&slot);
            at = slot.begin;
          } else {
            at = align_up(slot.end, kAlignBytes);
          }
        }
      for (const Slot* slot : touched_)
        if (slot->begin < at && at < slot->end) at = align_up(slot->end, kAlignBytes);
    }
    return at;
  }

  const Contents& contents_;
  const int places_;
  const std::size_t leaves_;             // spans of time
  std::vector<Taken> throughout_;        // by branch: taken by lives that last through it, but not the branch above
  std::vector<Taken> within_;            // by branch: taken by all lives that have some place in it
  std::vector<std::vector<Slot>> ends_;  // by span: slots with a life that begins or ends in it, by their first byte
  // The slot for which a place is searched.
  int search_ = 0;         // a number of its own
  std::vector<int> seen_;  // by branch: the last search that has taken `throughout_`, and so that of those above
  std::vector<Taken::Search> taken_;
  std::vector<std::span<const Slot>> compared_;  // the slots left to compare it with
  std::vector<const Slot*> touched_;             // it may lie just on one of these
};

// The registers of one device, and their offsets.
struct OnDevice {
  std::vector<RegisterId> registers;                    // by block
  std::vector<std::pair<RegisterId, RegisterId>> over;  // (result, operand)
  Contents contents;
  int places = 0;                // numbered
  std::vector<int64_t> offsets;  // by block
  int64_t peak_bytes = 0;
};

// The lowered graph from which all devices are filled.
struct Lowered {
  const PhysicalGraph& graph;
  const NodeTable& table;
  const Uses& uses;
  std::vector<int> place;  // by number of the node
  Held held;
  KeptUntil<int> kept_until;  // places
  bool share;
  std::vector<RegisterId> next;  // by register: the one that continues in its bytes (continued.h), in an order by time
};

// A use that may share its bytes with no other lives for ever.
Life life_of(const Lowered& from, const Register& reg, const Use& use) {
  constexpr Life kAlways{-1, kForever};
  if (reg.carried || reg.constant || !from.share) return kAlways;
  Life life{kForever, from.kept_until.of(use)};
  for (const std::span<const Node> users : {use.writers, use.readers})
    for (const Node& x : users) {
      const int place = from.place[from.table.number(x)];
      const HeldBytes held = held_at(from.held, place, reg.device);
      life.first = std::min(life.first, held.from);
      life.last = std::max(life.last, held.until);
    }
  return life.last < 0 ? kAlways : life;
}

// The life of a register's use with those of the registers that continue in its bytes.
Life whole_life(const Lowered& from, RegisterId r, Life life) {
  while (from.next[r.index()].valid()) {
    r = from.next[r.index()];
    for (const Use& use : from.uses[r.index()])
      life.last = std::max(life.last, life_of(from, from.graph.reg(r), use).last);
  }
  return life;
}

void add_block(const Lowered& from, RegisterId r, Contents& contents) {
  const Register& reg = from.graph.reg(r);
  contents.blocks.push_back(
      {reg.bytes, reg.stride_bytes(), static_cast<std::size_t>(reg.count), contents.first_life.size() - 1});
  std::vector<std::pair<int, Life>> lives;  // slot, life
  for (const Use& use : from.uses[r.index()])
    lives.emplace_back(reg.slot(use.number), whole_life(from, r, life_of(from, reg, use)));
  std::sort(lives.begin(), lives.end(), [](const auto& x, const auto& y) {
    return std::tie(x.first, x.second.first) < std::tie(y.first, y.second.first);
  });
  auto next = lives.begin();
  for (int slot = 0; slot < reg.count; ++slot) {
    for (; next != lives.end() && next->first == slot; ++next) contents.lives.push_back(next->second);
    contents.first_life.push_back(contents.lives.size());
  }
}

// Numbers the places that count, and names lives by them. Returns their count.
int number_places(Contents& contents, std::size_t size) {
  std::vector<int> number(size, 0);  // first whether a place counts
  for (const Life& life : contents.lives)
    if (life.first >= 0) number[life.first] = number[life.last] = 1;
  int places = 0;
  for (int& n : number) n = n ? places++ : -1;
  for (Life& life : contents.lives)
    if (life.first >= 0) life = {number[life.first], number[life.last]};
  return places;
}

void fill(OnDevice& device, const Lowered& from, std::vector<int>& block_of) {
  const auto size = [&](RegisterId r) { return from.graph.reg(r).bytes * from.graph.reg(r).count; };
  std::stable_sort(device.registers.begin(), device.registers.end(),
                   [&](RegisterId a, RegisterId b) { return size(a) > size(b); });
  Contents& contents = device.contents;
  contents.first_life.push_back(0);
  for (std::size_t b = 0; b < device.registers.size(); ++b) {
    block_of[device.registers[b].index()] = static_cast<int>(b);
    add_block(from, device.registers[b], contents);
  }
  device.places = number_places(contents, from.graph.order.size());
  for (const auto& [result, operand] : device.over)
    contents.over.emplace_back(block_of[result.index()], block_of[operand.index()]);
  std::sort(contents.over.begin(), contents.over.end());
}

// Offsets of blocks that are placed in an order, each at the lowest offset at which it meets none.
struct Packed {
  std::vector<int64_t> offsets;  // by block
  int64_t peak_bytes = 0;
};
Packed packed(const OnDevice& device, const std::vector<int>& order, const Watch& watch) {
  Polling polling(watch, "while memory was planned", 64);
  PlacedSlots placed(device.contents, device.places);
  Packed out{std::vector<int64_t>(device.contents.blocks.size(), 0), 0};
  for (int b : order) {
    polling.step();
    const Block& block = device.contents.blocks[static_cast<std::size_t>(b)];
    if (block.bytes == 0) continue;
    int64_t& offset = out.offsets[static_cast<std::size_t>(b)];
    offset = placed.first_fit(b);
    placed.add(b, offset);
    out.peak_bytes =
        std::max(out.peak_bytes, offset + static_cast<int64_t>(block.slots - 1) * block.stride + block.bytes);
  }
  return out;
}

// The measures by which blocks are ordered.
struct Extent {
  double bytes = 0;        // of all slots
  int first = kForever;    // place, at which it lives first; -1: its bytes are its own
  double lives_for = 0;    // places
  int64_t most_bytes = 0;  // that live at once at some place of its lives
};

// By place: how many bytes live there.
std::vector<int64_t> live_bytes(const OnDevice& device) {
  const Contents& contents = device.contents;
  std::vector<int64_t> live(static_cast<std::size_t>(device.places) + 1, 0);
  for (const Block& block : contents.blocks)
    for (std::size_t slot = 0; slot < block.slots; ++slot)
      for (const Life& life : contents.lives_of(block, slot)) {
        if (life.first < 0) continue;
        live[static_cast<std::size_t>(life.first)] += block.bytes;
        live[static_cast<std::size_t>(life.last) + 1] -= block.bytes;
      }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

std::vector<Extent> extents_of(const OnDevice& device) {
  const Contents& contents = device.contents;
  const Greatest live(live_bytes(device));
  std::vector<Extent> extents(contents.blocks.size());
  for (std::size_t b = 0; b < extents.size(); ++b) {
    const Block& block = contents.blocks[b];
    Extent& e = extents[b];
    e.bytes = static_cast<double>(block.bytes) * static_cast<double>(block.slots);
    for (std::size_t slot = 0; slot < block.slots; ++slot)
      for (const Life& life : contents.lives_of(block, slot)) {
        e.first = std::min(e.first, life.first);
        e.lives_for += static_cast<double>(life.last) - life.first;
        e.most_bytes = std::max(e.most_bytes, life.first < 0 ? kAllBytes : live.of(life.first, life.last));
      }
  }
  return extents;
}

// Blocks by two numbers, the least first.
template <typename Numbers>
std::vector<int> ordered(const std::vector<Extent>& extents, const Numbers& numbers) {
  std::vector<std::tuple<double, double, int>> keys;
  for (std::size_t b = 0; b < extents.size(); ++b)
    keys.push_back(std::tuple_cat(numbers(extents[b]), std::tuple(static_cast<int>(b))));
  std::sort(keys.begin(), keys.end());
  std::vector<int> order;
  for (const auto& key : keys) order.push_back(std::get<2>(key));
  return order;
}

// Tries further orders of blocks. Blocks whose bytes are their own come first. The largest follow; sizes that are the
// same power of a base count as equal (1: that are equal), and then the earliest life comes first. Or blocks follow
// that live where most bytes live at once (greedy by breadth: Pisarchyk and Lee 2020); among these the largest, the
// first, or those that are large for long. Or the largest and longest follow, with sizes drawn up to so many times
// larger.
class FurtherOrders {
 public:
  explicit FurtherOrders(const OnDevice& device) : extents_(extents_of(device)) {}
  bool end(bool draws) const { return next_ >= std::size(kBases) + kByBreadth + (draws ? kDrawn : 0); }
  std::vector<int> next() {
    const std::size_t k = next_++;
    if (k < std::size(kBases)) return by_size(kBases[k]);
    return k < std::size(kBases) + kByBreadth ? by_breadth(k - std::size(kBases)) : drawn();
  }

 private:
  static constexpr double kBases[] = {1, 1.2, 1.5, 2, 3, 4, 8};
  static constexpr std::size_t kByBreadth = 3, kDrawn = 40;
  static constexpr double kFirst = -static_cast<double>(kAllBytes);

  std::vector<int> by_size(double base) const {
    return ordered(extents_, [&](const Extent& e) {
      const double size = base > 1 ? std::floor(std::log(std::max(1.0, e.bytes)) / std::log(base)) : e.bytes;
      return std::tuple(e.first < 0 ? kFirst : -size, static_cast<double>(e.first));
    });
  }
  std::vector<int> by_breadth(std::size_t kind) const {
    return ordered(extents_, [&](const Extent& e) {
      const double second[] = {-e.bytes, static_cast<double>(e.first), -e.bytes * e.lives_for};
      return std::tuple(-static_cast<double>(e.most_bytes), second[kind]);
    });
  }
  std::vector<int> drawn() {
    constexpr double kLonger = 0.3, kMostTimes = 3;
    const double times = std::log(kMostTimes) * rng_.uniform();
    return ordered(extents_, [&](const Extent& e) {
      const double size = std::log(std::max(1.0, e.bytes)) + kLonger * std::log(1 + e.lives_for);
      return std::tuple(e.first < 0 ? kFirst : -size - times * rng_.uniform(), static_cast<double>(e.first));
    });
  }

  const std::vector<Extent> extents_;
  Rng rng_{1};
  std::size_t next_ = 0;
};

// Places blocks in their order. If that needs somewhat more than is enough, it takes the best of further orders. It
// draws orders if the memory deficit is small.
void place_blocks(OnDevice& device, int64_t enough_bytes, const Watch& watch) {
  constexpr double kSomewhatMore = 1.25, kLittleMore = 1.06;
  std::vector<int> order(device.contents.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  Packed best = packed(device, order, watch);
  const auto within = [&](double times) {
    return static_cast<double>(best.peak_bytes) < times * static_cast<double>(enough_bytes);
  };
  if (best.peak_bytes > enough_bytes && within(kSomewhatMore))
    for (FurtherOrders orders(device); best.peak_bytes > enough_bytes && !orders.end(within(kLittleMore));) {
      Packed next = packed(device, orders.next(), watch);
      if (next.peak_bytes < best.peak_bytes) best = std::move(next);
    }
  device.offsets = std::move(best.offsets);
  device.peak_bytes = best.peak_bytes;
}

// Returns the register in whose bytes a register continues at last.
RegisterId first_of(const std::vector<RegisterId>& before, RegisterId r) {
  while (before[r.index()].valid()) r = before[r.index()];
  return r;
}

}  // namespace

void plan_memory(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options) {
  std::vector<int> place = places(graph, table);
  Held held = options.held ? options.held(graph, table) : Held();
  KeptUntil<int> kept_until(graph, kept_gradients(graph, table), -1, [&](int node, DeviceId device) {
    return held_at(held, place[static_cast<std::size_t>(node)], device).until;
  });
  Lowered from{graph,
               table,
               uses,
               std::move(place),
               std::move(held),
               std::move(kept_until),
               options.share_bytes,
               std::vector<RegisterId>(graph.registers.size())};
  const InPlace in_place(graph);
  std::vector<RegisterId> before(graph.registers.size());  // in whose bytes it continues
  if (!options.start_places.empty() && options.share_bytes)
    before = continued(graph, table, uses, from.place, from.held, in_place);
  for (std::size_t r = 0; r < before.size(); ++r)
    if (before[r].valid()) from.next[before[r].index()] = RegisterId(r);
  std::vector<OnDevice> devices(graph.device_count);
  for (std::size_t r = 0; r < graph.registers.size(); ++r) {
    if (before[r].valid()) continue;
    const DeviceId device = graph.registers[r].device;
    devices[device.index()].registers.emplace_back(r);
    for (RegisterId operand : in_place.operands_of(RegisterId(r)))
      if (graph.reg(operand).device == device && !from.next[operand.index()].valid())
        devices[device.index()].over.emplace_back(r, first_of(before, operand));
  }
  std::vector<int> block_of(graph.registers.size());
  parallel_for(kFewThreads, devices.size(), [&](std::size_t d, int) { fill(devices[d], from, block_of); });

  // Devices with equal contents are planned once.
  std::vector<std::size_t> like(devices.size()), planned;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto same = std::find_if(planned.begin(), planned.end(),
                                   [&](std::size_t p) { return devices[p].contents == devices[d].contents; });
    like[d] = same == planned.end() ? d : *same;
    if (like[d] == d) planned.push_back(d);
  }
  parallel_for(kFewThreads, planned.size(), [&](std::size_t p, int) {
    const std::size_t d = planned[p];
    const bool limited = d < options.enough_bytes.size();
    place_blocks(devices[d], limited ? options.enough_bytes[d] : INT64_MAX, options.watch);
  });
  graph.peak_bytes.assign(graph.device_count, 0);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const OnDevice& plan = devices[like[d]];
    for (std::size_t b = 0; b < plan.offsets.size(); ++b)
      for (RegisterId r = devices[d].registers[b]; r.valid(); r = from.next[r.index()])
        graph.reg(r).offset = plan.offsets[b];
    graph.peak_bytes[d] = plan.peak_bytes;
  }
}

}  // namespace partita
