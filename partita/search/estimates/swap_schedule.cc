// Runs a step over and over with a memory that is too small, until it swaps alike.
#include "partita/search/estimates/swap_schedule.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "partita/base/error.h"

namespace partita {

namespace {

// The blocks of the coming ops, as many as fit together.
class UpcomingBlocks {
 public:
  UpcomingBlocks(const SwapProgram& program, int64_t capacity_bytes)
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

// Memory that was given up, oldest first: whoever takes it waits for those who had it.
class FreedMemory {
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

// A block at some point of the run.
struct State {
  bool exists = false, resident = false;
  bool clean = false;      // the host has the block's value
  bool on_host = false;    // it takes memory there
  int64_t used = -1;       // by the op of this number since the run began
  int maker = -1;          // the action of this step that put its value into memory
  int copied = -1;         // the action of this step that put its value on the host
  std::vector<int> users;  // the actions of this step since the block took its memory
};

// A device's memory while a step is run over and over.
struct Memory {
  const SwapProgram& program;
  int64_t capacity;
  UpcomingBlocks soon;
  FreedMemory room = {};
  std::vector<State> states;              // by block
  std::vector<std::vector<int>> ends;     // by op: the blocks that are gone after it
  std::set<std::pair<int64_t, int>> lru;  // (used, block) of resident blocks
  int64_t number = 0, host_bytes = 0;     // ops that ran so far
  SwapSchedule out = {};                  // of this step

  int64_t bytes(size_t block) const { return program.blocks[block].bytes; }
};

// The run begins with all kept blocks on the host.
Memory memory_of(const SwapProgram& program, int64_t capacity_bytes) {
  Memory m{.program = program,
           .capacity = capacity_bytes,
           .soon = UpcomingBlocks(program, capacity_bytes),
           .states = std::vector<State>(program.blocks.size()),
           .ends = std::vector<std::vector<int>>(program.ops.size())};
  std::vector<int> last;  // by block
  for (const SwapBlock& block : program.blocks) last.push_back(block.until);
  for (size_t i = 0; i < program.ops.size(); ++i)
    for (const SwapUse& use : program.ops[i]) last[use.block] = std::max(last[use.block], static_cast<int>(i));
  for (size_t b = 0; b < last.size(); ++b)
    if (!program.blocks[b].kept && last[b] >= 0) m.ends[last[b]].push_back(static_cast<int>(b));
  for (size_t b = 0; b < m.states.size(); ++b)
    if (m.program.blocks[b].kept) {
      m.states[b].exists = m.states[b].clean = true;
      m.states[b].resident = m.program.blocks[b].bytes == 0;
      m.host_bytes += m.program.blocks[b].bytes;
      m.states[b].on_host = true;
    }
  return m;
}

// The resident blocks, the least recently used first.
std::vector<int> recency(const Memory& m) {
  std::vector<int> order;
  for (const auto& [used, block] : m.lru) order.push_back(block);
  return order;
}

int add(Memory& m, SwapAction::Kind kind, int subject, std::vector<int> after) {
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  if (!after.empty() && after.front() < 0) after.erase(after.begin());
  m.out.actions.push_back({kind, subject, std::move(after)});
  return static_cast<int>(m.out.actions.size()) - 1;
}

void leave(Memory& m, int block, std::vector<int> after) {
  State& s = m.states[block];
  m.room.give(m.bytes(block), std::move(after));
  m.lru.erase({s.used, block});
  s.resident = false;
  s.users.clear();
}

void evict_one(Memory& m) {
  const auto victim =
      std::find_if(m.lru.begin(), m.lru.end(), [&](const auto& entry) { return !m.soon.has(entry.second); });
  ensure(victim != m.lru.end(), "swap: nothing can leave, and there is no room");
  const int block = victim->second;
  State& s = m.states[block];
  if (s.clean) {
    add(m, SwapAction::Kind::kDrop, block, s.users);
    leave(m, block, s.users);
    return;
  }
  s.copied = add(m, SwapAction::Kind::kOut, block, s.users);
  m.out.out_bytes += m.bytes(block);
  s.clean = true;
  if (!s.on_host) m.host_bytes += m.bytes(block);
  s.on_host = true;
  m.out.host_peak_bytes = std::max(m.out.host_peak_bytes, m.host_bytes);
  leave(m, block, {s.copied});
}

void die(Memory& m, int block) {
  State& s = m.states[block];
  if (s.on_host) m.host_bytes -= m.bytes(block);
  if (s.resident) leave(m, block, s.users);
  s = {};
}

void run(Memory& m, int op) {
  m.soon.move_to(m.number);
  int64_t missing = 0;
  for (const SwapUse& use : m.program.ops[op])
    if (!m.states[use.block].resident) missing += m.bytes(use.block);
  while (m.room.bytes() < missing) evict_one(m);
  std::vector<int> after;
  for (const SwapUse& use : m.program.ops[op]) {
    State& s = m.states[use.block];
    if (!s.resident && s.exists) {
      std::vector<int> copy_after{s.copied};
      m.room.take(m.bytes(use.block), copy_after);
      s.maker = add(m, SwapAction::Kind::kIn, use.block, std::move(copy_after));
      s.users = {s.maker};
      m.out.in_bytes += m.bytes(use.block);
    } else if (!s.resident) {
      m.room.take(m.bytes(use.block), after);
    }
    s.resident = true;
    after.push_back(s.maker);
    if (use.writes) after.insert(after.end(), s.users.begin(), s.users.end());
  }
  m.out.peak_bytes = std::max(m.out.peak_bytes, m.capacity - m.room.bytes());
  const int action = add(m, SwapAction::Kind::kOp, op, std::move(after));
  for (const SwapUse& use : m.program.ops[op]) {
    State& s = m.states[use.block];
    s.users.push_back(action);
    if (use.writes || !s.exists) {
      s.maker = action;
      s.clean = false;
    }
    s.exists = true;
    const bool counts = m.bytes(use.block) > 0;
    if (counts) m.lru.erase({s.used, use.block});
    s.used = m.number;
    if (counts) m.lru.insert({s.used, use.block});
  }
  for (const int block : m.ends[op]) die(m, block);
  ++m.number;
}

SwapSchedule step(Memory& m) {
  m.out = {};
  int64_t held = 0;
  for (size_t b = 0; b < m.states.size(); ++b) {
    State& s = m.states[b];
    s.maker = s.copied = -1;
    s.users.clear();
    m.out.resident.push_back(s.resident);
    m.out.clean.push_back(s.clean);
    if (s.resident) held += m.bytes(b);
  }
  m.out.host_peak_bytes = m.host_bytes;
  m.room.clear(m.capacity - held);
  const auto before = recency(m);
  for (size_t i = 0; i < m.program.ops.size(); ++i) run(m, static_cast<int>(i));
  m.out.steady = before == recency(m);
  for (size_t b = 0; b < m.states.size(); ++b)
    m.out.steady &= m.states[b].resident == m.out.resident[b] && m.states[b].clean == m.out.clean[b];
  return std::move(m.out);
}

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
  Memory memory = memory_of(program, capacity_bytes);
  SwapSchedule schedule = step(memory);
  for (int steps = 1; steps < kSwapSteps && !schedule.steady; ++steps) schedule = step(memory);
  return schedule;
}

}  // namespace partita
