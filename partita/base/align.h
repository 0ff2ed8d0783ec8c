// Rounds sizes up to whole units.
#pragma once
#include <cstdint>

namespace partita {

// The least multiple of `unit` that is not below `bytes`: align_up(65, 64) is 128, align_up(64, 64) is 64.
constexpr int64_t align_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace partita
