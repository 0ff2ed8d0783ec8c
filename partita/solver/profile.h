// Tracks the use at each kept time, with the largest in any interval in logarithmic time.
//
// Example: Profile p(4); p.add(0, 3, 5); p.add(2, 4, 2). The use is 5, 5, 7, 2: p.most() is 7, p.peak() 2, p.most(0, 2)
// 5 and p.most(3, 4) 2.
#pragma once
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

class Profile {
 public:
  explicit Profile(int times) {
    while (leaves_ < times + 2) leaves_ *= 2;
    most_.assign(2 * leaves_, 0);
    added_.assign(2 * leaves_, 0);
  }

  // Adds to all times in [lower, upper), which is not empty.
  void add(int lower, int upper, Wide amount) {
    if (amount == 0) return;
    int s = leaves_ + lower, t = leaves_ + upper + 1;
    for (; (s ^ t) != 1; lift(s), lift(t)) {
      if (!(s & 1)) most_[s + 1] += amount, added_[s + 1] += amount;
      if (t & 1) most_[t - 1] += amount, added_[t - 1] += amount;
    }
    while (s > 1) lift(s);
  }

  Wide most(int lower, int upper) const {
    Wide left = kLeast, right = kLeast;
    int s = leaves_ + lower, t = leaves_ + upper + 1;
    while ((s ^ t) != 1) {
      if (!(s & 1) && most_[s + 1] > left) left = most_[s + 1];
      if ((t & 1) && most_[t - 1] > right) right = most_[t - 1];
      s /= 2, t /= 2;
      left += added_[s], right += added_[t];
    }
    if (right > left) left = right;
    for (s /= 2; s >= 1; s /= 2) left += added_[s];
    return left;
  }

  Wide most() const { return most_[1]; }

  // The first time of the largest use.
  int peak() const {
    int s = 1;
    while (s < leaves_) s = most_[2 * s] >= most_[2 * s + 1] ? 2 * s : 2 * s + 1;
    return s - leaves_ - 1;
  }

 private:
  static constexpr Wide kLeast = -(Wide{1} << 120);
  void lift(int& s) {
    s /= 2;
    most_[s] = (most_[2 * s] > most_[2 * s + 1] ? most_[2 * s] : most_[2 * s + 1]) + added_[s];
  }
  int leaves_ = 2;                  // time t is leaf t + 1
  std::vector<Wide> most_, added_;  // [node]: the largest below it, `added_` of its own included
};

}  // namespace partita::solver
