// A lower bound on the simulated time of every plan of a SOAP space: of its local task graph, first come first served
// (partita/task_graph/first_come.h).
//
// The time of a plan is at least what its tasks take on any queue, and at least any path of tasks of which each waits
// for the one before it. So it is at least every weighted mean of these: with weights l_k for each queue of kind k and
// w_p for path p, all together no more than 1,
//
//     time(plan) >= sum_k l_k load_k(plan) + sum_p w_p length_p(plan)
//
// where load_k is of all queues of the kind. What is certain of loads and lengths is a sum of parts that depend on one
// unit or on two (bound_tables.h). So the least of the right side over all plans is that of a cost network: a variable
// for each unit, whose values are its classes. Any lower bound on it, by elimination or by messages, is one for all
// plans. Weights are chosen for which it is large: the plans that are best for the weights so far, and of these the
// weights whose worst plan is best (Kelley's cutting planes).
//
// Loads alone do not suffice: with equal weights for all devices, all on one device is as good as any, and moves
// nothing. So they bound by the model's compute over the number of devices, and no more. It is the path that such a
// plan makes long, and what shortens the path is what costs loads.
//
// Worked example: two equal layers of 8 ms, one after the other, on 2 devices and one link; split along samples, each
// synchronises its weights for 6 ms. Loads alone bound by (8 + 8) / 2 = 8 ms, the path alone by 4 + 4 = 8 ms. With half
// of the weight for the path, a quarter for the link and an eighth for each device, a layer that is whole counts
// 8/2 + 8/8 = 5 ms, one that is split 4/2 + 6/4 + 8/8 = 4.5 ms: the bound is 9 ms.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/network/certificate.h"
#include "partita/search/soap/unit_tasks.h"

namespace partita {

// Weights are integers, these many times what they stand for.
constexpr int64_t kSoapBoundParts = 1'000'000;

struct SoapPath {
  struct Step {
    OpId op;
    int operand = -1;  // that the step before makes; -1: the first
    int result = 0;
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;  // from first to last
  int64_t weight = 0;
};

struct SoapBound {
  struct Load {
    std::string kind;
    int queues = 0;
    int64_t weight = 0;  // of each queue
  };
  int64_t ns = 0;
  std::vector<Load> loads;
  std::vector<SoapPath> paths;
  solver::Certificate certificate;  // of the network with these weights, whose costs are kSoapBoundParts times ns
  std::string why_not;              // where ns is 0: what was left out for what
  int rounds = 0;
  int64_t fragments = 0;  // made of what units share
  double seconds = 0;
};

struct SoapBoundLimits {
  int64_t work = 60'000;       // configurations of ops, of each kind of unit once; where there are more, no bound
  int64_t fragments = 20'000;  // of what units share
  int rounds = 100;            // of weights
};

constexpr SoapBoundLimits kFullSoapBound{.work = INT64_MAX, .fragments = 150'000, .rounds = 300};

// As far as limits and the watch allow; 0 ns where that is nothing.
SoapBound soap_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost,
                     const SoapBoundLimits& limits = {}, const Watch& watch = {});

// What searches do with their option `bound`: "quick" takes up to a tenth of the time that is left, and is not there
// where that will not do; "full" takes the time it needs; "no".
SoapBound asked_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost, const Watch& watch);
// A note, and SearchResult::local_lower_bound_ns.
void add_bound(const SoapBound& bound, int64_t best_ns, SearchResult& result);

// Makes the network for the bound's weights anew, with all that units share, and returns the ns that its certificate
// proves there. Throws (bad input) where weights are more than they may be, or the certificate proves less than ns.
int64_t check_soap_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost, const SoapBound& bound);

// A plan of so many ns is within `gap` (Budget::gap) of the bound; 0 where there is no bound, or no gap is asked for.
int64_t near_enough_ns(const SoapBound& bound, double gap);

// "lower bound 9.64 ms for every plan of the space (equal parts), by the local task graph: the best found is within
// 1.31 x; weights: compute 0.91, paths 0.09; 0.3 s". Rounded so that it stays true: the bound down, the factor up.
std::string to_string(const SoapBound& bound, int64_t best_ns);

}  // namespace partita
