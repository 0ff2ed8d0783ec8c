// Counts micro-batches by a replica's samples, or by what stages want.
#include "partita/micro_batches.h"

#include <algorithm>
#include <chrono>

#include "partita/base/error.h"
#include "partita/graph/batch.h"

namespace partita {

namespace {

constexpr int kMicroBatchesAStage = 4;  // a bubble of at most a fifth of the step

MicroBatchChoice of_size(int64_t size, int64_t batch, const Sharing& sharing) {
  const int64_t replicas = sharing.replicas;
  if (size > batch || batch % (replicas * size) != 0) {
    const int64_t next = (batch + replicas * size - 1) / (replicas * size) * replicas * size;
    fail(
        "a batch of {} is no multiple of {} replicas x micro-batches of {} samples (--micro-batch-size); --batch {} "
        "is, "
        "or give --micro-batches",
        batch, replicas, size, next);
  }
  const auto count = static_cast<int>(batch / (replicas * size));
  return {{count},
          false,
          fmt::format("{} micro-batches: a batch of {} on {} replicas, {} samples each time", count, batch, replicas,
                      size)};
}

MicroBatchChoice of_stages(int64_t batch, const Sharing& sharing) {
  const int64_t each = std::max<int64_t>(1, batch / sharing.replicas), least = kMicroBatchesAStage * sharing.stages;
  MicroBatchChoice choice{{}, true, ""};
  for (int64_t m = 1; m <= each; ++m) {
    if (each % m || m % sharing.multiple) continue;
    if (m >= least) choice.counts.push_back(static_cast<int>(m));
    else choice.fewer.insert(choice.fewer.begin(), static_cast<int>(m));
  }
  if (choice.fewer.empty() || choice.fewer.back() != 1) choice.fewer.push_back(1);
  if (choice.counts.empty()) choice.counts.push_back(choice.fewer.front()), choice.fewer.erase(choice.fewer.begin());
  choice.note = fmt::format("the least from {} x {} stages on that divide the {} samples of a replica and fit",
                            kMicroBatchesAStage, sharing.stages, each);
  return choice;
}

}  // namespace

MicroBatchChoice micro_batches_to_try(const Request& request, const Graph& whole, const Cluster& cluster) {
  if (request.micro_batches) return {{*request.micro_batches}, false, ""};
  const SearchChoice search = parse_search(request.search);
  const auto batch = find_batch(whole);
  if (request.micro_batch_size && !batch)
    fail("--micro-batch-size: model '{}' has no input with samples along axis 0; give --micro-batches", whole.name);
  if (!search.entry->sharing || !batch) return {{1}, false, ""};
  const Sharing sharing = search.entry->sharing({.graph = whole, .cluster = cluster, .options = search.options});
  if (request.micro_batch_size) return of_size(*request.micro_batch_size, *batch, sharing);
  if (sharing.stages == 1) return {{1}, false, ""};
  return of_stages(*batch, sharing);
}

std::string note_of(const MicroBatchChoice& choice, size_t i, const std::string& refused) {
  if (!choice.open) return choice.note;
  if (i < choice.counts.size()) return fmt::format("{} micro-batches: {}", choice.counts[i], choice.note);
  const int count = choice.fewer[i - choice.counts.size()];
  return count == 1 ? fmt::format("not in micro-batches, so that stages wait for each other: {}", refused)
                    : fmt::format("{} micro-batches, so that stages wait longer for each other: {}", count, refused);
}

size_t next_to_try(const MicroBatchChoice& choice, size_t i, double took_s, std::optional<double> left_s) {
  constexpr double kThatFits = 1;  // more of them: a plan that fits is simulated too
  const size_t last = choice.counts.size() - 1;
  const bool is_short = left_s && *left_s < (static_cast<double>(last - i) + kThatFits) * took_s;
  return is_short ? last : i + 1;
}

namespace {

using PlanCount = std::function<Planned(int)>;

double seconds_since(Watch::Clock::time_point begin) {
  return std::chrono::duration<double>(Watch::Clock::now() - begin).count();
}

// The counts of a choice, those to be tried first in front.
std::vector<int> all_counts(const MicroBatchChoice& choice) {
  std::vector<int> all = choice.counts;
  all.insert(all.end(), choice.fewer.begin(), choice.fewer.end());
  return all;
}

struct FirstFit {
  Planned planned;
  size_t at = 0;      // of all_counts()
  std::string note;   // of that count
  double took_s = 0;  // to plan it
};

// More where fewer do not fit; fewer where the model cannot be worked on in so many parts. Where time is short, those
// that need least memory come next: the most.
FirstFit first_that_fits(const MicroBatchChoice& choice, const PlanCount& plan, const Watch& watch) {
  const std::vector<int> counts = all_counts(choice);
  std::string refused;  // the first of them, where it cannot be
  bool hurried = false;
  for (size_t i = 0;;) {
    const auto begin = Watch::Clock::now();
    try {
      Planned planned = plan(counts[i]);
      std::string note = note_of(choice, i, refused);
      if (hurried) note += "; fewer may fit too: time was short";
      return {std::move(planned), i, std::move(note), seconds_since(begin)};
    } catch (const DoesNotApply&) {
      throw;
    } catch (const Error& error) {
      const bool too_large = error.code() == ExitCode::kInfeasible && i + 1 < choice.counts.size(),
                 cannot_be = error.code() == ExitCode::kBadInput && choice.open && i + 1 < counts.size();
      if (!too_large && !cannot_be) throw;
      if (cannot_be && refused.empty()) refused = error.what();
      const size_t next = too_large ? next_to_try(choice, i, seconds_since(begin), watch.left()) : i + 1;
      hurried |= next > i + 1;
      i = next;
    }
  }
}

// None: the count does not fit, cannot be, or the time ended meanwhile.
std::optional<Planned> planned_if_it_fits(const PlanCount& plan, int count) try {
  return plan(count);
} catch (const Error& error) {
  if (error.code() == ExitCode::kBug) throw;
  return std::nullopt;
}

// Compares counts with the best so far.
class Comparison {
 public:
  Comparison(FirstFit& best, const PlanCount& plan, const Watch& watch)
      : best_(best), plan_(plan), watch_(watch), work_(work_of(best.planned)) {}

