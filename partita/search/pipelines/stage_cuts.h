// Chooses the layers of each stage of a pipeline. The cuts are even on the stages' own devices, and the one of the
// shortest simulated step is taken.
//
// Example: 20 equal layers on two stages, whose devices take 1 and 2.5 ms for a layer. The evenest cut has 14 layers on
// the first (14 ms) and 6 on the second (15 ms). If the first has memory for only 10 layers, the evenest cut that fits
// has 10 on either.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "partita/plan/schedule.h"
#include "partita/search/evaluate.h"
#include "partita/search/pipelines/stages.h"

namespace partita {

// The devices of a pipeline's ranks: each the next `each` of slowest_link_first().
struct RankDevices {
  std::vector<DeviceId> devices;
  int each = 1;

  RankDevices(const Cluster& cluster, int ranks);
  // A mesh of the first `each` devices of a cluster, on the rank's devices.
  Mesh on(const Mesh& mesh, int rank) const;
};

// By layer block (stages.h), its stage. Stage c is on rank c mod ranks.
using StageCut = std::vector<int>;

struct StageCuts {
  LayerBlocks blocks;
  // The evenest cut of all comes first, then each time the evenest that needs less memory than the one before. By an
  // estimate, that is at least a hundredth less on the device with the largest deficit. They do not depend on the
  // devices' memory, if all have the same.
  std::vector<StageCut> cuts;
  std::function<double(const StageCut&)> need;  // the estimated share of its memory that the fullest device needs
  // Returns the first cut that fits by the estimate, or the one that needs least.
  size_t estimated() const;
};
// Returns the cuts. `one`: the plan for one rank's devices. Does not apply if the model has fewer layer blocks than
// there are stages.
StageCuts stage_cuts(const Graph& graph, const Plan& one, const Cluster& cluster, const Pipelining& pipelining);

// Returns each op's stage.
std::vector<int> stages_of(const LayerBlocks& blocks, const StageCut& cut);

// Evaluates a cut's plan; none: it cannot be simulated.
struct CutEvaluator {
  // About how long its step takes if memory is plenty.
  std::function<std::optional<int64_t>(const StageCut&)> step_ns;
  // Its step, and its memory deficit.
  std::function<std::optional<PlanEvaluation>(const StageCut&)> evaluated;
};
struct CutEffort {
  int64_t most = 64;  // cuts that are compared
  Watch watch;        // no further cut is compared after its end
};

// Returns the cut of the shortest step that fits. If there are at most `effort.most` cuts, all are looked at. Otherwise
// `cuts` are, and those that differ from the shortest of them in the end of one stage, or of two. All are compared as
// if memory were plenty, so that the choice does not depend on it. Then those nearly as short as the shortest that fits
// are evaluated. Cuts near the estimated one are looked at first. If too few may be, or none fits, the estimated one is
// taken.
StageCut shortest_cut(const StageCuts& cuts, const CutEffort& effort, const CutEvaluator& evaluator);

}  // namespace partita
