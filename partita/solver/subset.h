// Restricts a network to some of its variables' values, as a network of its own.
//
// Example: of two variables of three values, {0, 2} and {1} are kept. The subset has domains 2 and 1, its table is
// {table(0, 1), table(2, 1)}, whole({1, 0}) is {2, 1}, and lowered({2, 1}) is {1, 0}.
#pragma once
#include <vector>

#include "partita/network/certificate.h"

namespace partita::solver {

class Subset {
 public:
  // `values`: by variable, ascending, one at least.
  Subset(const Network& network, std::vector<std::vector<int>> values);

  const Network& network() const { return subset_; }
  const std::vector<std::vector<int>>& values() const { return values_; }
  Assignment whole(Assignment of_subset) const;
  Assignment lowered(const Assignment& of_whole) const;  // a value that is not kept becomes the first
  // The messages to the kept values, without decisions.
  Certificate::Leaf lowered(const Certificate::Leaf& of_whole) const;
  // The reverse; messages to all other values are 0.
  Certificate::Leaf lifted(const Certificate::Leaf& of_subset, const Network& whole) const;

 private:
  std::vector<std::vector<int>> values_;
  Network subset_;
};

}  // namespace partita::solver
