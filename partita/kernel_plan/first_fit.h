// Places blocks in a scratch memory, each at the lowest offset with room. The planner and the kernels' allocator run
// the same requests through it, and so agree on every offset.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>

#include "partita/base/align.h"

namespace partita {

constexpr int64_t kScratchAlign = 64;  // ATen's own alignment (c10/core/alignment.h)
inline int64_t scratch_size(int64_t bytes) { return align_up(bytes, kScratchAlign); }

class FirstFit {
 public:
  // The offset of a block of bytes > 0; -1 if it would end above `limit`.
  int64_t allocate(int64_t bytes, int64_t limit = INT64_MAX) {
    const int64_t size = scratch_size(bytes);
    int64_t at = 0;
    auto next = used_.begin();
    for (; next != used_.end() && next->first - at < size; ++next) at = next->second;
    if (size > limit - at) return -1;
    used_.emplace_hint(next, at, at + size);
    end_ = std::max(end_, at + size);
    return at;
  }
  // False if no block begins there.
  bool free(int64_t offset) { return used_.erase(offset) > 0; }
  // The end of the highest block so far.
  int64_t end() const { return end_; }

 private:
  std::map<int64_t, int64_t> used_;  // offset -> end
  int64_t end_ = 0;
};

}  // namespace partita
