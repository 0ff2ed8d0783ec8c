// Measures the cache that the cores of this machine share, as far as it serves them. On a virtual machine it is the
// part that its neighbours leave, not the size in the processor's data sheet.
#pragma once
#include <atomic>
#include <cstddef>
#include <vector>

namespace partita {

// Returns bytes in all. So much memory, gone through again and again by all cores at once, takes halfway between the
// times of little memory and of 1 GiB. 0 if much takes less than 1.25 times as long as little, or there is too little
// memory to tell.
double measure_shared_cache(int cores, const std::atomic<bool>* stop);

// Goes through so many bytes of other memory, so that nothing else is left in any cache.
class Sweep {
 public:
  explicit Sweep(double bytes);
  void run();

 private:
  std::vector<std::byte> memory_;
};

}  // namespace partita
