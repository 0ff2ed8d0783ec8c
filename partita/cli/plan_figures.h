// Watches the search for a plan, and prints its figures.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partita/pipeline/pipeline.h"

namespace partita {

// Plans as plan_model(), with the search's progress on standard error. A signal ends the search, which keeps its best
// (`interrupted` is set then); if it has none yet this throws, exit code 130. `say_remedies`: if nothing fits, the
// error ends with remedies (partita/pipeline/remedies.h).
Planned plan_watched(const Request& request, Runner& runner, bool say_remedies = true);

// The keys of `partita plan --json` that have a figure (docs/reference/cli.md).
nlohmann::ordered_json plan_json(const Planned& planned, const std::string& plan_file);
// Adds whether times are nominal; with a profile, the step's number of kernels, and how many of these are estimated.
void add_source_of_times(nlohmann::ordered_json& json, const Planned& planned);
// Adds model FLOPs utilisation, if the devices' peak is known.
void add_utilization(nlohmann::ordered_json& json, const Planned& planned);
// The memory by kind; the kinds sum to peak_memory_bytes.
void add_memory(nlohmann::ordered_json& json, const Planned& planned);
// Adds the parts of the predicted step; they sum to step_time_us.
void add_breakdown(nlohmann::ordered_json& json, const Planned& planned);
void print_plan(const Planned& planned);
// "; the plan needs at least 2.84 GB"; empty: the peak is that.
std::string least_memory_text(const Planned& planned);
// "activations 7.10 GB, weights 1.50 GB, ..": the memory of the device with the highest peak.
std::string memory_text(const Planned& planned);
// Bytes that a compute device sends in a step, in the mean over all.
double comm_bytes_per_device(const Planned& planned);
// Tokens in a second, of all devices together. None: the model has no tokens.
std::optional<double> tokens_per_second(const Planned& planned);
// Prints a line on standard error if the cluster's profile does not fit. It may be one of a CPU for GPUs, or one of
// another machine for this one's cores.
void warn_of_profile(const Cluster& cluster);
// Returns how much of the step is above the known bound, for a plan by a search that places operations whole. It is 0
// if the step is as long or shorter.
std::optional<double> gap_of_placement(const Planned& planned);
// "predicted", "predicted, nominal: without a profile of this machine", ..
std::string source_of_times(const Planned& planned);
// "statistics of 32 groups of 8 samples"; empty: they are over the whole batch.
std::string batch_norm_groups_text(const Planned& planned);

// Returns the representatives if a plan is too large to be lowered.
std::vector<std::string> representative_devices_of(const Planned& planned);
std::string representative_devices_text(
    const Planned& planned);  // the same for a reader; of many the first and the last

}  // namespace partita
