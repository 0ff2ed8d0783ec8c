// The prime factors of a number of devices: the extents of the mesh on which every split of them can be told.
#pragma once
#include <vector>

namespace partita {

// Of n > 0, largest first; empty for 1.
inline std::vector<int> prime_factors(int n) {
  std::vector<int> factors;
  for (int f = 2; n > 1; ++f)
    for (; n % f == 0; n /= f) factors.push_back(f);
  return {factors.rbegin(), factors.rend()};
}

}  // namespace partita
