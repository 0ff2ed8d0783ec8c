// Makes random local task graphs whose ops have several configurations, for tests and benchmarks of the simulators.
//
// An op in a configuration computes in shards, each on a device; a collective may follow. The tensor between two ops
// has as many shards as its writer. A reader's shard needs the shards that overlap its own. Those on its device come
// directly, the others by a transfer, which readers share. Or all come through a collective of the writer's devices. So
// a tensor's fragment follows from the configurations of its writer and its readers.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "partita/base/rng.h"
#include "partita/task_graph/task_graph.h"

namespace partita::testing {

using Exchanges = std::vector<std::pair<int, FragmentPtr>>;  // slots, and the fragments that they get

struct TaskGraphRecipe {
  enum class Shape {
    kChain,     // each op reads the result of the one before it, and a parameter
    kBranches,  // each reads one to three of the last tensors
    kGrid,      // an unrolled network: layers by steps, with a parameter a layer that all its steps read
    kTraining,  // a chain, and one back that reads the first one's results
  };
  Shape shape = Shape::kChain;
  int ops = 8;             // about
  int devices = 4;         // each with a queue for kernels and one for collectives
  int configurations = 4;  // of each op
  int least_parts = 1;     // of a configuration
  bool ties = false;       // every task takes 1 ns
  bool permuted = false;   // queues are numbered in a random order
  bool collectives = true;
};

// A small graph of any shape: 2 to 12 ops on 1 to 5 devices.
TaskGraphRecipe small_recipe(uint64_t seed);

class RandomTaskGraph {
 public:
  // The same for the same recipe and seed.
  RandomTaskGraph(const TaskGraphRecipe& recipe, uint64_t seed);

  int ops() const { return static_cast<int>(chosen_.size()); }
  int configurations() const { return recipe_.configurations; }
  // By op, at first random.
  const std::vector<int>& chosen() const { return chosen_; }
  void choose(int op, int configuration) { chosen_[static_cast<size_t>(op)] = configuration; }
  TaskGraph graph();
  // Returns the exchanges for these configurations (op, configuration): these ops and the tensors they make or read.
  Exchanges exchanges(const std::vector<std::pair<int, int>>& configurations);
  // Draws `count` different ops, each with a configuration that is not chosen.
  std::vector<std::pair<int, int>> draw(Rng& rng, int count) const;

 private:
  struct Configuration {
    std::vector<int> devices;  // by shard
    bool reduces = false;      // a collective after the shards makes the results
  };
  struct Edges;
  struct Written;
  void wire(Rng& rng);
  int add_op(const std::vector<int>& tensors);
  int add_tensor(int writer);
  void add_configurations(Rng& rng);
  int queue(int number) const { return queues_[static_cast<size_t>(number)]; }
  int link(int from, int to) const;
  int64_t time(int64_t ns) const { return recipe_.ties ? 1 : ns; }
  void add_task(Fragment& fragment, int64_t duration_ns, uint64_t key, int key_party, std::vector<int> queues) const;
  FragmentPtr op_fragment(int op, const Configuration& configuration) const;
  FragmentPtr tensor_fragment(int slot, const std::vector<int>& chosen);
  Written written(int slot, const std::vector<int>& chosen, Fragment& fragment, Edges& edges) const;
  FragmentPtr make_tensor_fragment(int slot, const std::vector<int>& chosen) const;
  const Configuration& configuration(int op, const std::vector<int>& chosen) const {
    return options_[static_cast<size_t>(op)][static_cast<size_t>(chosen[static_cast<size_t>(op)])];
  }

  TaskGraphRecipe recipe_;
  uint64_t seed_;
  std::vector<std::vector<int>> operands_, results_;  // by op, of tensors
  std::vector<int> writer_;                           // by tensor; -1: none
  std::vector<std::vector<int>> readers_;             // by tensor
  std::vector<int> queues_;
  std::vector<std::vector<Configuration>> options_;     // by op
  std::vector<std::vector<FragmentPtr>> op_fragments_;  // by op, by configuration
  std::vector<int> chosen_;
  std::map<std::vector<int>, FragmentPtr> tensor_fragments_;  // by slot and the configurations of its ops
};

}  // namespace partita::testing
