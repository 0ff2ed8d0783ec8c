// Enumerates configurations, degree by degree.
#include "partita/estimator/space.h"

#include <algorithm>
#include <set>

#include "partita/base/error.h"
#include "partita/plan/rules.h"
#include "partita/search/pipelines/stages.h"

namespace partita {

namespace {

std::vector<int> divisors(int of) {
  std::vector<int> out;
  for (int d = 1; d <= of; ++d)
    if (of % d == 0) out.push_back(d);
  return out;
}

class Explorer {
 public:
  Explorer(Estimator& estimator, const Cluster& cluster, const Watch& watch, const std::string& recompute)
      : estimator_(estimator),
        watch_(watch),
        recompute_(recompute),
        devices_(cluster.compute_count),
        node_(node_size(cluster)) {
    capacity_ = cluster.devices[0].memory_bytes;
    for (int d = 1; d < devices_; ++d)
      capacity_ = std::min(capacity_, cluster.devices[static_cast<size_t>(d)].memory_bytes);
  }

  EstimatedSpace explore() {
    std::vector<Configuration> shapes = all_shapes();
    for (const int64_t size : micro_batch_sizes()) {
      if (shapes.empty() || watch_.ended()) break;
      std::vector<Configuration> left;  // that may fit with a larger micro-batch
      for (size_t begin = 0; begin < shapes.size() && !watch_.ended(); begin += kTogether)
        estimate_shapes({shapes.begin() + static_cast<std::ptrdiff_t>(begin),
                         shapes.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kTogether, shapes.size()))},
                        size, left);
      shapes = std::move(left);
    }
    space_.whole = !watch_.ended();
    space_.capacity_bytes = capacity_;
    if (space_.all.empty()) estimate_some();
    sort();
    move_layers();
    return std::move(space_);
  }

  std::optional<EstimatedConfiguration> find() {
    const std::vector<Configuration> shapes = all_shapes();
    for (size_t i = shapes.size(); i-- > 0;) {
      space_.all.clear();
      add(over_pipelines(shapes[i]));
      sort();
      for (const EstimatedConfiguration& c : space_.all)
        if (static_cast<double>(c.memory_bytes) <= kSurelyFits * static_cast<double>(capacity_)) return c;
    }
    return std::nullopt;
  }

 private:
  static constexpr double kSurelyFits = 0.98;  // of the memory: most estimates are nearer to the plan's than this
  static constexpr size_t kTogether = 8;       // shapes whose costs are measured together, a fraction of a second

  // Estimates these shapes with micro-batches of so many samples.
  void estimate_shapes(const std::vector<Configuration>& shapes, int64_t size, std::vector<Configuration>& left) {
    std::vector<std::vector<Configuration>> of_shapes;
    std::vector<Configuration> all;
    for (Configuration shape : shapes) {
      shape.micro_batch_size = size;
      of_shapes.push_back(over_pipelines(shape));
      all.insert(all.end(), of_shapes.back().begin(), of_shapes.back().end());
    }
    estimator_.prepare(all, watch_);
    if (watch_.ended()) return;
    for (size_t i = 0; i < shapes.size(); ++i)
      if (of_shapes[i].empty() || add(of_shapes[i])) left.push_back(shapes[i]);
  }

  // 1, 2, 3, 4, 6, 8, 12, .. and for each number of replicas all of its samples.
  std::vector<int64_t> micro_batch_sizes() const {
    std::set<int64_t> sizes;
    for (int64_t size = 1; size <= estimator_.batch(); size *= 2) sizes.insert({size, 3 * size});
    for (const int replicas : divisors(devices_))
      if (estimator_.batch() % replicas == 0) sizes.insert(estimator_.batch() / replicas);
    std::erase_if(sizes, [&](int64_t size) { return estimator_.batch() % size != 0; });
    return {sizes.begin(), sizes.end()};
  }

  // All degrees and kinds of recomputation. Costs depend on these and on the micro-batch.
  std::vector<Configuration> all_shapes() const {
    std::vector<Configuration> shapes;
    for (const int tensor : divisors(std::min(node_, devices_)))
      for (const int expert : divisors(std::max(1, estimator_.experts())))
        for (const int context : contexts())
          for (const bool sequence : {false, true})
            for (const char* recompute : {"none", "cheap", "attention", "layer"}) {
              if (devices_ % (tensor * context * expert) || (sequence && tensor == 1)) continue;
              if (!recompute_.empty() && recompute_ != recompute) continue;
              Configuration c;
              c.tensor = tensor, c.context = context, c.expert = expert;
              c.sequence = sequence, c.recompute = recompute;
              shapes.push_back(c);
            }
    return shapes;
  }

  // Sequences are split if each device still has some thousands of tokens.
  std::vector<int> contexts() const {
    constexpr int64_t kLeast = 4096;
    std::vector<int> out{1};
    for (int context = 2; estimator_.tokens() / context >= kLeast && devices_ % context == 0; context *= 2)
      out.push_back(context);
    return out;
  }

