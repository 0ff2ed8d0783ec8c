// Factors a number of devices: the extents of the mesh that can express every split of them.
#pragma once
#include <vector>

namespace partita {

// The prime factors of n > 0, largest first; empty for 1.
inline std::vector<int> prime_factors(int n) {
  std::vector<int> factors;
  for (int f = 2; n > 1; ++f)
    for (; n % f == 0; n /= f) factors.push_back(f);
  return {factors.rbegin(), factors.rend()};
}

}  // namespace partita
