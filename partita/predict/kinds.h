// Internal to predict/: tables by what they measure.
#pragma once
#include <functional>

#include "partita/predict/predict.h"

namespace partita {

// Thrown by what reads a row that is not to be predicted; by_row catches it. Bad input is another thing: an Error.
struct LeftOut {
  std::string why;
};
[[noreturn]] void leave_out(std::string why);
Prediction not_predicted(std::string why);
// `of` of each row; not predicted where it leaves the row out.
std::vector<Prediction> by_row(const Table& table, const std::function<Prediction(size_t row)>& of);

// What was measured: none where the cell is empty, the column missing, or the figure 0 (rates are rounded). Bad input
// where it is no number, or below 0.
std::optional<double> measurement(const Table& table, size_t row, std::string_view column);
// Bytes; none where the cell is empty or the column missing. A row with none or too many to mean is left out.
std::optional<double> bytes_in(const Table& table, size_t row);
// A count of what the row is of: so too, and bad input where it is no whole number.
std::optional<double> count_in(const Table& table, size_t row, std::string_view column);
// Left out where there is none.
double needed_count(const Table& table, size_t row, std::string_view column);

// Letters and digits that stand together, in capitals: "A100-SXM4-80GB" has A100, SXM4 and 80GB.
std::vector<std::string> words_of(std::string_view text);

// By row: why it is of other devices than the cluster's; empty where it is not. `kernels`: memory matters.
std::vector<std::string> of_other_devices(const Table& table, const Cluster& cluster, bool kernels);

std::vector<Prediction> predict_collectives(const Table& table, const Cluster& cluster);
// On the cluster's first device.
std::vector<Prediction> predict_products(const Table& table, const Cluster& cluster);
std::vector<Prediction> predict_attention(const Table& table, const Cluster& cluster);
std::vector<Prediction> predict_memory(const Table& table, const Cluster& cluster);

}  // namespace partita
