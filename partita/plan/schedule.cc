// Lists the work of each rank under a schedule, and runs the lists in unit time.
#include "partita/plan/schedule.h"

#include <algorithm>

#include "partita/base/enum_words.h"
#include "partita/base/error.h"

namespace partita {
namespace {

constexpr EnumWords<Schedule::kInterleaved> kSchedules({"default", "gpipe", "1f1b", "interleaved"});

// Counts the forwards of a rank before the first that a backward follows.
int warm_up(const Pipelining& p, int rank) {
  const int behind = p.ranks - 1 - rank, all = p.micro_batches * p.virtual_stages;
  switch (p.schedule) {
    case Schedule::kDefault:
      return 0;
    case Schedule::kGpipe:
      return all;
    case Schedule::k1F1B:
      return std::min(all, behind > 0 ? behind + p.more_in_flight : 0);
    case Schedule::kInterleaved:
      return std::min(all, 2 * behind + (p.virtual_stages - 1) * p.ranks);
  }
  ensure(false, "no schedule {}", static_cast<int>(p.schedule));
  return 0;
}

// Returns the rank's k-th forward or backward. With several virtual stages a rank, S micro-batches pass through all of
// them, then the next S: forward from the first on, backward from the last.
ScheduledPass pass_of(const Pipelining& p, int rank, int k, bool backward) {
  const int group = p.virtual_stages == 1 ? 1 : p.ranks, round = group * p.virtual_stages;
  const int turn = k % round / group;
  return {backward, (backward ? p.virtual_stages - 1 - turn : turn) * p.ranks + rank, k / round * group + k % group};
}

}  // namespace

std::vector<ScheduledPass> passes_of(const Pipelining& p, int rank) {
  const int all = p.micro_batches * p.virtual_stages, warm = warm_up(p, rank);
  std::vector<ScheduledPass> passes;
  passes.reserve(2 * static_cast<std::size_t>(all));
  for (int forwards = 0, backwards = 0; backwards < all;) {
    const bool forward = forwards < all && forwards - backwards <= warm;
    passes.push_back(pass_of(p, rank, forward ? forwards++ : backwards++, !forward));
  }
  return passes;
}

std::string_view name_of(Schedule schedule) { return kSchedules.of(schedule); }
std::optional<Schedule> find_schedule(std::string_view name) { return kSchedules.find(name); }
std::string schedule_words() { return fmt::format("{}", fmt::join(kSchedules.words, ", ")); }

std::optional<std::string> pipelining_error(const Pipelining& p) {
  if (p.ranks < 1 || p.virtual_stages < 1 || p.micro_batches < 1)
    return fmt::format("{} pipeline ranks, {} virtual stages and {} micro-batches: each is at least 1", p.ranks,
                       p.virtual_stages, p.micro_batches);
  if (p.schedule != Schedule::kInterleaved && p.virtual_stages > 1)
    return fmt::format("schedule '{}' has one stage a device, and not {} virtual ones: take '{}'", name_of(p.schedule),
                       p.virtual_stages, name_of(Schedule::kInterleaved));
  if (p.schedule == Schedule::kInterleaved && p.micro_batches % p.ranks != 0)
    return fmt::format(
        "schedule '{}' takes micro-batches in groups of as many as there are pipeline ranks, and {} is no multiple of "
        "{}: take a multiple, or '{}'",
        name_of(p.schedule), p.micro_batches, p.ranks, name_of(Schedule::k1F1B));
  return std::nullopt;
}

TickTable tick_table(const Pipelining& p) {
  const auto stages = static_cast<std::size_t>(p.stages());
  constexpr int kNotYet = -1;
  TickTable table;
  table.forward.assign(stages, std::vector<int>(p.micro_batches, kNotYet));
  table.backward = table.forward;
  std::vector<std::vector<ScheduledPass>> steps;
  for (int rank = 0; rank < p.ranks; ++rank) steps.push_back(passes_of(p, rank));
  // Over before this tick.
  const auto over = [&](int tick) { return tick != kNotYet && tick < table.length; };
  const auto ready = [&](const ScheduledPass& s) {
    const int n = s.micro_batch;
    if (!s.backward) return s.stage == 0 || over(table.forward[s.stage - 1][n]);
    return over(table.forward[s.stage][n]) && (s.stage + 1 == p.stages() || over(table.backward[s.stage + 1][n]));
  };
  std::vector<std::size_t> next(steps.size(), 0);
  for (std::size_t left = 2 * stages * static_cast<std::size_t>(p.micro_batches); left > 0; ++table.length) {
    const std::size_t before = left;
    for (std::size_t rank = 0; rank < steps.size(); ++rank) {
      if (next[rank] == steps[rank].size() || !ready(steps[rank][next[rank]])) continue;
      const ScheduledPass& s = steps[rank][next[rank]++];
      (s.backward ? table.backward : table.forward)[s.stage][s.micro_batch] = table.length;
      --left;
    }
    ensure(left < before, "schedule '{}' of {} ranks x {} chunks and {} micro-batches does not end",
           name_of(p.schedule), p.ranks, p.virtual_stages, p.micro_batches);
  }
  return table;
}

int in_flight(const Pipelining& p, int rank) {
  return std::min(p.micro_batches * p.virtual_stages, warm_up(p, rank) + 1);
}

double bubble(const Pipelining& p) {
  const double idle = p.ranks - 1;
  if (p.schedule == Schedule::kDefault) return idle / p.ranks;
  return idle / (p.micro_batches * p.virtual_stages + idle);
}

}  // namespace partita
