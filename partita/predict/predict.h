// What the cost model says of what somebody measured: a row each, beside the measurement.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/cluster/cluster.h"
#include "partita/predict/table.h"

namespace partita {

struct Prediction {
  std::string kind, size;  // what it is summed up by: "all-reduce, 8 devices" and "1 MB and more"
  std::optional<double> predicted_us, measured_us;
  std::string algorithm;
  std::string why_not;  // where nothing is predicted
  // predicted / measured - 1; none where either is missing.
  std::optional<double> error() const;
};

// Of each row. Bad input where the table is of no kind that is known, or a cell is not what its column holds.
//   collectives  columns collective (all_reduce, all_gather, reduce_scatter, alltoall, sendrecv), bytes and gpus; and,
//                where they are known, nodes, and time_us, algbw_GBps or busbw_GBps. Bytes and rates count as in
//                nccl-tests: the whole buffer of a device.
//   products     columns m, n, k and dtype (bf16, fp16, fp32, fp64 and the like); and batch, time_us or tflops.
//   attention    columns pass (fwd, bwd, decode), head_dim and seq_q; and seq_kv, batch, heads_q, heads_kv, causal (1
//                or 0), dtype, impl, time_us or tflops. Half of the FLOPs count where it is causal, and 2.5 times as
//                many backward. Without batch and heads: FlashAttention's benchmark, 16,384 tokens and 2,048 features.
//   memory-bound columns kernel and bytes (read and written; empty: large arrays); and GBps or time_us, launch_mode.
// A row that the model cannot speak of is not predicted, and says why. So is a row whose column system or gpu names
// another device than the cluster's first: that lacks a word of the device type, or has one of a variant (PCIe, NVL),
// or, of kernels, another memory. What does not name the type counts where all rows have the same there (notes_of).
std::vector<Prediction> predict(const Table& table, const Cluster& cluster);

// What a person should know of how rows were taken.
std::vector<std::string> notes_of(const Table& table, const Cluster& cluster);

// Keeps rows whose column has a value like the pattern, where * stands for any text. `filter`: "system=HGX H100*".
void keep_rows(Table& table, const std::string& filter);

// The table with columns predicted_us, algorithm, error and not_predicted behind its own.
Table with_predictions(Table table, const std::vector<Prediction>& predictions);

// Errors of rows that have both figures.
struct Summary {
  std::string kind, size;
  int rows = 0;
  double median = 0;         // of |error|
  double signed_median = 0;  // of the error: below 0 where the model is too fast
  double most = 0;           // 90% of the rows are within this
  double factor = 1;         // median of the larger over the smaller
};
std::vector<Summary> summed_up(const std::vector<Prediction>& predictions);
// Rows with the largest errors by factor, the worst first.
std::vector<size_t> worst_rows(const std::vector<Prediction>& predictions, size_t count);

}  // namespace partita
