// The samples that a training run takes, and in which order.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "partita/runtime/array_file.h"

namespace partita {

// Arrays named as a graph's inputs. Those of inputs that have no samples along axis 0 are fed as they are, the same in
// every step. All others hold what their input takes in a step, step after step along axis 0. Where each of these has
// the batch's samples there, samples may be drawn one by one. Where one has not (labels of an output that begins with
// another axis, or is one number), only whole batches of the arrays' own order belong together.
class Dataset {
 public:
  // Bad input names file and array: an input without one, a wrong shape or dtype, different numbers of samples, a label
  // or token number that the model has no class or row for (index_range).
  static Dataset read(const std::string& path, const Graph& graph);
  // Normal numbers, and integers in index_range (or 0 and 1); a few batches of them.
  static Dataset synthetic(const Graph& graph, uint64_t seed);

  // An item is what is drawn: a sample, or a whole batch.
  int64_t items() const { return items_; }
  int64_t items_a_step() const { return items_a_step_; }
  const Values& array(const std::string& name) const { return arrays_.at(name); }
  // What `input` takes in a step of `items`, items_a_step() of them, in their order.
  Values take(const Tensor& input, const std::vector<int64_t>& items) const;

 private:
  void check(const Graph& graph, const std::string& origin);
  Arrays arrays_;
  std::set<std::string> shared_;  // inputs that are fed as they are
  int64_t items_ = 0, items_a_step_ = 1;
};

// Which items each step takes: as many as fill a batch of each epoch's order; what is left over joins another epoch's
// order.
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

// Number of samples in a step. Bad input: no input has samples along axis 0.
int64_t batch_of(const Graph& graph);

// The coordinates of an element by its row-major number.
Shape position_of(int64_t element, const Shape& shape);

// Bad input, after `origin`: a number of a place, of a class or a token, that the model does not have.
void check_numbers(const Graph& graph, TensorId input, const Values& values, const std::string& origin);

// What a loss compares the input with; invalid where no loss reads it as its labels.
TensorId judged_by(const Graph& training, TensorId labels);

}  // namespace partita
