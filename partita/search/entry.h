// Defines the entry of a search: its name, options and properties, and how others use it. It is declared beside its
// searcher, in the searcher's own file; the list (partita/search/all/searches.cc) has one line for it.
//
// Worked example: partita/search/cuts/mine.cc is a whole search once searches.cc has the line SEARCH(mine).
//
//   SearchEntry mine_search() {
//     return {.name = "mine",
//             .source = "ours",
//             .summary = "everything on the first device or on all",
//             .options = {{"devices", {"all", "N"}}},
//             .search = search,  // a Searcher of the file
//             .offers = {.initial = {.work = rule_work, .every = {"devices"}}}};
//   }
//
// `partita searches`, the command line, `auto` and the tests of all searches take it from the list.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/search/auto_offer.h"
#include "partita/search/search.h"

namespace partita {

// Estimates for InitialPlans::work (s). A rule weighs some strategies of each op. A search by cuts weighs all that
// divide an op, and the conversions between ops. Measured on one machine; only their order matters.
double rule_work(const Problem& problem);
double groups_work(const Problem& problem);  // for rules that divide layers too
double placed_work(const Problem& problem);  // for plans that differ on every device, and take longer to evaluate
double cuts_work(const Problem& problem);
// For InitialPlans::applies of searches that leave devices idle: idle devices cost no bytes.
bool counts_time(const Problem& problem, const Budget& budget);

// How the plans of a search share a step's batch: among equal replicas, each of so many stages.
struct Sharing {
  int replicas = 1, stages = 1;
  int multiple = 1;  // the micro-batches have to be a multiple of it
};
Sharing one_replica(const Problem& problem);  // for SearchEntry::sharing: the devices have the model once together

struct SearchEntry {
  std::string name, source, summary;
  // Option -> its values, the default first. The last value may stand for many: "N" for a positive number, "PxQ" for a
  // mesh's extents, the innermost last, "A-B" for numbers in a row.
  std::map<std::string, std::vector<std::string>> options = {};
  std::map<std::string, std::string> aliases = {};  // further names -> their options: "fsdp" is zero with "stage=3"
  Searcher* search = nullptr;
  AutoOffer offers = {};
  Sharing (*sharing)(const Problem&) = nullptr;  // null: the plan alone says it
  double seconds = 0;        // least time even for a small model, if nothing limits it; 0: no least time
  bool rule = false;         // a rule makes its plan (partita/plan/rules.h): remedies.cc tries it with other settings
  bool warm = false;         // starts from Problem::from
  bool proves = false;       // its lower bound has a proof
  bool whole_batch = false;  // plans a step without micro-batches alone
  bool places = false;       // places operations whole, each on a device that its type allows, groups of them together
  Objective measure = Objective::kComm;  // of Plan::paper_cost: bytes, or us
  bool estimates = false;  // has an Estimate in place of a plan, for a way of training that cannot be written or run
  bool may_have_replicas() const { return sharing != one_replica; }
  // Tells whether all its plans have whole operations; `auto` also has others.
  bool only_device_placement() const { return places && measure == Objective::kTime; }
};

std::map<std::string, std::string> default_options(const SearchEntry& entry);
// Returns every combination of the options that InitialPlans::every names, with defaults for the others.
std::vector<std::map<std::string, std::string>> options_for_auto(const SearchEntry& entry, const Cluster& cluster);
// Returns every combination of those that InitialPlans::further names too, without options_for_auto().
std::vector<std::map<std::string, std::string>> further_options(const SearchEntry& entry, const Problem& problem);

// Tells whether an option's value is a whole number from 1 to 999999.
bool is_count(const std::string& value);
// Returns the value of an option "PxQ": "16x128x8" -> {16, 128, 8}. Empty if it is none.
std::vector<int> extents_of(const std::string& value);
// Returns the value of an option "A-B": "19-21-19" -> {19, 21, 19}. Empty if it is none.
std::vector<int> counts_of(const std::string& value);

}  // namespace partita
