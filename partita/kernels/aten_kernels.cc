// Runs kernels on ATen, in the scratch that they declare.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <mutex>

#include "partita/base/atomic_max.h"
#include "partita/base/error.h"
#include "partita/kernels/allocator.h"
#include "partita/kernels/generic.h"
#include "partita/kernels/kernels.h"
#include "partita/physical/workspace.h"

namespace partita {
namespace {

struct Prepared final : PreparedCall {
  KernelPlan plan;
  std::vector<PreparedStage> stages;  // of the generic stage kernel
  std::vector<TensorShard> shards;    // per tensor of the formula: the call's shard
};

// Finds the memory of the call's tensors.
std::vector<ShardMemory> held_by(const KernelCall& call, const Prepared& prepared) {
  std::vector<ShardMemory> held(prepared.shards.size());
  for (size_t t = 0; t < held.size(); ++t) held[t].shard = prepared.shards[t];
  for (size_t i = 0; i < call.reads.size(); ++i) held[call.task->reads[i].tensor].data = call.reads[i].data;
  for (size_t i = 0; i < call.writes.size(); ++i) held[call.task->writes[i].tensor].data = call.writes[i].data;
  return held;
}

std::vector<PlacedShard> placed_shards(const std::vector<View>& views, const std::vector<Access>& accesses) {
  std::vector<PlacedShard> shards;
  for (size_t i = 0; i < views.size(); ++i)
    shards.push_back({accesses[i].tensor, {views[i].dtype, views[i].box, views[i].strides}, views[i].axes});
  return shards;
}

class AtenKernels final : public Kernels {
 public:
  explicit AtenKernels(const KernelOptions& options) : options_(options) {
    install_allocator();
    at::set_num_threads(1);
    static std::once_flag functions_set_up;
    std::call_once(functions_set_up, [] {
      const c10::InferenceMode no_autograd;
      set_up_functions();
    });
  }

  std::shared_ptr<const PreparedCall> prepare_call(const KernelCall& call) override {
    const KernelWork& work = *call.work;
    const std::vector<Interval>& ranges = work.ranges[work.ranges.size() == 1 ? 0 : static_cast<size_t>(call.firing)];
    ensure(call.reads.size() == call.task->reads.size() && call.writes.size() == call.task->writes.size(),
           "{}: {} reads and {} writes are given", call.task->name, call.reads.size(), call.writes.size());
    const KernelRequest request = request_of(work, ranges, placed_shards(call.reads, call.task->reads),
                                             placed_shards(call.writes, call.task->writes));
    auto prepared = std::make_shared<Prepared>();
    prepared->plan = plan_kernel(request, options_);
    if (!prepared->plan.registered) prepared->stages = prepare_generic(request.bound, prepared->plan.generic);
    for (const std::optional<TensorShard>& shard : request.held.shards)
      prepared->shards.push_back(shard.value_or(TensorShard()));
    return prepared;
  }

  void run(const KernelCall& call) override {
    const Prepared& prepared = dynamic_cast<const Prepared&>(*call.prepared);
    const c10::InferenceMode no_autograd;
    at::init_num_threads();
    ScratchScope scratch(call.scratch, call.scratch ? call.scratch_bytes : 0);
    const KernelMemory given{held_by(call, prepared), call};
    if (prepared.plan.registered) std::visit([&](const auto& kernel) { kernel.run(given); }, *prepared.plan.registered);
    else run_generic(prepared.plan.generic, prepared.stages, given);
    atomic_max(scratch_peak_, scratch.used_bytes());
  }

  int64_t live_bytes() const override { return outside_bytes(); }
  int64_t peak_bytes() const override { return outside_peak_bytes(); }
  void reset_peak() override {
    reset_outside_peak();
    scratch_peak_ = 0;
  }
  int64_t scratch_peak() const { return scratch_peak_.load(); }

 private:
  KernelOptions options_;
  std::atomic<int64_t> scratch_peak_{0};
};

}  // namespace

std::unique_ptr<Kernels> make_aten_kernels(const KernelOptions& options) {
  return std::make_unique<AtenKernels>(options);
}

int64_t scratch_peak_bytes(const Kernels& kernels) { return dynamic_cast<const AtenKernels&>(kernels).scratch_peak(); }

}  // namespace partita

extern "C" partita::Kernels* partita_make_aten_kernels() { return partita::make_aten_kernels().release(); }
