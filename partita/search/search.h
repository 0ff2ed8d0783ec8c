// One small interface for every search: a Problem in, a Plan and what is known about it out.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/rng.h"
#include "partita/base/watch.h"
#include "partita/plan/plan.h"

namespace partita {

struct BoundProof;

// Of a search that can say what it has so far: bytes, or ns of a plan's parts one after another where the objective is
// time.
struct SearchProgress {
  std::optional<int64_t> cost;   // of the best plan so far
  std::optional<int64_t> bound;  // proved so far, for every plan of the search's space
  double seconds = 0;            // since the search began
};

struct Problem {
  const Graph& graph;
  const Cluster& cluster;
  std::string objective = "comm";  // or "time"
  Pins pins;
  std::map<std::string, std::string> options;  // of --search 'NAME?key=value,..'
  // A plan to begin with, which the checker accepts: where it fits and keeps the pins, no dearer one is returned. Only
  // for searches that say that they are `warm`.
  const Plan* from = nullptr;
  bool prove = false;                                             // give the lower bound's proof with it
  std::function<void(const SearchProgress&)> progress = nullptr;  // called now and then, from the search's own thread
  std::function<Graph(int64_t samples)> with_batch =
      nullptr;  // the same training step of so many samples; empty: it cannot be had
  std::function<void(const std::string&)> tell =
      nullptr;  // what a search of several parts is at, a line each, from its own thread

  bool in_time() const { return objective == "time"; }
};

// A search stops at whichever comes first, with the best plan so far; without any it runs to its end. Where there is
// none yet it throws: exit code 130 after `stop`, else 5.
struct Budget {
  std::optional<double> seconds;
  std::optional<int64_t> steps;
  const std::atomic<bool>* stop = nullptr;  // becomes true, say by Ctrl-C
  double gap = 0;  // relative: a plan that is proved to be so near to the least will do, where a bound is proved
  std::optional<Watch::Clock::time_point> deadline =
      std::nullopt;  // where there is one, in place of `seconds` from when the search begins

  bool stopped() const { return stop && *stop; }
  // Of the time that is left once a search has something to solve; all of it where no plan that fits was found by then.
  // Only `exact` asks.
  double share = 1;

  // Asked when the search begins.
  Watch watch() const;
};

// What a way of training that no Plan can say comes to on the cluster, by the simulator.
struct Estimate {
  int64_t batch = 0;  // samples a step, all devices together
  int64_t step_time_ns = 0;
  int64_t peak_memory_bytes = 0;  // of the device that needs most
  int64_t host_bytes = 0;  // between devices and the memory of their hosts in a step, all devices together and both
                           // ways; inputs are not in it
};

struct SearchResult {
  std::optional<Plan> plan;
  std::optional<Estimate> estimate;               // in place of a plan
  std::string reason;                             // why there is no plan
  std::optional<int64_t> lower_bound_comm_bytes;  // proved for every plan of the search's space
  std::optional<int64_t> lower_bound_serial_ns;   // the same where the objective is time: of serial_ns
                                                  // (partita/cost/alone.h), not of the step
  std::shared_ptr<BoundProof>
      proof;  // of a bound, where Problem::prove asks for it and there is one (partita/search/bound_proof.h)
  std::map<std::string, double> counters;  // what it looked at, by name
  std::vector<std::string> notes;          // lines for the reader, "cut 1 over 2: delta 7.2 MB"
};

class Searcher {
 public:
  virtual ~Searcher() = default;
  virtual SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) const = 0;
};

// How `auto` begins with a search.
struct AutoBegin {
  double (*work)(const Problem&) = nullptr;  // about how many seconds it takes; null: auto does not begin with it
  std::vector<std::string> every;  // options of which it tries every value; "N": every divisor of the device count
  bool (*quick)(const Problem&, const Budget&) = nullptr;  // whether it is asked on this problem; null: always
};

struct SearchEntry {
  std::string name, source, summary;
  // option -> its values, the default first; the last: "N", or a positive number; "PxQ", or a mesh's extents, the
  // innermost last
  std::map<std::string, std::vector<std::string>> options;
  std::unique_ptr<Searcher> (*make)();
  AutoBegin begins_auto = {};
  bool warm = false;       // begins with Problem::from
  bool proves = false;     // its lower bound has a proof
  bool estimates = false;  // it has an Estimate where others have a plan: what it stands for cannot be written or run
};
// Every search that there is, by name.
const std::vector<SearchEntry>& searches();
std::map<std::string, std::string> default_options(const SearchEntry& entry);
// With every value of those options that AutoBegin names, defaults elsewhere.
std::vector<std::map<std::string, std::string>> options_for_auto(const SearchEntry& entry, const Cluster& cluster);
// "soybean?tilings=all" -> its entry and options, defaults filled in. Usage error (exit 2) for an unknown name, option
// or value, naming the known ones.
struct SearchChoice {
  const SearchEntry* entry = nullptr;
  std::map<std::string, std::string> options;
};
SearchChoice parse_search(std::string_view text);
// Other names of searches, and what they stand for: "fsdp" is "zero?stage=3".
const std::map<std::string, std::string>& search_aliases();
std::vector<int> extents_of(const std::string& value);  // "16x128x8", of such an option; empty where it is none
std::string text_of(const SearchChoice& choice);        // as parse_search() takes it, without defaults

}  // namespace partita
