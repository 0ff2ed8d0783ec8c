// Lists the kernels to time, for profiles: those of a plan, and those that plans of a model can need.
//
// Example: the plans of linear on 2 devices need four kernels, if all have one dtype. They are linear itself, and its
// halves along samples, along rows of the weight and along columns of it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/kernel_plan/request.h"
#include "partita/physical/physical.h"
#include "partita/profile/profile.h"

namespace partita {

// An isolated kernel: its computation and its operands. Shards are over the axes that its formula has, and dense.
struct KernelToTime {
  MeasuredKernel kernel;  // without its time
  KernelWork work;        // of one firing
  std::vector<PlacedShard> reads, writes;
};
using KernelsToTime = std::map<std::string, KernelToTime>;  // by KernelId::key()

// Adds the kernels of a lowered plan, and to `times`, if given, how often each runs in a step, by its key.
void add_kernels(const PhysicalGraph& graph, KernelsToTime& kernels, std::map<std::string, int>* times = nullptr);
// Adds the kernels that plans over 1 to `devices` devices can need. They are those of all strategies of every op, on
// meshes of as many devices as divide `devices`, one axis a prime factor.
void add_kernels(const Graph& graph, int devices, KernelsToTime& kernels);

}  // namespace partita
