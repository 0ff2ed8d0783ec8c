// Holds the command line as plain values, for the commands.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/pipeline/pipeline.h"

namespace partita {

struct Arguments {
  std::string command;
  std::string target;                // MODEL, PLAN, TDL text or name; may be empty if it is optional
  std::vector<std::string> targets;  // profile, compare: MODEL|PLAN..
  std::string name;                  // explain: of an op or a tensor; may be empty
  bool is_plan = false;              // train, run: the target is a plan; compare: all targets are
  Request request;
  bool json = false, nodes = false, verbose = false, no_shuffle = false;
  std::string output;              // -o
  std::string worklist;            // profile: --worklist
  std::string write_bound, bound;  // certificates: solve --write-bound, check --bound
  std::string trace;               // --trace
  std::string trace_devices;       // simulate: "all", "representatives"; empty: all if the trace is not too large
  std::string dump;                // --dump: a folder; empty: none
  std::string inputs;              // --inputs
  std::string data, test_data, weights, save, log;
  std::optional<int64_t> steps;
  std::optional<double> epochs;
  std::string verify;                     // "serial" or empty
  std::vector<std::string> shapes;        // tdl: --shape a=8,4
  std::vector<std::string> attributes;    // tdl: --attribute p=1
  int workers = 2;                        // tdl, ops: parts of a split
  std::vector<std::string> searches;      // compare
  bool measure = false;                   // compare: run the plans here
  std::optional<double> measure_seconds;  // compare: of each plan; profile: of each kernel
  std::vector<std::string> only;          // predict: COLUMN=TEXT
  std::string collective;                 // predict: of nccl-tests' output
  std::string format, place_objective;    // place
  bool contiguous = false;                // place
  int subgraphs = 1;                      // place: of each accelerator
};

// Tells whether a MODEL|PLAN is a plan.
bool is_plan_file(const std::string& target);

// Returns the hardware that --profile, --cluster and --devices name for a plan.
Hardware hardware_of(const Arguments& arguments);

// Throws a usage error (exit 2) with the message to print. Empty command: help was asked for and printed.
Arguments parse_arguments(int argc, const char* const* argv);

}  // namespace partita
