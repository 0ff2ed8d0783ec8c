// Lists the contents of a device's memory at its peak, and throws the message if the memory is too small.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// The kind of bytes below the peak that hold nothing at that place. Either nothing fits there that lives then. Or the
// use that lay there is over, and its bytes are still held so that communication need not wait
// (schedule/overlap_budget.h).
constexpr const char* kGaps = "gaps between them";

// The contents of a device's memory at the place of `order` where most bytes live on it: bytes by kind, largest first
// ("weights", "gradients", "optimizer states", "activations", "inputs and constants", "communication buffers",
// "workspaces", kGaps). Their sum is the device's peak without `further` bytes. `graph`: the one that was lowered.
//
// Example: {{"weights", 4096}, {"activations", 2048}, {"gaps between them", 64}} for a peak of 6208 bytes.
std::vector<std::pair<std::string, int64_t>> contents_at_peak(const Graph& graph, const PhysicalGraph& physical,
                                                              DeviceId device, int64_t further = 0);

// The devices and micro-batches that a physical graph leaves out.
struct Beyond {
  std::vector<DeviceId> representatives;  // the devices that are lowered; empty: all
  std::vector<int64_t> bytes;             // by device: in its peak, of micro-batches that are not lowered; empty: none
};
// Throws infeasible if a device's peak is beyond its memory. The message is one line about the device that lacks most.
// It has the number of devices that lack memory, the bytes that this one needs, has and misses, and its contents.
void check_capacity(const Graph& graph, const PhysicalGraph& physical, const Cluster& cluster,
                    const Beyond& beyond = {});

}  // namespace partita
