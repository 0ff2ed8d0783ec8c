// Makes the training step of an unrolled recurrent network in elementary operations, for tests and benchmarks.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/base/rng.h"
#include "partita/device_placement/problem.h"

namespace partita {

// Two GPUs and a host; 26 operations a cell of a layer and step. Inputs are the host's. A layer's weights and their
// updates are a group. Operations take 2 to 100 us, a little more by chance.
class UnrolledProblem {
 public:
  UnrolledProblem(int layers, int steps, uint64_t seed) : rng_(seed) {
    p_.devices = {{"gpu0", int64_t{16} << 30}, {"gpu1", int64_t{16} << 30}, {"host", int64_t{64} << 30}};
    p_.queues = 6;
    p_.routes = {{{}, {0, 5'000, 0.04}, {1, 10'000, 0.1}},
                 {{2, 5'000, 0.04}, {}, {3, 10'000, 0.1}},
                 {{4, 10'000, 0.1}, {5, 10'000, 0.1}, {}}};
    for (int l = 0; l < layers; ++l)
      for (const char* name : {"w", "u"}) weights_.push_back(add(name + std::to_string(l), 2'000, kWeight, {}, l));
    const int first = static_cast<int>(p_.ops.size());
    std::vector<std::pair<int, int>> state(static_cast<size_t>(layers), {-1, -1});  // h and c
    for (int t = 0; t < steps; ++t) {
      int x = add("x" + std::to_string(t), 2'000, kActivation, {});
      p_.ops.back().ns = {-1, -1, 2'000};
      for (int l = 0; l < layers; ++l) x = cell(l, t, x, state[static_cast<size_t>(l)]);
      add("loss" + std::to_string(t), 50'000, kActivation, {x});
    }
    gradients(first);
  }
  PlacementProblem take() { return std::move(p_); }

 private:
  static constexpr int64_t kWeight = int64_t{64} << 20, kActivation = int64_t{1} << 20;
  static constexpr int64_t kProduct = 100'000, kElements = 5'000;

  // Value and operation have one number; -1 is nothing to read.
  int add(const std::string& name, int64_t ns, int64_t bytes, const std::vector<int>& reads, int group = -1) {
    const int op = static_cast<int>(p_.ops.size());
    ns += rng_.between(0, ns / 10);
    p_.ops.push_back({name, {ns, ns, -1}, bytes, group, {}});
    p_.values.push_back({bytes, op, {}});
    for (int v : reads) {
      if (v < 0 || (!p_.values[static_cast<size_t>(v)].readers.empty() &&
                    p_.values[static_cast<size_t>(v)].readers.back() == op))
        continue;
      p_.ops.back().reads.push_back(v);
      p_.values[static_cast<size_t>(v)].readers.push_back(op);
    }
    return op;
  }

  // Adds a cell and returns its h. The state is renewed.
  int cell(int l, int t, int x, std::pair<int, int>& state) {
    const std::string at = std::to_string(l) + "." + std::to_string(t);
    const auto element = [&](const char* name, const std::vector<int>& reads) {
      return add(name + at, kElements, kActivation, reads);
    };
    const int xw = add("xw" + at, kProduct, kActivation, {x, weights_[2 * static_cast<size_t>(l)]});
    const int hu = add("hu" + at, kProduct, kActivation, {state.first, weights_[2 * static_cast<size_t>(l) + 1]});
    const int s = element("s", {xw, hu}), i = element("i", {s}), f = element("f", {s}), o = element("o", {s}),
              g = element("g", {s});
    state.second = element("c", {element("fc", {f, state.second}), element("ig", {i, g})});
    return state.first = element("h", {o, element("tanh", {state.second})});
  }

  // Adds one gradient an operation, last first, of its readers and its own inputs; and sums of weight gradients.
  void gradients(int first) {
    const int last = static_cast<int>(p_.ops.size());
    std::vector<int> gradient(static_cast<size_t>(last), -1), sum(weights_.size(), -1);
    for (int op = last - 1; op >= first; --op) {
      const PlacedOp forward = p_.ops[static_cast<size_t>(op)];
      if (forward.ns[0] < 0) continue;
      std::vector<int> reads = forward.reads;
      const std::vector<int> readers = p_.values[static_cast<size_t>(op)].readers;
      for (int r : readers)
        if (r < last) reads.push_back(gradient[static_cast<size_t>(r)]);
      const int made = add("d" + forward.name, forward.ns[0], kActivation, reads);
      gradient[static_cast<size_t>(op)] = made;
      for (size_t w = 0; w < weights_.size(); ++w)
        if (!forward.reads.empty() && forward.reads.back() == weights_[w])
          sum[w] = add("sum" + forward.name, kProduct, 0, {made, forward.reads.front(), sum[w]});
    }
    for (size_t w = 0; w < weights_.size(); ++w)
      add("update" + std::to_string(w), 20'000, 2 * kWeight, {weights_[w], sum[w]}, static_cast<int>(w / 2));
  }

  Rng rng_;
  PlacementProblem p_;
  std::vector<int> weights_;
};

inline PlacementProblem unrolled_problem(int layers, int steps, uint64_t seed) {
  return UnrolledProblem(layers, steps, seed).take();
}

}  // namespace partita
