// Solves the dual of a cost network's linear relaxation, by sequential reweighted message passing (Kolmogorov, "A new
// look at reweighted message passing", 2015: TRW-S for pairs). The limit has a multiplier per kept time (a price of
// use), raised and lowered along smoothed subgradients. Every state proves a bound: messages and prices become a leaf
// of a certificate.
//
// Example: x, y in {0, 1}, costs_x = (0, 4), costs_y = (0, 0), table(x, y) = ((6, 6), (1, 2)). Without messages 0 + 0 +
// 1 = 1 is proved. Forwards, x hands its costs on: the message to it is (0, -4), and y gets min_x (table - message) =
// (5, 6). Backwards y hands that on, and x gets (6, 1), with which its values cost (6, 5). The pass returns 5, the cost
// of x = 1, y = 0. least_costs() has (6, 5) for x and (5, 6) for y.
#pragma once
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "partita/network/certificate.h"
#include "partita/solver/model.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

// The largest power of two, 2^20 at most, at which messages of this size become 64-bit integers with room to spare.
int64_t scale_for(double largest);

class Dual {
 public:
  explicit Dual(const Model& model);
  Dual(const Model& model, bool wide);  // which kind of vectors (vectors.h); the numbers are the same

  // The state that one problem may pass to another with fewer values alive.
  struct State {
    std::vector<double> messages, prices;
    double all_prices() const { return std::accumulate(prices.begin(), prices.end(), 0.0); }
  };
  const State& state() const { return state_; }
  void set(State state, const Alive& alive);
  void set_prices(std::vector<double> prices) { state_.prices = std::move(prices); }
  // Takes the messages and multipliers of a leaf whose pairs and times exist here; each pair counts once.
  void begin(const Certificate::Leaf& leaf);
  double largest() const;  // largest finite message; 1 at least
  // The message of a pair to its first or second variable, by value.
  const double* message(int pair, int end) const {
    return &state_.messages[at_[static_cast<size_t>(pair)][static_cast<size_t>(end)]];
  }
  double* message(int pair, int end) {
    return &state_.messages[at_[static_cast<size_t>(pair)][static_cast<size_t>(end)]];
  }

  // A pass forwards and one backwards. Returns the bound then proved, up to rounding; infinite if nothing is alive.
  double pass();
  // Per value, a lower bound of every assignment that takes it (reduced cost fixing), up to rounding; infinite for
  // values that are not alive. Takes two passes.
  std::vector<double> least_costs() { return least_costs(pass()); }
  // The same by one pass, after one that has proved `bound`.
  std::vector<double> least_costs(double bound);
  // Moves the prices, towards a bound of `target` at most. Call after pass().
  void move_prices(double target, double best, double rate);

  // The last pass's choice: each variable's best value beside the earlier choices and the later variables' messages.
  const Assignment& rounded() const { return rounded_; }
  // Per value, after the last pass: its cost, price and all messages to it; infinite if it is not alive.
  const std::vector<double>& beliefs() const { return beliefs_; }

  // The proof of a state for these values, if pairs count once, in integers. The scale is the largest power of two,
  // 2^20 at most, at which they fit comfortably. Messages to other values are kNotThere.
  Certificate::Leaf leaf(const State& state, const Alive& alive) const;
  // By variable: how far the last pass's choice is from the bound's: its own slack and that of its pairs.
  std::vector<double> slacks() const;

 private:
  struct End {
    PairView view;
    const double* table = nullptr;  // the view's [other][own], if all values of both differ
    int others = 0;                 // values of the other
    size_t own = 0, other = 0;      // of the messages at this end and at the other
    double times = 1;               // the pair counts so often, and its messages with it
    int variable = 0;               // the other
    bool backward = false;          // the other comes first
  };
  void sweep(int v, bool forwards);
  template <typename V>
  void sweep_by(int v, bool forwards);  // vectors.h
  void sweep_wide(int v, bool forwards);
  void sweep_halved(int v, bool forwards);

  const Model& m_;
  const bool wide_;
  Alive alive_;
  State state_;
  std::vector<std::array<size_t, 2>> at_;  // [pair]: of its messages
  std::vector<size_t> first_end_;          // [variable]
  std::vector<End> ends_;                  // by variable, backward ones first
  std::vector<int> backward_count_;        // [variable]
  std::vector<double> base_, beliefs_;     // [value]: cost and price; all that is known of it
  std::vector<double> direction_;          // [kept time]: smoothed use beyond the limit
  std::vector<double> load_;               // [kept time]
  std::vector<double> choosing_, kinds_;   // scratch: [a variable's value], [a pair's kind]
  Assignment rounded_;
  double bound_ = 0;
};

// Makes passes, after each of which the prices move: the ascent of a dual from its start. Keeps the state of the
// largest bound.
struct Ascent {
  Dual::State state;
  double bound = -kInfinity;
  double rate = kTuning.ascent.rate;  // of the prices' steps
  int passes = 0;
  int stale = 0;    // passes in a row that brought next to nothing
  int shrinks = 0;  // of the rate

  // Makes a pass of the dual within `alive`. The prices move towards `target`, or beyond a bound that is near. They
  // stay for the first `messages_first` passes, so that messages tell prices where to go.
  void pass(Dual& dual, const Alive& alive, std::optional<double> target, int messages_first);
};

}  // namespace partita::solver
