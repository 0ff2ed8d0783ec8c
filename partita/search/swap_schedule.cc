// Runs a step over and over with a memory that is too small, until it swaps alike.
#include "partita/search/swap_schedule.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "partita/base/error.h"

namespace partita {

namespace {

// The blocks of the coming ops, as many as fit together.
class Soon {
 public:
  Soon(const SwapProgram& program, int64_t capacity_bytes)
      : program_(program), capacity_(capacity_bytes), uses_(program.blocks.size(), 0) {}

  // Ops before `op` are over; they only count on.
  void move_to(int64_t op) {
    for (; begin_ < op; ++begin_)
      for (const SwapUse& use : ops(begin_))
        if (--uses_[use.block] == 0) bytes_ -= program_.blocks[use.block].bytes;
    for (; end_ < begin_ + static_cast<int64_t>(program_.ops.size()); ++end_) {
      int64_t more = 0;
      for (const SwapUse& use : ops(end_))
        if (uses_[use.block] == 0) more += program_.blocks[use.block].bytes;
      if (bytes_ + more > capacity_) break;
      bytes_ += more;
      for (const SwapUse& use : ops(end_)) ++uses_[use.block];
    }
  }
  bool has(int block) const { return uses_[block] > 0; }

 private:
  const std::vector<SwapUse>& ops(int64_t i) const {
    return program_.ops[static_cast<size_t>(i) % program_.ops.size()];
  }

  const SwapProgram& program_;
  int64_t capacity_, bytes_ = 0, begin_ = 0, end_ = 0;
  std::vector<int> uses_;  // by block, of the ops [begin_, end_)
};

// Room that was given up, oldest first: whoever takes it waits for those who had it.
class Room {
 public:
  void clear(int64_t free_bytes) {
    pieces_.assign(1, {free_bytes, {}});
    bytes_ = free_bytes;
  }
  void give(int64_t bytes, std::vector<int> after) {
    if (bytes == 0) return;
    pieces_.push_back({bytes, std::move(after)});
    bytes_ += bytes;
  }
  void take(int64_t bytes, std::vector<int>& after) {
    bytes_ -= bytes;
    while (bytes > 0) {
      auto& [left, had] = pieces_.front();
      after.insert(after.end(), had.begin(), had.end());
      const int64_t part = std::min(left, bytes);
      left -= part;
      bytes -= part;
      if (left == 0) pieces_.pop_front();
    }
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::deque<std::pair<int64_t, std::vector<int>>> pieces_;
  int64_t bytes_ = 0;
};

class Swapper {
 public:
  Swapper(const SwapProgram& program, int64_t capacity_bytes)
      : program_(program),
        capacity_(capacity_bytes),
        soon_(program, capacity_bytes),
        states_(program.blocks.size()),
        last_op_(program.blocks.size(), -1) {
    for (size_t i = 0; i < program.ops.size(); ++i)
      for (const SwapUse& use : program.ops[i]) last_op_[use.block] = static_cast<int>(i);
    for (size_t b = 0; b < states_.size(); ++b)
      if (program.blocks[b].kept) {
        states_[b].exists = states_[b].clean = true;
        states_[b].resident = program.blocks[b].bytes == 0;
        host_bytes_ += program.blocks[b].bytes;
        states_[b].on_host = true;
      }
  }

  SwapSchedule step() {
    out_ = {};
    int64_t held = 0;
    for (size_t b = 0; b < states_.size(); ++b) {
      State& s = states_[b];
      s.maker = s.copied = -1;
      s.users.clear();
      out_.resident.push_back(s.resident);
      out_.clean.push_back(s.clean);
      if (s.resident) held += bytes(b);
    }
    out_.host_peak_bytes = host_bytes_;
    room_.clear(capacity_ - held);
    const auto before = recency();
    for (size_t i = 0; i < program_.ops.size(); ++i) run(static_cast<int>(i));
    out_.steady = before == recency();
    for (size_t b = 0; b < states_.size(); ++b)
      out_.steady &= states_[b].resident == out_.resident[b] && states_[b].clean == out_.clean[b];
    return std::move(out_);
  }

 private:
  struct State {
    bool exists = false, resident = false;
    bool clean = false;      // the host has what the block holds
    bool on_host = false;    // it takes room there
    int64_t used = -1;       // by the op of this number since the run began
    int maker = -1;          // the action of this step that put into memory what is there
    int copied = -1;         // the action of this step that put on the host what is there
    std::vector<int> users;  // the actions of this step since the block took its room
  };

