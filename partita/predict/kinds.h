// Internal to predict/: declares the predictions of each kind of table.
#pragma once
#include <functional>

#include "partita/predict/predict.h"

namespace partita {

// Thrown by readers for a row that is not to be predicted; by_row catches it. Bad input is another thing: an Error.
struct LeftOut {
  std::string why;
};
[[noreturn]] void leave_out(std::string why);
Prediction not_predicted(std::string why);
// Returns `of` of each row; not predicted if it leaves the row out.
std::vector<Prediction> by_row(const Table& table, const std::function<Prediction(size_t row)>& of);

// Returns the measured figure: none if the cell is empty, the column missing, or the figure 0 (rates are rounded). Bad
// input if it is no number, or below 0.
std::optional<double> measurement(const Table& table, size_t row, std::string_view column);
// Returns bytes; none if the cell is empty or the column missing. A row with none or too many to mean is left out.
std::optional<double> bytes_in(const Table& table, size_t row);
// Returns a count in the row, in the same way; bad input if it is no whole number.
std::optional<double> count_in(const Table& table, size_t row, std::string_view column);
// Returns the count; the row is left out if there is none.
double needed_count(const Table& table, size_t row, std::string_view column);

// Returns letters and digits that stand together, in capitals: "A100-SXM4-80GB" has A100, SXM4 and 80GB.
std::vector<std::string> words_of(std::string_view text);

// Returns by row why it is of other devices than the cluster's; empty if it is not. `kernels`: memory matters.
std::vector<std::string> of_other_devices(const Table& table, const Cluster& cluster, bool kernels);

std::vector<Prediction> predict_collectives(const Table& table, const Cluster& cluster);
// Predicts on the cluster's first device.
std::vector<Prediction> predict_products(const Table& table, const Cluster& cluster);
std::vector<Prediction> predict_attention(const Table& table, const Cluster& cluster);
std::vector<Prediction> predict_memory_bound(const Table& table, const Cluster& cluster);

}  // namespace partita
