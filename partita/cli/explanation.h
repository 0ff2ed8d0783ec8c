// Holds a plan that is explained, with the functions that its text and its JSON share.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "partita/cost/collective.h"
#include "partita/pipeline/pipeline.h"
#include "partita/plan/explain.h"
#include "partita/search/device_placement/placed_explain.h"

namespace partita {

struct Explained {
  explicit Explained(const Planned& p)
      : planned(p), explainer(p.training, p.plan, *p.resolved, p.cluster), collectives(p.cluster) {}

  const Planned& planned;
  Explainer explainer;
  CollectiveTimes collectives;
  bool places = false;  // it has whole operations, each on one device, and all of its step is simulated
  std::optional<PlacedExplainer> placed;  // if the step is such a problem
  int memory_plans = 0;                   // alternatives whose memory was planned, so far
};

std::string text_of(const std::vector<tdl::AxisStrategy>& strategies);
std::string text_of(const Explained& e, const Layout& layout);  // on one device: "node0.gpu0"
std::string text_of(const TensorAlternative& other);            // the placement of the tensor there
// "all-reduce (ring LL128) + ..": the steps of a conversion, and how the devices' library does them.
std::string steps_of(Explained& e, const Moved& moved);
// Names of the ops that read a converted tensor.
std::vector<std::string> readers_of(const Graph& graph, const Moved& moved);

// Returns the memory deficit of a cheaper alternative, in bytes. None after a few: planning memory takes time.
std::optional<int64_t> deficit_of(Explained& e, const std::function<Plan()>& alternative);

nlohmann::ordered_json op_json(Explained& e, OpId id);
nlohmann::ordered_json tensor_json(Explained& e, TensorId id);
nlohmann::ordered_json summary_json(Explained& e);

// For plans that have whole operations, each on one device: the schedule of the devices. For an op: its time, and if
// `placed` is there the step on other devices.
nlohmann::ordered_json placed_json(Explained& e);
nlohmann::ordered_json placed_op_json(Explained& e, OpId id);
void print_placed(Explained& e);
void print_placed_op(Explained& e, OpId id);

void print_op(Explained& e, OpId id);
void print_tensor(Explained& e, TensorId id);
void print_summary(Explained& e);

}  // namespace partita
