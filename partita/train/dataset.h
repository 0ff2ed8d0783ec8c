// Holds the samples of a training run, and draws their order.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "partita/base/rng.h"
#include "partita/runtime/array_file.h"

namespace partita {

// Arrays named as a graph's inputs; one that is the same as another is fed that one's.
// - An array of an input without samples along axis 0 is fed as it is, the same in every step.
// - Every other array holds its input's values, step after step along axis 0. If each of these inputs has the batch's
//   samples there, samples are drawn one by one.
// - If one of them has not, whole batches are drawn, in the arrays' own order. (An example is labels of an output that
//   begins with another axis, or is one number.)
class Dataset {
 public:
  // Reads arrays. Bad input names file and array. It is an input without one, a wrong shape or dtype, or different
  // numbers of samples. Or it is a label or token number that the model has no class or row for (index_range).
  static Dataset read(const std::string& path, const Graph& graph);
  // A few batches of drawn_values().
  static Dataset synthetic(const Graph& graph, uint64_t seed);

  // An item is the unit of drawing: a sample, or a whole batch.
  int64_t items() const { return items_; }
  int64_t items_a_step() const { return items_a_step_; }
  const Values& array(const std::string& name) const { return arrays_.at(name); }
  // Returns the values of `input` in a step of `items`, items_a_step() of them, in their order.
  Values take(const Graph& graph, TensorId input, const std::vector<int64_t>& items) const;
  // Returns these elements of them in row-major order, as an array of one axis.
  Values take(const Graph& graph, TensorId input, const std::vector<int64_t>& items, Interval elements) const;

 private:
  void check(const Graph& graph, const std::string& origin);
  Arrays arrays_;
  std::set<std::string> shared_;  // inputs that are fed as they are
  int64_t items_ = 0, items_a_step_ = 1;
};

// Draws the items of each step. An epoch is as many whole batches as the items fill, in an order of its own. Items that
// are left over are in another epoch's.
class Batches {
 public:
  Batches(int64_t items, int64_t items_a_step, uint64_t seed, bool shuffle);
  int64_t per_epoch() const { return items_ / items_a_step_; }
  std::vector<int64_t> at(int64_t step);

 private:
  const std::vector<int64_t>& order(int64_t epoch);
  int64_t items_, items_a_step_;
  uint64_t seed_;
  bool shuffle_;
  int64_t known_ = -1;
  std::vector<int64_t> order_;
};

// Returns the number of samples in a step. Bad input: no input has samples along axis 0.
int64_t batch_of(const Graph& graph);

// Returns the coordinates of an element by its row-major number.
Shape position_of(int64_t element, const Shape& shape);

// Values for an input: normal numbers, or integers in index_range (or 0 and 1). One in four of the integers is its
// ignored number if it has one.
Values drawn_values(const Graph& graph, TensorId input, Shape shape, Rng& rng);

// Bad input if values have an index (a class, a token) that the model does not have; the message begins with `origin`.
void check_numbers(const Graph& graph, TensorId input, const Values& values, const std::string& origin);

// Returns the output that a loss compares with these labels; invalid if no loss reads them as its labels.
TensorId output_of_labels(const Graph& training, TensorId labels);

}  // namespace partita
