// Generates random numbers, passed in and never global. Rng serves searches, data order and tests. Philox serves all
// that a tensor's value depends on, since it is a function of a key and a counter.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace partita {

// xoshiro256**, seeded through splitmix64 (Blackman and Vigna). The same on every machine.
class Rng {
 public:
  explicit Rng(uint64_t seed);
  uint64_t next();
  uint64_t below(uint64_t n);               // uniform in [0, n), n > 0
  int64_t between(int64_t lo, int64_t hi);  // uniform in [lo, hi], both included
  double uniform();                         // [0, 1), 53 bits
  double normal();                          // mean 0, variance 1
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  uint64_t state_[4];
};

// Philox4x32-10 (Salmon et al., SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
// Element `index` of stream (seed, stream, step), uniform in [0, 1): the random number of TDL's rng().
double philox_uniform(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index);
// The FNV-1a hash of a name, used as a stream number.
uint64_t hash_name(std::string_view name);

}  // namespace partita
