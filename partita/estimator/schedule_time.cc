// Runs a pipeline's lists of passes in time.
#include "partita/estimator/schedule_time.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

namespace {

class Run {
 public:
  Run(const Pipelining& pipelining, const std::vector<StageTimes>& stages)
      : pipelining_(pipelining),
        stages_(stages),
        micro_batches_(static_cast<size_t>(pipelining.micro_batches)),
        forward_(stages.size() * micro_batches_, kNotYet),
        backward_(forward_) {}

  ScheduleTime run() {
    std::vector<std::vector<ScheduledPass>> passes;
    for (int rank = 0; rank < pipelining_.ranks; ++rank) passes.push_back(passes_of(pipelining_, rank));
    std::vector<size_t> next(passes.size(), 0);
    std::vector<int64_t> free(passes.size(), 0);
    for (size_t s = 0; s < stages_.size(); ++s) free[s % free.size()] += stages_[s].before_ns;
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (size_t rank = 0; rank < passes.size(); ++rank)
        while (next[rank] < passes[rank].size()) {
          const ScheduledPass& pass = passes[rank][next[rank]];
          const int64_t ready = ready_ns(pass);
          if (ready == kNotYet) break;
          free[rank] = std::max(free[rank], ready) + time_of(pass);
          end_of(pass) = free[rank];
          ++next[rank];
          goes_on = true;
        }
    }
    ScheduleTime out;
    for (size_t s = 0; s < stages_.size(); ++s) {
      out.backward_end_ns.push_back(backward_[(s + 1) * micro_batches_ - 1]);
      out.end_ns = std::max(out.end_ns, out.backward_end_ns.back());
    }
    return out;
  }

 private:
  static constexpr int64_t kNotYet = -1;

  size_t at(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * micro_batches_ + static_cast<size_t>(micro_batch);
  }
  int64_t& end_of(const ScheduledPass& pass) {
    return (pass.backward ? backward_ : forward_)[at(pass.stage, pass.micro_batch)];
  }
  int64_t time_of(const ScheduledPass& pass) const {
    const StageTimes& stage = stages_[static_cast<size_t>(pass.stage)];
    if (pass.backward && pass.micro_batch + 1 == pipelining_.micro_batches) return stage.last_backward_ns;
    if (pass.backward) return pass.micro_batch == 0 ? stage.first_backward_ns : stage.backward_ns;
    return pass.micro_batch == 0 ? stage.first_forward_ns : stage.forward_ns;
  }
  // When what the pass reads is there; kNotYet: an earlier pass has not been run.
  int64_t ready_ns(const ScheduledPass& pass) const {
    const int stage = pass.stage, last = pipelining_.stages() - 1;
    const auto after = [&](int64_t end, int from) {
      return end == kNotYet ? kNotYet : end + stages_[static_cast<size_t>(from)].send_ns;
    };
    if (!pass.backward) return stage == 0 ? 0 : after(forward_[at(stage - 1, pass.micro_batch)], stage - 1);
    const int64_t own = forward_[at(stage, pass.micro_batch)];
    if (stage == last || own == kNotYet) return own;
    return after(backward_[at(stage + 1, pass.micro_batch)], stage);
  }

  const Pipelining& pipelining_;
  const std::vector<StageTimes>& stages_;
  size_t micro_batches_;
  std::vector<int64_t> forward_, backward_;  // ends, by virtual stage and micro-batch
};

}  // namespace

ScheduleTime schedule_time(const Pipelining& pipelining, const std::vector<StageTimes>& stages) {
  ensure(static_cast<int>(stages.size()) == pipelining.stages(), "{} stages, and times of {}", pipelining.stages(),
         stages.size());
  // A pipeline is in its steady state after a few rounds of its ranks. From then on each round adds the same time.
  constexpr int kRounds = 4;
  const int m = pipelining.micro_batches, ranks = pipelining.ranks, few = kRounds * ranks + m % ranks;
  if (m <= few + ranks) return Run(pipelining, stages).run();
  Pipelining shorter = pipelining, longer = pipelining;
  shorter.micro_batches = few, longer.micro_batches = few + ranks;
  const ScheduleTime before = Run(shorter, stages).run();
  ScheduleTime out = Run(longer, stages).run();
  const int64_t rounds = (m - longer.micro_batches) / ranks;
  out.end_ns += rounds * (out.end_ns - before.end_ns);
  for (size_t s = 0; s < out.backward_end_ns.size(); ++s)
    out.backward_end_ns[s] += rounds * (out.backward_end_ns[s] - before.backward_end_ns[s]);
  return out;
}

}  // namespace partita
