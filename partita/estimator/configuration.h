// Defines a configuration: how practice divides training over devices, in the field's words. A configuration names a
// plan of the rule `megatron` with a kind of recomputation.
//
// Example: 64 devices as tp 4 x pp 4 x dp 4, 1F1B with 64 micro-batches of 1 sample, sequence parallel, ZeRO-1. A
// stage has 16 devices: 4 replicas of 4 devices each.
#pragma once
#include <string>
#include <vector>

#include "partita/plan/rules.h"
#include "partita/plan/schedule.h"

namespace partita {

struct Configuration {
  int data = 1;      // replicas of every weight
  int tensor = 1;    // devices that share the weights of a layer
  int context = 1;   // such groups split the sequence
  int expert = 1;    // of these, groups that share experts; samples are split over data x expert
  int pipeline = 1;  // ranks
  int virtual_stages = 1;
  bool sequence = false;
  int zero = 0;  // stage of ZeRO over the devices that split samples
  Schedule schedule = Schedule::kDefault;
  int64_t micro_batch_size = 1;  // samples of a micro-batch on each replica
  int micro_batches = 1;
  std::string recompute = "none";  // of recompute_kinds()
  std::vector<int> layers = {};    // of each virtual stage; empty: as even_layers() (stages.h) cuts

  int replicas() const { return data * expert; }
  int devices_of_replica() const { return tensor * context * expert; }
  int devices_of_stage() const { return data * devices_of_replica(); }
  int devices() const { return devices_of_stage() * pipeline; }
  Pipelining pipelining() const;
  GroupsOf groups() const;
  bool operator==(const Configuration&) const = default;
};

// "megatron?tensor=4,pipeline=4,zero=1,sequence=1,recompute=cheap,micro-batch-size=1": the search whose plan it is.
std::string search_text(const Configuration& configuration);
// "tp 4 x pp 4 x dp 4, 1F1B with 64 micro-batches of 1, sequence parallel, ZeRO-1, recompute cheap"
std::string words(const Configuration& configuration);

}  // namespace partita
