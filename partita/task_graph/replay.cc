// Evaluates proposals by sweep or replay, and commits them.
#include "partita/task_graph/replay.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/task_graph/replay_state.h"

namespace partita {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// Sets everything anew for the graph.
void restart(ReplayState& s, TaskGraph graph) {
  const ReplayCounts counts = s.counts;
  const ReplayOptions options = s.options;
  const replay::SweepRecord sweeps = s.sweeps;
  s = {};
  s.counts = counts;
  s.options = options;
  s.sweeps = sweeps;
  const Replay::Exchanges all = set_slots(s, std::move(graph));
  const size_t slots = all.size();
  s.decrease_ns.resize(slots);
  for (std::vector<int64_t>* of : {&s.load_ns, &s.change_ns}) of->resize(at(s.graph.queue_count));
  s.held.resize(at(s.graph.queue_count));
  s.held_places.resize(at(s.graph.queue_count));
  s.queues.resize(at(s.graph.queue_count));
  s.swept_queues.resize(at(s.graph.queue_count));
  replay::begin_evaluation(s, all);
  replay::build_proposal(s);
  replay::cut_queues(s, Replay::kNoThreshold);
  replay::bound_tails(s);
  replay::replay_tasks(s, Replay::kNoThreshold);
  ensure(static_cast<int>(s.taken.size()) == s.new_count, "{} of {} tasks wait for each other",
         s.new_count - static_cast<int>(s.taken.size()), s.new_count);
  replay::commit_proposal(s);
}

int64_t most_load(const ReplayState& s) {
  int64_t most_ns = 0;
  for (size_t queue = 0; queue < s.load_ns.size(); ++queue)
    most_ns = std::max(most_ns, s.load_ns[queue] + s.change_ns[queue]);
  return most_ns;
}

// Computes the makespan within its threshold, by the sweep or by the replay.
bool simulate(ReplayState& s, int64_t threshold_ns) {
  constexpr double kOfTheLast = 1.0 / 64;
  constexpr double kTasksAnEvent = 2;  // that take as long as an event
  const auto add = [](double& of, double value) { of += kOfTheLast * (value - of); };
  replay::SweepRecord& sweeps = s.sweeps;
  const bool sweeps_now = sweeps.saved >= sweeps.spent || ++sweeps.proposals >= s.options.sweep_every;
  replay::Verdict verdict = replay::Verdict::kUndecided;
  if (sweeps_now) {
    const int64_t swept = s.counts.swept;
    verdict = replay::sweep_tasks(s, threshold_ns);
    const bool undecided = verdict == replay::Verdict::kUndecided;
    add(sweeps.spent, undecided ? kTasksAnEvent * static_cast<double>(s.counts.swept - swept) : 0);
    add(sweeps.saved, undecided ? 0 : sweeps.taken);
    sweeps.proposals = 0;
  }
  if (verdict != replay::Verdict::kUndecided) return verdict == replay::Verdict::kWithin;
  const bool within = replay::replay_tasks(s, threshold_ns);
  s.counts.taken += static_cast<int64_t>(s.taken.size());
  add(sweeps.taken, static_cast<double>(s.taken.size()));
  return within;
}

}  // namespace

Replay::Replay(TaskGraph graph, const ReplayOptions& options) : state_(std::make_unique<ReplayState>()) {
  state_->options = options;
  restart(*state_, std::move(graph));
}
Replay::~Replay() = default;
Replay::Replay(Replay&&) noexcept = default;
Replay& Replay::operator=(Replay&&) noexcept = default;

std::optional<int64_t> Replay::evaluate(const Exchanges& exchanges, int64_t threshold_ns) {
  ReplayState& s = *state_;
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max() - 1'000'000'000;
  if (s.epoch > kMost || s.round > kMost) restart(s, std::move(s.graph));  // counts from 0 again
  replay::begin_evaluation(s, exchanges);
  if (most_load(s) > threshold_ns) {
    ++s.counts.by_loads;
    return std::nullopt;
  }
  replay::build_proposal(s);
  if (!replay::cut_queues(s, threshold_ns)) {
    ++s.counts.by_cut;
    return std::nullopt;
  }
  replay::bound_tails(s);
  s.exact = simulate(s, threshold_ns);
  if (!s.exact) return std::nullopt;
  ++s.counts.exact;
  return s.new_makespan_ns;
}

void Replay::commit() {
  ReplayState& s = *state_;
  ensure(s.exact, "only a proposal that was evaluated to its end can be committed");
  replay::commit_proposal(s);
  if (is_sparse(s)) restart(s, std::move(s.graph));
}

const TaskGraph& Replay::graph() const { return state_->graph; }
int64_t Replay::makespan_ns() const { return state_->makespan_ns; }
const std::vector<int64_t>& Replay::load_ns() const { return state_->load_ns; }
const ReplayCounts& Replay::counts() const { return state_->counts; }

Replay::Times Replay::times(int slot, int task) const {
  const size_t number = at(state_->task_of(slot, task));
  const replay::CommittedTimes& done = state_->done[number];
  const replay::Task& of = state_->tasks[number];
  return {done.ready_ns, done.end_ns - of.duration_ns, done.end_ns, of.tail_ns, of.place};
}

}  // namespace partita
