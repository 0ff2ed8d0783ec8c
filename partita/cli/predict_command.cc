// predict: compares the cost model with a table of measurements.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/output_file.h"
#include "partita/base/tell.h"
#include "partita/cli/commands.h"
#include "partita/predict/predict.h"

namespace partita {

using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kWorst = 10;

Table read_measurements(const Arguments& a) {
  const std::string text = read_file(a.target);
  const bool log = is_nccl_tests(text);
  if (!log && !a.collective.empty())
    fail("--collective is for the output of nccl-tests; {} is a table, whose column says it", a.target);
  Table table = log ? parse_nccl_tests(text, a.target, a.collective) : parse_csv(text, a.target);
  for (const std::string& filter : a.only) keep_rows(table, filter);
  return table;
}

std::string percent(double part) { return fmt::format("{:.1f}%", 100 * part); }

// A row as a person finds it again: its line, and its subject.
std::string shown(const Table& table, size_t row) {
  std::vector<std::string> cells;
  for (const char* column :
       {"system",   "gpu",      "impl",  "collective", "gpus",   "nodes", "kernel", "pass", "batch", "heads_q",
        "heads_kv", "head_dim", "seq_q", "seq_kv",     "causal", "m",     "n",      "k",    "dtype", "bytes"})
    if (const std::string& cell = table.cell(row, column); !cell.empty())
      cells.push_back(fmt::format("{} {}", column, cell));
  return fmt::format("line {}: {}", table.lines[row], fmt::join(cells, ", "));
}

void print_summary(const Table& table, const std::vector<Prediction>& predictions) {
  const std::vector<Summary> summaries = summed_up(predictions);
  if (summaries.empty()) {
    const auto rows =
        std::count_if(predictions.begin(), predictions.end(), [](const Prediction& p) { return p.predicted_us; });
    fmt::print("{} row{} predicted, none of which has a time to compare with; -o FILE writes what is predicted\n", rows,
               rows > 1 ? "s" : "");
    return;
  }
  fmt::print("{:<40} {:<18} {:>5} {:>14} {:>14} {:>7} {:>14}\n", "kind", "size", "rows", "median |error|", "90% within",
             "factor", "signed median");
  for (const Summary& s : summaries)
    fmt::print("{:<40} {:<18} {:>5} {:>14} {:>14} {:>7.2f} {:>14}\n", s.kind, s.size, s.rows, percent(s.median),
               percent(s.most), s.factor, fmt::format("{:+.1f}%", 100 * s.signed_median));
  fmt::print(
      "error: predicted / measured - 1, below 0 where the model is too fast; 90% within: of |error|; factor: the "
      "median of the larger over the smaller\n\nfarthest off:\n");
  for (size_t r : worst_rows(predictions, kWorst)) {
    const Prediction& p = predictions[r];
    const std::string by = p.algorithm.empty() ? "" : fmt::format(" ({})", p.algorithm);
    fmt::print("  {}: {:.4g} us predicted{}, {:.4g} us measured\n", shown(table, r), *p.predicted_us, by,
               *p.measured_us);
  }
}

void print_left_out(const std::vector<Prediction>& predictions) {
  std::vector<std::pair<std::string, int>> reasons;
  for (const Prediction& p : predictions) {
    if (p.why_not.empty()) continue;
    auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == p.why_not; });
    if (known == reasons.end()) reasons.emplace_back(p.why_not, 1);
    else ++known->second;
  }
  for (const auto& [why, rows] : reasons) fmt::print("not predicted: {} row{}: {}\n", rows, rows > 1 ? "s" : "", why);
}

Json summary_json(const Table& table, const std::vector<Prediction>& predictions,
                  const std::vector<std::string>& notes) {
  Json summaries = Json::array(), worst = Json::array();
  for (const Summary& s : summed_up(predictions))
    summaries.push_back({{"kind", s.kind},
                         {"size", s.size},
                         {"rows", s.rows},
                         {"median_error", s.median},
                         {"median_signed_error", s.signed_median},
                         {"error_of_90_percent", s.most},
                         {"median_factor", s.factor}});
  for (size_t r : worst_rows(predictions, kWorst))
    worst.push_back({{"line", table.lines[r]},
                     {"predicted_us", *predictions[r].predicted_us},
                     {"measured_us", *predictions[r].measured_us},
                     {"algorithm", predictions[r].algorithm}});
  const auto left_out = std::count_if(predictions.begin(), predictions.end(),
                                      [](const Prediction& p) { return !p.predicted_us.has_value(); });
  return {{"rows", predictions.size()},
          {"not_predicted", left_out},
          {"summary", summaries},
          {"worst", worst},
          {"notes", notes}};
}

}  // namespace

int predict_command(const Arguments& a) {
  const Cluster cluster = load_cluster(a.request.cluster, a.request.devices);
  const Table table = read_measurements(a);
  const std::vector<Prediction> predictions = predict(table, cluster);
  if (std::none_of(predictions.begin(), predictions.end(), [](const Prediction& p) { return p.predicted_us; }))
    fail("{}: nothing is predicted: {}", a.target,
         predictions.empty() ? "it has no rows"
                             : fmt::format("of {} rows the first, in line {}: {}", predictions.size(), table.lines[0],
                                           predictions[0].why_not));
  const std::vector<std::string> notes = notes_of(table, cluster);
  for (const std::string& note : notes) tell("{}", note);
  if (!a.output.empty()) write_file(a.output, print_csv(with_predictions(table, predictions)));
  if (a.json) {
    print_json(summary_json(table, predictions, notes));
    return 0;
  }
  print_summary(table, predictions);
  print_left_out(predictions);
  if (!a.output.empty()) fmt::print("wrote {}\n", a.output);
  return 0;
}

}  // namespace partita
