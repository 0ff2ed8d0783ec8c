// Schedules the blocks that move between a device's memory and the host when a step does not fit. This is Tofu's
// swapping baseline (section 7.1, after vDNN and TFLMS). The least recently used block goes first, a needed block comes
// before its reader, a block of the near future stays.
//
// Worked example: kept blocks a and b of 4 bytes each, ops that read {a}, {b}, capacity 4. A step in the steady run is
// kDrop b, kIn a, op 0, kDrop a, kIn b, op 1. It has in_bytes 8, and out_bytes 0, since nothing is written.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace partita {

struct SwapBlock {
  std::string name;
  int64_t bytes = 0;  // 0: on another device; it takes no memory, and is never moved
  bool kept = false;  // lives from step to step (weights, states); others are made in a step, and gone after their last
                      // use in it, or after op `until` if that is later
  int until = -1;
};
struct SwapUse {
  int block = 0;
  bool writes = false;
};
// The blocks that each op of a step touches, in the order of the step; each block once an op. The first use in a step
// of a block that is not kept makes it.
struct SwapProgram {
  std::vector<SwapBlock> blocks;
  std::vector<std::vector<SwapUse>> ops;
};

struct SwapAction {
  enum class Kind {
    kOp,    // runs
    kIn,    // copies a block from the host
    kOut,   // copies a block to the host, and frees its memory
    kDrop,  // frees the memory of a block that the host has; takes no time, and nothing is after it
  } kind = Kind::kOp;
  int subject = 0;         // for kOp the op, for the others the block
  std::vector<int> after;  // actions that must have ended before this one begins, ascending
};

// One step out of a run of equal ones. The actions may run at the same time as far as `after` lets them. At any speeds,
// no more than the capacity is ever held, and an op's blocks are there.
struct SwapSchedule {
  std::vector<bool> resident;  // by block: in memory when the step begins
  std::vector<bool> clean;     // by block: the host has its value when the step begins
  std::vector<SwapAction> actions;
  bool steady = false;  // the step ends as it begins; else it is the last of kSwapSteps
  int64_t in_bytes = 0, out_bytes = 0;
  int64_t peak_bytes = 0, host_peak_bytes = 0;
};
constexpr int kSwapSteps = 32;

// The op that touches most bytes: the least `capacity_bytes`.
struct WorkingSet {
  int op = -1;
  int64_t bytes = 0;
};
WorkingSet largest_working_set(const SwapProgram& program);

// If op i is next and its blocks have no room, a block goes that none of the coming ops i, i+1, .. touches. It is the
// least recently used of these. The coming ops are as many as touch no more than fits at once (into the next step, to
// at most one step in all). Among equals the lowest index goes. A block that the host has is dropped, others are copied
// there first. Memory is taken in the order in which it was freed, so that a copy may run as early as memory allows.
// This is the prefetching. The run begins with all kept blocks on the host.
SwapSchedule swap_schedule(const SwapProgram& program, int64_t capacity_bytes);

}  // namespace partita
