#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <map>
#include <mutex>

#include "partita/base/error.h"
#include "partita/kernels/allocator.h"
#include "partita/kernels/experts.h"
#include "partita/kernels/generic.h"
#include "partita/kernels/kernels.h"
#include "partita/kernels/places.h"
#include "partita/kernels/tensors.h"
#include "partita/kernels/windows.h"

namespace partita {
namespace {

// False: there is none for the definition, or it declines the call.
bool run_registered(const KernelCall& call, const std::vector<Interval>& ranges, const KernelParts& parts,
                    const std::vector<Held>& held) {
  const KernelWork& work = *call.work;
  if (const auto counted = plan_places(work, ranges, parts)) {
    run_places(*counted, stage_box(*work.bound, 0, ranges), call, held);
    return true;
  }
  if (const auto places = plan_expert_place(work, ranges, parts)) {
    run_expert_place(*places, held);
    return true;
  }
  const auto plan = plan_windows(work, ranges, parts);
  if (!plan) return false;
  const std::string& name = work.definition;
  if (name == "conv2d") run_conv2d(*plan, held);
  else if (name == "conv2d_data_grad") run_conv2d_data_grad(*plan, held);
  else if (name == "conv2d_weight_grad") run_conv2d_weight_grad(*plan, held);
  else if (name == "max_pool") run_max_pool(*plan, held);
  else if (name == "max_pool_grad") run_max_pool_grad(*plan, held, static_cast<int64_t>(work.attributes.at("kw")));
  else ensure(false, "{} has a plan and no kernel", name);
  return true;
}

class AtenKernels final : public Kernels {
 public:
  explicit AtenKernels(const AtenOptions& options) : options_(options) {
    install_allocator();
    at::set_num_threads(1);
    static std::once_flag functions_set_up;
    std::call_once(functions_set_up, [] {
      const c10::InferenceMode no_autograd;
      set_up_functions();
    });
    if (options_.budget_bytes <= 0) options_.budget_bytes = kGenericBudgetBytes;
  }

  void run(const KernelCall& call) override {
    const KernelWork& work = *call.work;
    const tdl::Bound& bound = *work.bound;
    const std::vector<Interval>& ranges = work.ranges[work.ranges.size() == 1 ? 0 : static_cast<size_t>(call.act)];
    ensure(call.reads.size() == call.task->reads.size() && call.writes.size() == call.task->writes.size(),
           "{}: {} reads and {} writes are given", call.task->name, call.reads.size(), call.writes.size());
    std::vector<PlacedPart> reads, writes;
    std::vector<std::byte*> data(bound.tensors.size(), nullptr);
    auto place = [&](const View& view, const Access& access, std::vector<PlacedPart>& into) {
      into.push_back({access.tensor, {view.dtype, view.box, view.strides}, view.axes});
      data[access.tensor] = view.data;
    };
    for (size_t i = 0; i < call.reads.size(); ++i) place(call.reads[i], call.task->reads[i], reads);
    for (size_t i = 0; i < call.writes.size(); ++i) place(call.writes[i], call.task->writes[i], writes);
    const KernelParts parts = kernel_parts(bound, reads, writes);
    std::vector<Held> held(bound.tensors.size());
    for (size_t t = 0; t < held.size(); ++t)
      if (parts.parts[t]) held[t] = {*parts.parts[t], data[t]};

    const c10::InferenceMode no_autograd;
    at::init_num_threads();
    ScratchScope scratch(call.scratch, call.scratch ? call.scratch_bytes : 0);
    if (!options_.registered || !run_registered(call, ranges, parts, held)) {
      const GenericPlan plan =
          plan_generic(bound, work.first_stage, work.last_stage, ranges, parts, options_.budget_bytes);
      run_generic(bound, plan, ranges, held, {call.seed, work.random_stream, call.step});
    }
    int64_t before = scratch_peak_.load();
    while (scratch.used_bytes() > before && !scratch_peak_.compare_exchange_weak(before, scratch.used_bytes())) {
    }
  }

  int64_t live_bytes() const override { return outside_bytes(); }
  int64_t peak_bytes() const override { return outside_peak_bytes(); }
  void reset_peak() override {
    reset_outside_peak();
    scratch_peak_ = 0;
  }
  int64_t scratch_peak() const { return scratch_peak_.load(); }

 private:
  AtenOptions options_;
  std::atomic<int64_t> scratch_peak_{0};
};

}  // namespace

std::unique_ptr<Kernels> make_aten_kernels(const AtenOptions& options) {
  return std::make_unique<AtenKernels>(options);
}

int64_t scratch_peak_bytes(const Kernels& kernels) { return dynamic_cast<const AtenKernels&>(kernels).scratch_peak(); }

}  // namespace partita

extern "C" partita::Kernels* partita_make_aten_kernels() { return partita::make_aten_kernels().release(); }
