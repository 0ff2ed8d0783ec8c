// Raises a peak from several threads.
#pragma once
#include <atomic>
#include <cstdint>

namespace partita {

// peak := max(peak, value)
inline void atomic_max(std::atomic<int64_t>& peak, int64_t value) {
  int64_t before = peak.load(std::memory_order_relaxed);
  while (value > before && !peak.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

}  // namespace partita
