// Times kernels on drawn numbers, again and again, and takes the median.
#include "partita/measure/timing.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "partita/base/align.h"
#include "partita/base/error.h"
#include "partita/base/float16.h"
#include "partita/base/machine_memory.h"
#include "partita/base/rng.h"
#include "partita/base/units.h"
#include "partita/kernel_plan/kernel_plan.h"
#include "partita/measure/shared_cache.h"
#include "partita/physical/workspace.h"
#include "partita/runtime/typed.h"

namespace partita {

namespace {

using Clock = std::chrono::steady_clock;

// Calls f(expression) for an expression and all below it.
template <typename F>
void for_each_expr(const tdl::Expr& e, const F& f) {
  f(e);
  for (const tdl::Expr& arg : e.args) for_each_expr(arg, f);
}

// The numbers that an integer operand may have, as far as the formula shows: those of the index that it is compared
// with. Empty range: nothing is known.
Interval numbers_of(const KernelToTime& kernel, int tensor) {
  Interval found{0, 0};
  const tdl::Bound& bound = *kernel.work.bound;
  for (int s = kernel.work.first_stage; s < kernel.work.last_stage; ++s)
    for_each_expr(bound.stages[static_cast<size_t>(s)].body, [&](const tdl::Expr& e) {
      if (e.kind != tdl::ExprKind::kBinary || e.args.size() != 2) return;
      for (const int side : {0, 1}) {
        const tdl::Expr &read = e.args[side], &index = e.args[1 - side];
        if (read.kind == tdl::ExprKind::kRead && read.tensor == tensor && index.kind == tdl::ExprKind::kIndex)
          found = kernel.work.ranges[0][static_cast<size_t>(index.index)];
      }
    });
  return found;
}

// Memory of one call, and the call.
class Instance {
 public:
  Instance(const KernelToTime& kernel, Kernels& kernels, uint64_t seed) : rng_(seed) {
    task_.name = kernel.kernel.id.text();
    task_.work = kernel.work;
    for (const bool written : {false, true})
      for (const PlacedShard& shard : written ? kernel.writes : kernel.reads) {
        Access access;
        access.tensor = shard.tensor;
        (written ? task_.writes : task_.reads).push_back(access);
        (written ? call_.writes : call_.reads).push_back(view_of(shard));
        if (!written) fill(call_.reads.back(), numbers_.emplace_back(numbers_of(kernel, shard.tensor)), rng_);
      }
    call_.task = &task_;
    call_.work = std::get_if<KernelWork>(&task_.work);
    const KernelRequest request = request_of(*call_.work, call_.work->ranges[0], kernel.reads, kernel.writes);
    call_.scratch_bytes = static_cast<size_t>(plan_kernel(request).workspace_bytes());
    if (call_.scratch_bytes > 0) call_.scratch = allocate(call_.scratch_bytes);
    call_.outside = &outside_;
    call_.prepared = kernels.prepare_call(call_);
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  void run(Kernels& kernels) const { kernels.run(call_); }
  // Other whole numbers and truth values, as in a step of other samples: branches are not as they were.
  void draw_numbers() {
    for (size_t i = 0; i < call_.reads.size(); ++i)
      if (!is_float(call_.reads[i].dtype)) fill(call_.reads[i], numbers_[i], rng_);
  }

 private:
  std::byte* allocate(size_t bytes) {
    buffers_.emplace_back(bytes + kAlignBytes);
    const auto at = reinterpret_cast<uintptr_t>(buffers_.back().data());
    return buffers_.back().data() + (kAlignBytes - at % kAlignBytes) % kAlignBytes;
  }
  View view_of(const PlacedShard& placed) {
    const auto bytes = static_cast<size_t>(volume(placed.shard.box) * bytes_of(placed.shard.dtype));
    return {allocate(bytes), placed.shard.dtype, placed.shard.box, placed.shard.strides, placed.axes};
  }
  static void fill(const View& view, const Interval& numbers, Rng& rng) {
    const auto below = static_cast<uint64_t>(std::max<int64_t>(1, numbers.size()));
    with_type(view.dtype, [&](auto zero) {
      using T = decltype(zero);
      T* const at = reinterpret_cast<T*>(view.data);
      for (int64_t i = 0; i < volume(view.box); ++i) {
        if constexpr (std::is_same_v<T, uint8_t>) at[i] = rng.below(2) != 0;
        else if constexpr (std::is_integral_v<T>)
          at[i] = static_cast<T>(numbers.lo + static_cast<int64_t>(rng.below(below)));
        else at[i] = T(static_cast<float>(0.05 + 0.95 * rng.uniform()));
      }
    });
  }

  Rng rng_;
  Task task_;
  KernelCall call_;
  std::vector<Interval> numbers_;  // by read
  FirstOutside outside_;
  std::vector<std::vector<std::byte>> buffers_;
};

}  // namespace

Measured measured_of(std::vector<double> us) {
  ensure(!us.empty(), "nothing was timed");
  std::sort(us.begin(), us.end());
  const auto quantile = [&](double part) { return us[static_cast<size_t>(part * static_cast<double>(us.size() - 1))]; };
  Measured measured;
  measured.us = std::max(1e-3, quantile(0.5));
  measured.spread_us = quantile(0.75) - quantile(0.25);
  measured.runs = static_cast<int>(us.size());
  return measured;
}

Measured time_in_threads(const std::function<void(int thread)>& run, int threads, const TimingOptions& options) {
  std::vector<double> times;
  std::mutex mutex;
  std::exception_ptr error;
  std::atomic<int> ready{0};
  std::atomic<bool> over{false};
  const auto work = [&](int thread) {
    std::vector<double> mine;
    try {
      run(thread);  // warm
      ready.fetch_add(1);
      while (ready.load() < threads && !over.load()) std::this_thread::yield();
      const Clock::time_point begin = Clock::now();
      // A timing ends with the first thread that has done enough: until then all are busy.
      while (!over.load()) {
        const Clock::time_point from = Clock::now();
        run(thread);
        const Clock::time_point to = Clock::now();
        mine.push_back(std::chrono::duration<double, std::micro>(to - from).count());
        if ((static_cast<int>(mine.size()) >= options.least_runs &&
             std::chrono::duration<double>(to - begin).count() >= options.seconds) ||
            options.stopped())
          over = true;
      }
    } catch (...) {
      over = true;
      const std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    times.insert(times.end(), mine.begin(), mine.end());
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  if (error) std::rethrow_exception(error);
  return measured_of(std::move(times));
}

struct SmallKernels::Inside {
  std::vector<std::unique_ptr<Instance>> instances;
  Kernels& engine;
};

SmallKernels::SmallKernels(const KernelsToTime& kernels, Kernels& engine) : inside_(new Inside{{}, engine}) {
  constexpr size_t kOthers = 6;
  constexpr double kQuickFlops = 1e6, kQuickBytes = 64 << 10;
  std::set<std::string> definitions;
  for (const auto& [key, kernel] : kernels) {
    if (inside_->instances.size() == kOthers) break;
    if (kernel.kernel.flops > kQuickFlops || kernel.kernel.bytes > kQuickBytes) continue;
    if (!definitions.insert(kernel.kernel.id.definition).second) continue;
    try {
      auto instance = std::make_unique<Instance>(kernel, engine, 1);
      instance->run(engine);
      inside_->instances.push_back(std::move(instance));
    } catch (const Error&) {  // measure() reports it
    }
  }
}

SmallKernels::~SmallKernels() = default;

void SmallKernels::run() const {
  for (const auto& instance : inside_->instances) instance->run(inside_->engine);
}

namespace {

// The share of the free memory for the operands of one kernel.
constexpr double kPartOfMemory = 0.4;

// A kernel, an instance a core, and its times so far.
struct InGroup {
  const KernelToTime* kernel = nullptr;
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<double> cold, warm, far;
};

template <typename Run>
double us_of(const Run& run) {
  const Clock::time_point from = Clock::now();
  run();
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

Measured measured_in_group(InGroup& k, Kernels& kernels, const TimingOptions& options) {
  const double mean_us = std::accumulate(k.warm.begin(), k.warm.end(), 0.0) / static_cast<double>(k.warm.size());
  Measured time = measured_of(std::move(k.warm));
  time.mean_us = std::max(mean_us, time.us / 2);  // as it is, but for rounding
  if (options.cache_bytes > 0) time.cold_us = std::max(time.us, measured_of(std::move(k.cold)).us);
  if (!k.far.empty()) time.far_us = std::max({time.us, time.cold_us, measured_of(std::move(k.far)).us});
  if (options.cores < 2) return time;
  const auto run = [&](int thread) { k.instances[static_cast<size_t>(thread)]->run(kernels); };
  const double alone = time_in_threads(run, 1, options).us, together = time_in_threads(run, options.cores, options).us;
  time.together_us = time.us * std::max(1.0, together / alone);
  return time;
}

// Each once after a sweep, a few times.
void time_far(std::vector<InGroup>& members, Kernels& kernels, const TimingOptions& options) {
  constexpr double kOfSharedCache = 4;
  Sweep sweep(kOfSharedCache * options.shared_cache_bytes);
  for (int turn = 0; turn < options.least_runs; ++turn) {
    sweep.run();
    for (InGroup& k : members) {
      if (options.stopped()) return;
      k.far.push_back(us_of([&] { k.instances[0]->run(kernels); }));
    }
  }
}

}  // namespace

GroupTimes time_group(const std::vector<const KernelToTime*>& group, const std::vector<const KernelToTime*>& company,
                      const SmallKernels& others, Kernels& kernels, const TimingOptions& options) {
  GroupTimes result;
  std::vector<InGroup> members;
  const auto join = [&](const KernelToTime* kernel, int instances) {
    InGroup member{kernel, {}, {}, {}, {}};
    if (const double bytes = kernel->kernel.bytes * instances;
        bytes > kPartOfMemory * static_cast<double>(available_bytes())) {
      result.left_out.emplace(kernel->kernel.id.key(),
                              fmt::format("its operands are {}, too much for this machine's memory", megabytes(bytes)));
      return;
    }
    try {
      for (int c = 0; c < instances; ++c)
        member.instances.push_back(std::make_unique<Instance>(*kernel, kernels, static_cast<uint64_t>(c + 1)));
      member.instances[0]->run(kernels);
      members.push_back(std::move(member));
    } catch (const Error& error) {
      result.left_out.emplace(kernel->kernel.id.key(), error.what());
    }
  };
  for (const KernelToTime* kernel : group) join(kernel, options.cores);
  const size_t timed_members = members.size();
  for (const KernelToTime* kernel : company) join(kernel, 1);
  const Clock::time_point begin = Clock::now();
  const double seconds = options.seconds * static_cast<double>(timed_members);
  const auto goes_on = [&](int turn) {
    return turn < options.least_runs || std::chrono::duration<double>(Clock::now() - begin).count() < seconds;
  };
  for (int turn = 0; goes_on(turn); ++turn)
    for (size_t m = 0; m < members.size(); ++m) {
      if (options.stopped()) return result;
      InGroup& k = members[m];
      const auto run = [&] { k.instances[0]->run(kernels); };
      k.instances[0]->draw_numbers();
      k.cold.push_back(us_of(run));
      if (m >= timed_members) continue;
      others.run();
      k.instances[0]->draw_numbers();
      k.warm.push_back(us_of(run));
    }
  members.resize(timed_members);
  if (options.shared_cache_bytes > 0) time_far(members, kernels, options);
  for (InGroup& k : members) {
    const Measured time = measured_in_group(k, kernels, options);
    if (options.stopped()) return result;
    result.times.emplace(k.kernel->kernel.id.key(), time);
  }
  return result;
}

}  // namespace partita
