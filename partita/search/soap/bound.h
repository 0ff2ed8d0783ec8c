// Bounds from below the simulated time of every plan of a SOAP space: of its local task graph, first come first served
// (partita/task_graph/first_come.h). For searches and their reports.
//
// The time of a plan is at least the work of any queue. It is at least any path of tasks of which each waits for the
// one before it. So it is at least every weighted mean of these: with weights l_k for each queue of kind k and w_p for
// path p, all together no more than 1,
//
//     time(plan) >= sum_k l_k load_k(plan) + sum_p w_p length_p(plan)
//
// where load_k is of all queues of the kind. The certain part of loads and lengths is a sum of terms that depend on one
// unit or on two (bound_tables.h). So the least right side over all plans is the optimum of a cost network: a variable
// for each unit, whose values are its classes. Any lower bound on it, by elimination or by messages, holds for all
// plans. Weights are chosen to make it large. Rounds find the best plans for the weights so far, and then the weights
// whose worst plan among these is best (Kelley's cutting planes).
//
// Loads alone do not suffice: with equal weights for all devices, all on one device is as good as any, and moves
// nothing. So they bound by the model's compute over the number of devices, and no more. Such a plan makes the path
// long, and shortening the path costs loads.
//
// Worked example: two equal layers of 8 ms run one after the other, on 2 devices and one link. Split along samples,
// each synchronises its weights for 6 ms. Loads alone bound by (8 + 8) / 2 = 8 ms, the path alone by 4 + 4 = 8 ms. Let
// half of the weight be for the path, a quarter for the link and an eighth for each device. A layer that is whole then
// counts 8/2 + 8/8 = 5 ms. One that is split counts 4/2 + 6/4 + 8/8 = 4.5 ms, so the bound is 9 ms.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/network/certificate.h"
#include "partita/search/soap/unit_tasks.h"

namespace partita {

// Weights are integers, scaled by this.
constexpr int64_t kSoapBoundParts = 1'000'000;

struct SoapPath {
  struct Step {
    OpId op;
    int operand = -1;  // made by the step before; -1: the first
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
  std::string why_not;              // if ns is 0: the part left out, and why
  int rounds = 0;
  int64_t fragments = 0;  // made for the pieces that units share
  double seconds = 0;
};

struct SoapBoundLimits {
  int64_t work = 60'000;       // configurations of ops, each kind of unit once; with more there is no bound
  int64_t fragments = 20'000;  // for the pieces that units share
  int rounds = 100;            // of weights
};

constexpr SoapBoundLimits kFullSoapBound{.work = INT64_MAX, .fragments = 150'000, .rounds = 300};

// Returns the bound as far as limits and the watch allow; 0 ns if there is none.
SoapBound soap_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost,
                     const SoapBoundLimits& limits = {}, const Watch& watch = {});

// Reads a search's option `bound`. "quick" takes up to a tenth of the time left, and gives none if that is too little.
// "full" takes the time it needs; "no" gives none.
SoapBound asked_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost, const Watch& watch);
// Adds a note, and sets SearchResult::local_lower_bound_ns and its note.
void add_bound(const SoapBound& bound, int64_t best_ns, SearchResult& result);

// Builds the network for the bound's weights anew, with all that units share, and returns the ns that its certificate
// proves. Throws (bad input) if weights are larger than allowed, or the certificate proves less than ns.
int64_t check_soap_bound(const Problem& problem, const SoapSpace& space, const CostModel& cost, const SoapBound& bound);

// Returns the ns at which a plan is within `gap` (Budget::gap) of the bound; 0 if there is no bound or no gap.
int64_t near_enough_ns(const SoapBound& bound, double gap);

// "lower bound 9.64 ms for every plan of the space (equal parts), by the local task graph: the best found is within
// 1.31 x; weights: compute 0.91, paths 0.09; 0.3 s". Rounded so that it stays true: the bound down, the factor up.
std::string to_string(const SoapBound& bound, int64_t best_ns);

}  // namespace partita
