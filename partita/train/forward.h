// Runs one forward pass of a planned evaluation graph.
#pragma once
#include "partita/cluster/cluster.h"
#include "partita/plan/plan.h"
#include "partita/runtime/array_file.h"
#include "partita/runtime/kernel.h"

namespace partita {

// Takes arrays by input name, returns those by output name. Bad input if an array is missing, or has another shape or
// kind.
Arrays run_forward(const Graph& forward, const Plan& plan, const Cluster& cluster, const Arrays& inputs,
                   const Arrays& weights, uint64_t seed, Kernels& kernels);

}  // namespace partita
