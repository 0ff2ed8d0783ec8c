// Bounds the load of one accelerator from below, given units that must be and must not be on it, by a minimum cut.
//
// Each free unit is on it, and adds its compute, or not; a net adds its cost once if its units are parted. Unit a must
// be on it (compute 3), b is free (compute 2), c must not be; nets {a,b} of 5 and {b,c} of 1: with b it has
// 3 + 2 + 1 = 6, without b 3 + 5 = 8; the cut is 6.
#pragma once
#include "partita/partitioning/units.h"

namespace partita::partitioning {

enum class Side : char { kFree, kOn, kOff };

class LeastLoad {
 public:
  explicit LeastLoad(const Units& units);
  // `side` of each unit. With `computes` false only nets count. Rounded down, so that it is a bound.
  double operator()(const std::vector<Side>& side, bool computes = true);

 private:
  struct Arc {
    int to;
    double room;
  };
  void join(int a, int b, double room);
  void add_net(const Net& net, const std::vector<Side>& side, double& fixed);
  bool levels();
  double push(int v, double flow);

  const Units& units_;
  int nodes_ = 0;
  std::vector<Arc> arcs_;  // an arc and its reverse are neighbours
  std::vector<std::vector<int>> out_;
  std::vector<int> level_, queue_;
  std::vector<size_t> next_;
};

}  // namespace partita::partitioning
