// Internal to predict/: tables by what they measure.
#pragma once
#include "partita/predict/predict.h"

namespace partita {

// A figure of a row; none where the cell is empty or the column missing. Bad input where it is no positive number.
std::optional<double> figure(const Table& table, size_t row, std::string_view column);
double needed_figure(const Table& table, size_t row, std::string_view column);
Prediction not_predicted(std::string why);

std::vector<Prediction> predict_collectives(const Table& table, const Cluster& cluster);
// On the cluster's first device.
std::vector<Prediction> predict_products(const Table& table, const Cluster& cluster);
std::vector<Prediction> predict_attention(const Table& table, const Cluster& cluster);
std::vector<Prediction> predict_memory(const Table& table, const Cluster& cluster);

}  // namespace partita