  int64_t bytes(size_t block) const { return program_.blocks[block].bytes; }

  // What is resident, the least recently used first.
  std::vector<int> recency() const {
    std::vector<int> order;
    for (const auto& [used, block] : lru_) order.push_back(block);
    return order;
  }

  int add(SwapAction::Kind kind, int subject, std::vector<int> after) {
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (!after.empty() && after.front() < 0) after.erase(after.begin());
    out_.actions.push_back({kind, subject, std::move(after)});
    return static_cast<int>(out_.actions.size()) - 1;
  }

  void leave(int block, std::vector<int> after) {
    State& s = states_[block];
    room_.give(bytes(block), std::move(after));
    lru_.erase({s.used, block});
    s.resident = false;
    s.users.clear();
  }

  void evict_one() {
    const auto victim =
        std::find_if(lru_.begin(), lru_.end(), [&](const auto& entry) { return !soon_.has(entry.second); });
    ensure(victim != lru_.end(), "swap: nothing can leave, and there is no room");
    const int block = victim->second;
    State& s = states_[block];
    if (s.clean) {
      add(SwapAction::Kind::kDrop, block, s.users);
      leave(block, s.users);
      return;
    }
    s.copied = add(SwapAction::Kind::kOut, block, s.users);
    out_.out_bytes += bytes(block);
    s.clean = true;
    if (!s.on_host) host_bytes_ += bytes(block);
    s.on_host = true;
    out_.host_peak_bytes = std::max(out_.host_peak_bytes, host_bytes_);
    leave(block, {s.copied});
  }

  void run(int op) {
    soon_.move_to(number_);
    int64_t missing = 0;
    for (const SwapUse& use : program_.ops[op])
      if (!states_[use.block].resident) missing += bytes(use.block);
    while (room_.bytes() < missing) evict_one();
    std::vector<int> after;
    for (const SwapUse& use : program_.ops[op]) {
      State& s = states_[use.block];
      if (!s.resident && s.exists) {
        std::vector<int> copy_after{s.copied};
        room_.take(bytes(use.block), copy_after);
        s.maker = add(SwapAction::Kind::kIn, use.block, std::move(copy_after));
        s.users = {s.maker};
        out_.in_bytes += bytes(use.block);
      } else if (!s.resident) {
        room_.take(bytes(use.block), after);
      }
      s.resident = true;
      after.push_back(s.maker);
      if (use.writes) after.insert(after.end(), s.users.begin(), s.users.end());
    }
    out_.peak_bytes = std::max(out_.peak_bytes, capacity_ - room_.bytes());
    const int action = add(SwapAction::Kind::kOp, op, std::move(after));
    for (const SwapUse& use : program_.ops[op]) {
      State& s = states_[use.block];
      s.users.push_back(action);
      if (use.writes || !s.exists) {
        s.maker = action;
        s.clean = false;
      }
      s.exists = true;
      const bool counts = bytes(use.block) > 0;
      if (counts) lru_.erase({s.used, use.block});
      s.used = number_;
      if (counts) lru_.insert({s.used, use.block});
      if (last_op_[use.block] == op && !program_.blocks[use.block].kept) die(use.block);
    }
    ++number_;
  }

  void die(int block) {
    State& s = states_[block];
    if (s.on_host) host_bytes_ -= bytes(block);
    leave(block, s.users);
    s = {};
  }

  const SwapProgram& program_;
  int64_t capacity_;
  Soon soon_;
  Room room_;
  std::vector<State> states_;
  std::vector<int> last_op_;               // by block
  std::set<std::pair<int64_t, int>> lru_;  // (used, block) of what is resident
  int64_t number_ = 0, host_bytes_ = 0;
  SwapSchedule out_;
};

}  // namespace

WorkingSet largest_working_set(const SwapProgram& program) {
  WorkingSet largest;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    int64_t bytes = 0;
    for (const SwapUse& use : program.ops[i]) bytes += program.blocks[use.block].bytes;
    if (largest.op < 0 || bytes > largest.bytes) largest = {static_cast<int>(i), bytes};
  }
  return largest;
}

SwapSchedule swap_schedule(const SwapProgram& program, int64_t capacity_bytes) {
  ensure(largest_working_set(program).bytes <= capacity_bytes, "swap: one op needs more than there is");
  Swapper swapper(program, capacity_bytes);
  SwapSchedule schedule = swapper.step();
  for (int step = 1; step < kSwapSteps && !schedule.steady; ++step) schedule = swapper.step();
  return schedule;
}

}  // namespace partita
