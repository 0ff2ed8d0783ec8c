// Which kernels to time: those of a plan, and those that plans of a model can ask for.
//
// Example: the plans of linear on 2 devices ask for linear itself, and for its halves along samples, rows of the weight
// and columns of it: four kernels, where all have one dtype.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/kernel_plan/request.h"
#include "partita/physical/physical.h"
#include "partita/profile/profile.h"

namespace partita {

// A kernel by itself: what it computes, and on what. Parts are over the axes that its formula has, and dense.
struct KernelToTime {
  MeasuredKernel kernel;  // without its time
  KernelWork work;        // of one act
  std::vector<PlacedPart> reads, writes;
};
using KernelsToTime = std::map<std::string, KernelToTime>;  // by KernelId::key()

// Adds those of a lowered plan, and to `times`, if given, how often each runs in a step, by its key.
void add_kernels(const PhysicalGraph& graph, KernelsToTime& kernels, std::map<std::string, int>* times = nullptr);
// Adds those that plans over 1 to `devices` devices can ask for: of every op, all strategies on meshes of as many
// devices as divide `devices`, one axis a prime factor.
void add_kernels(const Graph& graph, int devices, KernelsToTime& kernels);

}  // namespace partita
