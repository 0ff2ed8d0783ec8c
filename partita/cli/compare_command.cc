// compare: a row a search.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/cli/commands.h"
#include "partita/cli/interrupt.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

template <typename T>
std::string or_dash(fmt::format_string<const T&> format, const std::optional<T>& value) {
  return value ? fmt::format(format, *value) : "-";
}

}  // namespace

int compare_command(const Arguments& a) {
  const CatchInterrupt caught;  // the rows so far are kept
  Json rows = Json::array();
  bool any = false;
  std::optional<Error> without;
  size_t width = 24;
  for (const std::string& search : a.searches) width = std::max(width, search.size());
  if (!a.json)
    fmt::print("{:<{}} {:>7} {:>14} {:>10} {:>10} {:>14} {:>10}\n", "search", width, "batch", "communication",
               "step time", "samples/s", "peak memory", "seconds");
  for (const std::string& search : a.searches) {
    Request request = a.request;
    request.search = search;
    request.budget.deadline.reset();  // each has its own time
    if (!request.from_file.empty() && !parse_search(search).entry->warm) {
      fmt::print(stderr, "{} cannot begin with a plan: it makes its own without {}\n", search, request.from_file);
      request.from_file.clear();
    }
    Runner runner;
    Planned p;
    try {
      if (interrupted) throw Error(ExitCode::kInterrupted, "interrupted before this search began");
      p = plan_watched(request, runner, false);
    } catch (const Error& e) {
      // One search without a plan that fits is a row that says so; the others still count.
      if (e.code() == ExitCode::kBug || e.code() == ExitCode::kUsage || e.code() == ExitCode::kBadInput) throw;
      without = e;
      if (a.json) rows.push_back({{"search", search}, {"reason", e.what()}});
      else fmt::print("{:<{}} no plan: {}\n", search, width, e.what());
      continue;
    }
    any = true;
    if (const int parts = p.plan.model.micro_batches; parts > 1 && !a.json)
      fmt::print(stderr, "{}: {} micro-batches\n", search, parts);
    if (const std::string groups = batch_norm_groups_text(p); !groups.empty() && !a.json)
      fmt::print(stderr, "{}: {}\n", search, groups);
    if (a.json) rows.push_back(plan_json(p, ""));
    else
      fmt::print("{:<{}} {:>7} {:>14} {:>10} {:>10} {:>14} {:>10.3f}\n", search, width, or_dash("{}", p.batch()),
                 megabytes(static_cast<double>(p.report.comm_bytes)), time_text(static_cast<double>(p.step_time_ns())),
                 or_dash("{:.2f}", p.samples_per_second()), megabytes(static_cast<double>(p.peak_memory_bytes())),
                 p.search_seconds);
    std::fflush(stdout);
  }
  if (a.json) print_json({{"rows", rows}});
  return !without || (any && !interrupted) ? 0 : static_cast<int>(without->code());
}

}  // namespace partita