  std::vector<Configuration> over_pipelines(Configuration c) const {
    std::vector<Configuration> out;
    for (const int ranks : divisors(devices_ / c.devices_of_replica())) {
      if (ranks > estimator_.layers()) break;
      c.pipeline = ranks;
      c.data = devices_ / (c.devices_of_replica() * ranks);
      const int64_t samples = c.micro_batch_size * c.replicas();
      if (estimator_.batch() % samples) continue;
      c.micro_batches = static_cast<int>(estimator_.batch() / samples);
      if (c.micro_batches < ranks) continue;  // ranks that wait for each other
      for (const int chunks : {1, 2, 4, 8}) {
        if (chunks > 1 && (ranks == 1 || c.micro_batches % ranks || estimator_.layers() < ranks * chunks)) continue;
        c.virtual_stages = chunks;
        c.schedule = ranks == 1 ? Schedule::kDefault : chunks > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
        const int last = c.replicas() == 1 ? 0 : c.pipeline == 1 ? 3 : 1;
        for (c.zero = 0; c.zero <= last; ++c.zero) out.push_back(c);
      }
    }
    return out;
  }

  EstimatedConfiguration estimated(const Configuration& c) {
    const ConfigurationEstimate estimate = estimator_.estimate(c);
    const RankEstimate& slowest = *std::ranges::max_element(
        estimate.ranks, [](const RankEstimate& a, const RankEstimate& b) { return a.compute_ns < b.compute_ns; });
    return {c, estimate.step_ns, estimate.memory_bytes, slowest};
  }

  // Tells whether a larger micro-batch may fit: one of these does without its gradients.
  bool add(const std::vector<Configuration>& configurations) {
    bool fits = false;
    for (const Configuration& c : configurations) try {
        space_.all.push_back(estimated(c));
        const EstimatedConfiguration& last = space_.all.back();
        fits = fits || last.memory_bytes - last.slowest.gradient_bytes <= capacity_;
      } catch (const DoesNotApply&) {  // degrees that the model cannot take
      }
    return fits;
  }

  // The shapes that need least memory are the last.
  void estimate_some() {
    std::vector<Configuration> shapes = all_shapes();
    for (size_t i = shapes.size(); i-- > 0;) {
      add(over_pipelines(shapes[i]));
      for (const EstimatedConfiguration& c : space_.all)
        if (c.memory_bytes <= capacity_) return;
    }
  }

  // Moves layers between the stages of the fastest pipelines.
  void move_layers() {
    constexpr size_t kPipelines = 10;
    constexpr int kMostStages = 32;  // more take long, and have few layers to move
    constexpr double kNear = 1.05;
    std::vector<EstimatedConfiguration> better;
    size_t pipelines = 0;
    for (size_t i = 0; i < space_.fitting && pipelines < kPipelines; ++i) {
      const EstimatedConfiguration& c = space_.all[i];
      if (static_cast<double>(c.step_ns) > kNear * static_cast<double>(space_.all[0].step_ns)) break;
      const int stages = c.configuration.pipelining().stages();
      if (stages == 1 || stages > kMostStages) continue;
      ++pipelines;
      EstimatedConfiguration moved = with_moved_layers(c);
      if (moved.step_ns < c.step_ns) better.push_back(std::move(moved));
    }
    space_.all.insert(space_.all.end(), better.begin(), better.end());
    if (!better.empty()) sort();
  }

  // Takes the move of one layer that shortens the step most, as long as there is one.
  EstimatedConfiguration with_moved_layers(EstimatedConfiguration best) {
    constexpr int kMoves = 16;
    const int stages = best.configuration.pipelining().stages();
    best.configuration.layers = even_layers(estimator_.layers(), stages);
    for (int move = 0; move < kMoves; ++move) {
      const EstimatedConfiguration before = best;
      for (size_t from = 0; from < before.configuration.layers.size(); ++from)
        for (size_t to = 0; to < before.configuration.layers.size(); ++to) {
          // A layer comes from a long stage at an end, where embedding and head are, or from the middle for these.
          const bool at_end =
              from == 0 || to == 0 || from + 1 == static_cast<size_t>(stages) || to + 1 == static_cast<size_t>(stages);
          if (from == to || !at_end || before.configuration.layers[from] < 2) continue;
          Configuration c = before.configuration;
          --c.layers[from], ++c.layers[to];
          EstimatedConfiguration moved = estimated(c);
          if (moved.memory_bytes <= capacity_ && moved.step_ns < best.step_ns) best = std::move(moved);
        }
      if (best.step_ns == before.step_ns) break;
    }
    return best;
  }

  void sort() {
    space_.fitting = 0;
    const auto key = [&](const EstimatedConfiguration& c) { return std::pair(c.deficit_bytes(capacity_), c.step_ns); };
    std::ranges::stable_sort(space_.all, [&](const auto& a, const auto& b) { return key(a) < key(b); });
    for (const EstimatedConfiguration& c : space_.all) space_.fitting += c.memory_bytes <= capacity_;
  }

  Estimator& estimator_;
  const Watch watch_;
  const std::string recompute_;  // the only kind; empty: all
  const int devices_, node_;
  int64_t capacity_ = 0;
  EstimatedSpace space_;
};

}  // namespace

EstimatedSpace estimate_space(Estimator& estimator, const Cluster& cluster, const Watch& watch,
                              const std::string& recompute) {
  return Explorer(estimator, cluster, watch, recompute).explore();
}

std::optional<EstimatedConfiguration> find_fitting(Estimator& estimator, const Cluster& cluster) {
  return Explorer(estimator, cluster, {}, "layer").find();
}

}  // namespace partita
