// Simulates proposals with one of three simulators.
#include "partita/search/soap/simulated_proposals.h"

#include <utility>

namespace partita {

SoapSimulator parse_soap_simulator(std::string_view text) {
  return text == "full" ? SoapSimulator::kFull : text == "delta" ? SoapSimulator::kDelta : SoapSimulator::kReplay;
}

ProposalSimulator::ProposalSimulator(SoapSimulator simulator, const SoapTasks& tasks) : simulator_(simulator) {
  if (simulator_ == SoapSimulator::kReplay) replay_.emplace(tasks.graph());
  else if (simulator_ == SoapSimulator::kDelta) delta_.emplace(tasks.graph());
  else graph_ = tasks.graph();
}

std::optional<int64_t> ProposalSimulator::ns(const SoapTasks::Changes& changes, int64_t threshold_ns) {
  if (simulator_ == SoapSimulator::kReplay) return replay_->evaluate(changes, threshold_ns);
  if (simulator_ == SoapSimulator::kDelta) {
    if (std::exchange(proposed_, true)) delta_->undo();
    const int64_t ns = delta_->propose(changes);
    return ns <= threshold_ns ? std::optional(ns) : std::nullopt;
  }
  for (auto& [slot, fragment] : before_) graph_.fragments[static_cast<size_t>(slot)] = std::move(fragment);
  before_.clear();
  for (const auto& [slot, fragment] : changes)
    before_.emplace_back(slot, std::exchange(graph_.fragments[static_cast<size_t>(slot)], fragment));
  flatten(graph_, flat_);
  simulate_first_come(flat_, timeline_);
  return timeline_.makespan_ns <= threshold_ns ? std::optional(timeline_.makespan_ns) : std::nullopt;
}

void ProposalSimulator::keep() {
  if (simulator_ == SoapSimulator::kReplay) replay_->commit();
  before_.clear();
  proposed_ = false;
}

}  // namespace partita
