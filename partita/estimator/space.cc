// Enumerates configurations, degree by degree.
#include "partita/estimator/space.h"

#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/plan/rules.h"

namespace partita {

namespace {

std::vector<int> divisors(int of) {
  std::vector<int> out;
  for (int d = 1; d <= of; ++d)
    if (of % d == 0) out.push_back(d);
  return out;
}

// 1, 2, 4, .. and all.
std::vector<int64_t> micro_batch_sizes_of(int64_t samples) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < samples; size *= 2)
    if (samples % size == 0) sizes.push_back(size);
  sizes.push_back(samples);
  return sizes;
}

class Explorer {
 public:
  Explorer(Estimator& estimator, const Cluster& cluster, const Watch& watch)
      : estimator_(estimator), watch_(watch), devices_(cluster.compute_count), node_(node_size(cluster)) {
    capacity_ = cluster.devices[0].memory_bytes;
    for (int d = 1; d < devices_; ++d)
      capacity_ = std::min(capacity_, cluster.devices[static_cast<size_t>(d)].memory_bytes);
  }

  EstimatedSpace explore() {
    for (const int tensor : divisors(std::min(node_, devices_)))
      for (const int expert : divisors(estimator_.experts() > 0 ? estimator_.experts() : 1))
        for (const bool sequence : {false, true}) {
          if (devices_ % (tensor * expert) || (sequence && tensor == 1)) continue;
          Configuration c;
          c.tensor = tensor, c.expert = expert, c.sequence = sequence;
          if (!watch_.ended()) over_recomputation(c);
        }
    space_.whole = !watch_.ended();
    space_.capacity_bytes = capacity_;
    const auto key = [&](const EstimatedConfiguration& c) { return std::pair(c.deficit_bytes(capacity_), c.step_ns); };
    std::ranges::stable_sort(space_.all, [&](const auto& a, const auto& b) { return key(a) < key(b); });
    for (const EstimatedConfiguration& c : space_.all) space_.fitting += c.memory_bytes <= capacity_;
    return std::move(space_);
  }

 private:
  void over_recomputation(Configuration c) {
    for (const std::string& kind : {"none", "cheap", "attention", "layer"}) {
      c.recompute = kind;
      // The sizes that some number of replicas allows, the smallest first.
      const int64_t most = estimator_.batch() / c.expert;
      for (const int64_t size : micro_batch_sizes_of(most)) {
        if (most % size) continue;
        c.micro_batch_size = size;
        fits_ = estimated_ = false;
        over_pipelines(c);
        if (watch_.ended() || (estimated_ && !fits_)) break;
      }
    }
  }

  void over_pipelines(Configuration c) {
    for (const int ranks : divisors(devices_ / (c.tensor * c.expert))) {
      if (ranks > estimator_.layers()) break;
      c.pipeline = ranks;
      c.data = devices_ / (c.tensor * c.expert * ranks);
      const int64_t samples = c.micro_batch_size * c.replicas();
      if (estimator_.batch() % samples) continue;
      c.micro_batches = static_cast<int>(estimator_.batch() / samples);
      if (c.micro_batches < ranks) continue;  // ranks that wait for each other
      for (const int chunks : {1, 2, 4, 8}) {
        if (chunks > 1 && (ranks == 1 || c.micro_batches % ranks || estimator_.layers() % (ranks * chunks))) continue;
        c.virtual_stages = chunks;
        c.schedule = ranks == 1 ? Schedule::kDefault : chunks > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
        over_zero(c);
      }
    }
  }

  void over_zero(Configuration c) {
    const int last = c.replicas() == 1 ? 0 : c.pipeline == 1 ? 3 : 1;
    for (c.zero = 0; c.zero <= last && !watch_.ended(); ++c.zero) add(c);
  }

  void add(const Configuration& c) {
    try {
      const ConfigurationEstimate estimate = estimator_.estimate(c);
      const RankEstimate& slowest = *std::ranges::max_element(
          estimate.ranks, [](const RankEstimate& a, const RankEstimate& b) { return a.compute_ns < b.compute_ns; });
      space_.all.push_back({c, estimate.step_ns, estimate.memory_bytes, slowest});
      estimated_ = true;
      fits_ = fits_ || estimate.memory_bytes <= capacity_;
    } catch (const DoesNotApply& error) {
      ++space_.refused[error.what()];
    }
  }

  Estimator& estimator_;
  const Watch& watch_;
  const int devices_, node_;
  int64_t capacity_ = 0;
  bool fits_ = false, estimated_ = false;  // some configuration with this micro-batch
  EstimatedSpace space_;
};

}  // namespace

EstimatedSpace estimate_space(Estimator& estimator, const Cluster& cluster, const Watch& watch) {
  return Explorer(estimator, cluster, watch).explore();
}

std::vector<const EstimatedConfiguration*> frontier(const EstimatedSpace& space) {
  std::vector<const EstimatedConfiguration*> out;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < space.fitting; ++i)  // by step
    if (space.all[i].memory_bytes < least) {
      least = space.all[i].memory_bytes;
      out.push_back(&space.all[i]);
    }
  return out;
}

}  // namespace partita
