// Predicts measured kernels and collectives with the cost model, a row each, to show how well it is calibrated.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/predict/table.h"

namespace partita {

struct Prediction {
  std::string kind, size;  // the groups of its summary: "all-reduce, 8 devices" and "1 MB and more"
  std::optional<double> predicted_us, measured_us;
  std::string algorithm;
  std::string why_not;  // if nothing is predicted
  // predicted / measured - 1; none if either is missing.
  std::optional<double> error() const;
};

// Predicts each row. Bad input if the table is of no known kind, or a cell does not fit its column.
//   collectives  columns collective (all_reduce, all_gather, reduce_scatter, alltoall, sendrecv), bytes and gpus; and,
//                if they are known, nodes, and time_us, algbw_GBps or busbw_GBps. Bytes and rates count as in
//                nccl-tests: the whole buffer of a device.
//   products     columns m, n, k and dtype (bf16, fp16, fp32, fp64 and the like); and batch, time_us or tflops.
//   attention    columns pass (fwd, bwd, decode), head_dim and seq_q; and seq_kv, batch, heads_q, heads_kv, causal (1
//                or 0), dtype, impl, time_us or tflops. Half of the FLOPs count if it is causal, and 2.5 times as
//                many backward. Without batch and heads: FlashAttention's benchmark, 16,384 tokens and 2,048 features.
//   memory-bound columns kernel and bytes (read and written; empty: large arrays); and GBps or time_us, launch_mode.
// A row outside the model is not predicted, and says why. So is a row whose column system or gpu names another device
// than the cluster's first. Such a name lacks a word of the device type, or has one of a variant (PCIe, NVL). For
// kernels it may have another memory. A text without the type counts if all rows have the same there (notes_of).
std::vector<Prediction> predict(const Table& table, const Cluster& cluster);

// Returns notes on how rows were taken, for a person.
std::vector<std::string> notes_of(const Table& table, const Cluster& cluster);

// Keeps rows whose column has a value like the pattern, in which * stands for any text. `filter`: "system=HGX H100*".
void keep_rows(Table& table, const std::string& filter);

// Returns the table with columns predicted_us, algorithm, error and not_predicted behind its own.
Table with_predictions(Table table, const std::vector<Prediction>& predictions);

// Errors of rows that have both figures.
struct Summary {
  std::string kind, size;
  int rows = 0;
  double median = 0;         // of |error|
  double signed_median = 0;  // of the error: below 0 if the model is too fast
  double most = 0;           // 90% of the rows are within this
  double factor = 1;         // median of the larger over the smaller
};
std::vector<Summary> summed_up(const std::vector<Prediction>& predictions);
// Returns rows with the largest errors by factor, the worst first.
std::vector<size_t> worst_rows(const std::vector<Prediction>& predictions, size_t count);

}  // namespace partita
