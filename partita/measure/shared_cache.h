// The cache that the cores of this machine share, as far as it serves them. Of a virtual machine it is what its
// neighbours leave, whatever the processor's data sheet says.
#pragma once
#include <atomic>
#include <cstddef>
#include <vector>

namespace partita {

// Bytes in all: memory of which so much is gone through again and again, by all cores at once, takes halfway between
// what little memory takes and what 1 GiB takes. 0 where much takes less than 1.25 times as long as little, or there is
// too little memory to tell.
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
