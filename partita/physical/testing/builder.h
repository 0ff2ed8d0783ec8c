// Builds small PhysicalGraphs by hand, for tests: registers of float32 elements along one axis, tasks that add up their
// reads.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/physical/passes.h"

namespace partita::testing {

class PhysicalBuilder {
 public:
  // Each device has the queues "gpuD.compute", "gpuD.collective.activations" and "gpuD.collective.parameters", each
  // ordered pair of devices a link "D-E".
  explicit PhysicalBuilder(int devices, int micro_batches = 1);

  RegisterId reg(const std::string& name, int device, int64_t elements, int uses = 1);
  RegisterId carried(const std::string& name, int device, int64_t elements);
  RegisterId constant(const std::string& name, int device, int64_t elements);
  // Adds a kernel that writes the sum of its reads. Its op is its number, so that the order follows that of the calls.
  TaskId add(const std::string& name, int device, const std::vector<RegisterId>& reads,
             const std::vector<RegisterId>& writes, int rate = 1);
  // Adds a copy on the link from the read register's device to the written one's.
  TaskId copy(const std::string& name, RegisterId from, RegisterId to, int rate = 1);
  // Adds a sum over the participants' reads, one result each. Tasks are NAME@DEVICE.
  enum class Of { kActivations, kParameters };
  std::vector<TaskId> all_reduce(const std::string& name, const std::vector<RegisterId>& reads,
                                 const std::vector<RegisterId>& writes, int rate = 1, Of of = Of::kActivations);
  Node node(const std::string& task, int firing = 0) const;  // a collective's by its first participant

  PhysicalGraph graph;

 private:
  TaskId push(Task task);
  int devices_, collectives_ = 0;
};

// Builds a pipeline. Virtual stage c on device c mod `ranks` has the forward "fC" and the backward "bC", which reads
// the activation that fC kept ("actC"). "sendC" and "backC" bring virtual stage C its input and its gradient, if
// another device has them. All fire once a micro-batch, on registers of 16 elements.
PhysicalBuilder pipeline(int micro_batches, int ranks = 2, int virtual_stages = 1);

// Makes a cluster for such graphs. It moves one byte a nanosecond everywhere, without latency or launch overhead: a
// task of n bytes takes n ns, and at least 1.
Cluster one_byte_a_ns(int devices);

// Runs all passes after lower_local.
void run_passes(PhysicalGraph& graph, const LowerOptions& options = {});

}  // namespace partita::testing
