// A network with some of its variables' values only, as a network of its own.
#pragma once
#include <vector>

#include "partita/network/certificate.h"

namespace partita::solver {

class Subset {
 public:
  // By variable, ascending, at least one each.
  Subset(const Network& network, std::vector<std::vector<int>> values);

  const Network& network() const { return subset_; }
  const std::vector<std::vector<int>>& values() const { return values_; }
  Assignment whole(Assignment of_subset) const;
  Assignment lowered(const Assignment& of_whole) const;  // what is not there as any
  // The messages to those values; no decisions.
  Certificate::Leaf lowered(const Certificate::Leaf& of_whole) const;
  // The other way: 0 to all other values.
  Certificate::Leaf lifted(const Certificate::Leaf& of_subset, const Network& whole) const;

 private:
  std::vector<std::vector<int>> values_;
  Network subset_;
};

}  // namespace partita::solver
