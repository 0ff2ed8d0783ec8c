// Limits the size of a joint problem, and gives up a problem that would exceed it.
//
// Worked example: with {.entries = 1000}, joint_problem() returns nothing for a graph whose tables have 1001 entries.
// Its phases throw GivenUp from count_entries(), and it catches that.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "partita/search/search.h"

namespace partita {

class JointCosts;  // partita/search/joint/conversion_costs.h
// Makes the memory of conversions' costs, bytes or ns, from one joint problem to the next of the same objective and
// cluster. Not thread-safe.
std::shared_ptr<JointCosts> joint_costs(const Problem& problem);

struct JointLimits {
  int64_t tensor_values = 1 << 17;  // of one tensor's variable; its kept layouts alone may be more
  static constexpr int64_t kEntries = 1 << 24, kManyEntries = 1 << 26;
  int64_t tensor_entries = kEntries;  // of the tables at one tensor's variable, likewise; kManyEntries: for a bound
  int64_t entries = std::numeric_limits<int64_t>::max();  // of the tables of all edges
  // With layouts that have variables of their own: whether copies that lie from the forward to the backward pass count
  // among the uses, and may be gathered again instead. The tables of these variables become several times as large, and
  // bounds weaker in the same time.
  bool counts_copies = false;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  const std::atomic<bool>* stop = nullptr;
  std::shared_ptr<JointCosts> costs = nullptr;  // null: its own
};

struct GivenUp {};  // thrown over a limit

// Thread-safe.
class LimitKeeper {
 public:
  explicit LimitKeeper(const JointLimits& limits) : limits_(limits) {}
  const JointLimits& limits() const { return limits_; }
  void check_time() const {
    if (limits_.stop && *limits_.stop) throw GivenUp();
    if (limits_.deadline && std::chrono::steady_clock::now() > *limits_.deadline) throw GivenUp();
  }
  // Counts entries of tables to be made.
  void count_entries(size_t entries) {
    if (entries_ += static_cast<int64_t>(entries); entries_ > limits_.entries) throw GivenUp();
  }

 private:
  const JointLimits limits_;
  std::atomic<int64_t> entries_ = 0;
};

}  // namespace partita
