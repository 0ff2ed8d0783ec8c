// Counts micro-batches by a replica's samples, or by the number of stages.
#include "partita/pipeline/micro_batches.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/graph/batch.h"

namespace partita {

namespace {

constexpr int kMicroBatchesAStage = 4;  // a bubble of at most a fifth of the step

MicroBatchChoice of_size(int64_t size, int64_t batch, const Sharing& sharing) {
  const int64_t replicas = sharing.replicas;
  if (size > batch || batch % (replicas * size) != 0) {
    const int64_t next = (batch + replicas * size - 1) / (replicas * size) * replicas * size;
    fail(
        "a batch of {} is no multiple of {} replicas x micro-batches of {} samples (--micro-batch-size); --batch {} "
        "is, "
        "or give --micro-batches",
        batch, replicas, size, next);
  }
  const auto count = static_cast<int>(batch / (replicas * size));
  return {{count},
          false,
          fmt::format("{} micro-batches: a batch of {} on {} replicas, {} samples each time", count, batch, replicas,
                      size)};
}

MicroBatchChoice of_stages(int64_t batch, const Sharing& sharing) {
  const int64_t each = std::max<int64_t>(1, batch / sharing.replicas), least = kMicroBatchesAStage * sharing.stages;
  MicroBatchChoice choice{{}, true, ""};
  for (int64_t m = 1; m <= each; ++m) {
    if (each % m || m % sharing.multiple) continue;
    if (m >= least) choice.counts.push_back(static_cast<int>(m));
    else choice.fewer.insert(choice.fewer.begin(), static_cast<int>(m));
  }
  if (choice.fewer.empty() || choice.fewer.back() != 1) choice.fewer.push_back(1);
  if (choice.counts.empty()) choice.counts.push_back(choice.fewer.front()), choice.fewer.erase(choice.fewer.begin());
  choice.note = fmt::format("the least from {} x {} stages on that divide the {} samples of a replica and fit",
                            kMicroBatchesAStage, sharing.stages, each);
  return choice;
}

}  // namespace

MicroBatchChoice micro_batches_to_try(const Request& request, const Graph& whole, const Cluster& cluster) {
  if (request.micro_batches) return {{*request.micro_batches}, false, ""};
  const SearchChoice search = parse_search(request.search);
  const auto batch = find_batch(whole);
  if (request.micro_batch_size && !batch)
    fail("--micro-batch-size: model '{}' has no input with samples along axis 0; give --micro-batches", whole.name);
  if (!search.entry->sharing || !batch) return {{1}, false, ""};
  const Sharing sharing = search.entry->sharing({.graph = whole, .cluster = cluster, .options = search.options});
  if (request.micro_batch_size) return of_size(*request.micro_batch_size, *batch, sharing);
  if (sharing.stages == 1) return {{1}, false, ""};
  return of_stages(*batch, sharing);
}

std::string note_of(const MicroBatchChoice& choice, size_t i, const std::string& refused) {
  if (!choice.open) return choice.note;
  if (i < choice.counts.size()) return fmt::format("{} micro-batches: {}", choice.counts[i], choice.note);
  const int count = choice.fewer[i - choice.counts.size()];
  return count == 1 ? fmt::format("not in micro-batches, so that stages wait for each other: {}", refused)
                    : fmt::format("{} micro-batches, so that stages wait longer for each other: {}", count, refused);
}

bool groups_by_micro_batches(const Request& request) {
  const bool by_parts = request.batch_norm_groups == "micro" || request.batch_norm_groups == "replica";
  return by_parts && !request.micro_batches && !request.inference_only;
}

void validate_batch_norm_groups(const Request& request, const MicroBatchChoice& choice) {
  if (groups_by_micro_batches(request) && choice.counts != std::vector{1})
    throw Error(ExitCode::kUsage,
                fmt::format("--batch-norm-groups {} counts micro-batches; say how many there are with "
                            "--micro-batches",
                            request.batch_norm_groups));
}

}  // namespace partita
