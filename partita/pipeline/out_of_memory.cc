// Tries fewer buckets and other numbers of micro-batches, for the pipeline, by the reason why a plan failed.
#include "partita/pipeline/out_of_memory.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace partita {

ChosenOrder choose_order_within_memory(Planned& p, const Representatives& from, Buckets buckets,
                                       const ChooseOrderOptions& choosing) {
  if (buckets == Buckets::kStay) return choose_order(p.training, p.plan, *p.resolved, from, p.cluster, choosing);
  ChosenOrder chosen = choose_order_and_buckets(p.training, p.plan, p.resolved, from, p.cluster, choosing);
  if (p.resolved->bucket_bytes < p.plan.bucket_bytes) {
    p.plan.bucket_bytes = p.resolved->bucket_bytes;
    p.search.notes.push_back("gradients are exchanged one by one: with buckets of them the plan does not fit");
  }
  return chosen;
}

size_t next_to_try(const MicroBatchChoice& choice, size_t i, double took_s, std::optional<double> left_s) {
  constexpr double kThatFits = 1;  // more of them: a plan that fits is simulated too
  const size_t last = choice.counts.size() - 1;
  const bool is_short = left_s && *left_s < (static_cast<double>(last - i) + kThatFits) * took_s;
  return is_short ? last : i + 1;
}

namespace {

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

// Tries more if fewer do not fit, and fewer if the model cannot be divided into so many. If time is short, the count
// that needs least memory comes next: the most.
FirstFit first_that_fits(const MicroBatchChoice& choice, const PlanCount& plan, const Watch& watch) {
  const std::vector<int> counts = all_counts(choice);
  std::string refused;  // the first of them, if it cannot be
  bool hurried = false;
  for (size_t i = 0;;) {
    const auto begin = Watch::Clock::now();
    Attempt<Planned> made = plan(counts[i]);
    if (made.result) {
      std::string note = note_of(choice, i, refused);
      if (hurried) note += "; fewer may fit too: time was short";
      return {std::move(*made.result), i, std::move(note), seconds_since(begin)};
    }
    const bool too_large = made.failure == Failure::kDoesNotFit && i + 1 < choice.counts.size(),
               cannot_be = made.failure == Failure::kBadInput && choice.open && i + 1 < counts.size();
    if (!too_large && !cannot_be) made.rethrow();
    if (cannot_be && refused.empty()) refused = made.message;
    const size_t next = too_large ? next_to_try(choice, i, seconds_since(begin), watch.left()) : i + 1;
    hurried |= next > i + 1;
    i = next;
  }
}

// Tells whether other counts than the first that fits are planned: a rule makes the plans. Other searches take their
// time.
bool compares_counts(const Request& request) {
  const SearchChoice search = parse_search(request.search);
  const auto inner = search.options.find("inner");
  return search.entry->rule || (inner != search.options.end() && parse_search(inner->second).entry->rule);
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
      Attempt<Planned> other = plan_(count);
      if (!other.result) continue;
      compared_.push_back(count);
      work_ += work_of(*other.result);
      const bool is_shorter = other.result->step_time_ns() < best_.planned.step_time_ns();
      if (is_shorter) best_.planned = std::move(*other.result);
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

Planned plan_in_micro_batches(const Request& request, const MicroBatchChoice& choice, const PlanCount& plan,
                              const Watch& watch) {
  FirstFit best = first_that_fits(choice, plan, watch);
  std::string note = best.note;
  if (choice.open && compares_counts(request)) {
    const std::vector<int> counts = all_counts(choice);
    const int first = counts[best.at];
    const auto behind = [&](size_t begin, size_t end) {
      return std::vector<int>(counts.begin() + static_cast<std::ptrdiff_t>(std::min(begin, end)),
                              counts.begin() + static_cast<std::ptrdiff_t>(end));
    };
    Comparison comparison(best, plan, watch);
    comparison.look_at(behind(best.at + 1, choice.counts.size()));
    // Fewer are compared only with the count that was tried first; those before another do not fit.
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
