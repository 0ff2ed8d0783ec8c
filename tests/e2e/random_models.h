// Plans random models (tests/data/make_random_models.py) by any search for any number of devices, and runs them, for
// tests.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/runtime/npz.h"

namespace partita {

struct RandomModel {
  std::string name;   // its number in the file
  std::string proto;  // the bytes of the ONNX file; empty: `name` is a model of the zoo, and has no reference
  Arrays in, out;     // `out`: the reference evaluator's, in float64
};

// In the order of their numbers.
std::vector<RandomModel> read_random_models(const std::string& path);

// One model under one plan.
struct RandomPair {
  std::size_t model = 0;
  std::string search, cluster, objective, dtype, loss, optimizer;  // loss empty: the model's own
};

// Small models of the zoo.
std::vector<RandomModel> small_zoo_models();

// Pair `index` of a seed: the same whatever the others are.
RandomPair random_pair(uint64_t seed, std::size_t index, const std::vector<RandomModel>& models);
// The same with several options of the search at once, micro-batches, and the model's own loss.
RandomPair random_zoo_pair(uint64_t seed, std::size_t index, const std::vector<RandomModel>& models);

// The commands that do the same.
std::string commands(const RandomPair& pair, const std::string& file);

struct PairOutcome {
  std::string refused;  // the file, or the request, and why: no fault
  std::string fault;    // a difference, an internal error, a plan that is refused; and where
  bool trained = false;
};

// Tries one pair. The serial forward pass is compared with the reference, if there is one. The plan is written, read,
// checked and simulated, its forward pass compared with the reference, and in float64 its training with the serial one.
// `file`: where the model lies.
PairOutcome try_pair(const RandomModel& model, const RandomPair& pair, const std::string& file);

}  // namespace partita