  void look_at(const std::vector<int>& counts) {
    constexpr double kOneMore = 2;       // times as long as the first, to be safe
    constexpr int64_t kLittle = 50'000;  // places in the orders of the plans
    for (const int count : counts) {
      const std::optional<double> left = watch_.left();
      if (watch_.stopped() || (left && *left < kOneMore * best_.took_s)) return;
      std::optional<Planned> other = planned_if_it_fits(plan_, count);
      if (!other) continue;
      compared_.push_back(count);
      work_ += work_of(*other);
      const bool is_shorter = other->step_time_ns() < best_.planned.step_time_ns();
      if (is_shorter) best_.planned = std::move(*other);
      else if (work_ > kLittle) return;
    }
  }
  const std::vector<int>& compared() const { return compared_; }

 private:
  static int64_t work_of(const Planned& p) { return static_cast<int64_t>(p.physical.order.size()); }

  FirstFit& best_;
  const PlanCount& plan_;
  const Watch watch_;
  int64_t work_;
  std::vector<int> compared_;
};

}  // namespace

Planned plan_in_micro_batches(const MicroBatchChoice& choice, bool compares, const PlanCount& plan,
                              const Watch& watch) {
  FirstFit best = first_that_fits(choice, plan, watch);
  std::string note = best.note;
  if (choice.open && compares) {
    const std::vector<int> counts = all_counts(choice);
    const int first = counts[best.at];
    const auto behind = [&](size_t begin, size_t end) {
      return std::vector<int>(counts.begin() + static_cast<std::ptrdiff_t>(std::min(begin, end)),
                              counts.begin() + static_cast<std::ptrdiff_t>(end));
    };
    Comparison comparison(best, plan, watch);
    comparison.look_at(behind(best.at + 1, choice.counts.size()));
    // Fewer than one that was tried first; those before another do not fit.
    if (best.at == 0 || best.at >= choice.counts.size())
      comparison.look_at(behind(std::max(best.at + 1, choice.counts.size()), counts.size()));
    const int taken = best.planned.plan.model.micro_batches;
    if (taken != first)
      note = fmt::format("{} micro-batches: the shortest step of those that were compared ({}, {})", taken, first,
                         fmt::join(comparison.compared(), ", "));
    else if (!comparison.compared().empty())
      note += fmt::format("; no shorter step with {}", fmt::join(comparison.compared(), ", "));
  }
  if (!note.empty()) best.planned.search.notes.insert(best.planned.search.notes.begin(), note);
  return std::move(best.planned);
}

}  // namespace partita
