// Tests the comparison of parallel with serial: rounding passes, whatever an optimizer divides it by; a kernel that
// errs does not.
#include <gtest/gtest.h>

#include "partita/base/testing/error_of.h"
#include "partita/runtime/memory.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

// Kernels that err on all devices but the first: a serial run is right. Results of a phase are taken times `factor`,
// plus `offset`.
class Erring final : public Kernels {
 public:
  Erring(Phase phase, double factor, double offset) : phase_(phase), factor_(factor), offset_(offset) {}
  std::shared_ptr<const PreparedCall> prepare_call(const KernelCall& call) override {
    return kernels().prepare_call(call);
  }
  void run(const KernelCall& call) override {
    kernels().run(call);
    if (call.task->phase != phase_ || call.task->device.index() == 0) return;
    for (const View& write : call.writes) {
      if (!is_float(write.dtype) || is_empty(write.box)) continue;
      if (write.dtype == DType::kFloat64) change<double>(write, write.dtype);
      else change<float>(write, DType::kFloat32);
    }
  }

 private:
  template <class T>
  void change(const View& write, DType dtype) const {
    std::vector<T> changes(static_cast<size_t>(volume(extents(write.box))), static_cast<T>(factor_));
    const View from{reinterpret_cast<std::byte*>(changes.data()), dtype, write.box, dense_strides(extents(write.box)),
                    write.axes};
    combine_box(tdl::Reducer::kProd, from, write);
    std::fill(changes.begin(), changes.end(), static_cast<T>(offset_));
    combine_box(tdl::Reducer::kSum, from, write);
  }

  Phase phase_;
  double factor_, offset_;
};

Planned planned(const std::string& model, const std::string& loss, DType dtype, const std::string& optimizer,
                int devices, const std::string& search) {
  Request request;
  request.model = fmt::format("{}/tests/data/cases/{}/model.onnx", PARTITA_SOURCE_DIR, model);
  request.loss = loss;
  request.dtype = dtype;
  request.optimizer.kind = optimizer;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  Runner runner;
  return plan_model(request, runner);
}

// Some of its gradients are zero by cancellation.
Planned planned(const std::string& optimizer, int devices, const std::string& search) {
  return planned("adagrad", "mse", DType::kFloat64, optimizer, devices, search);
}

TrainReport verified(const Planned& planned, Kernels& kernels) {
  TrainOptions options;
  options.steps = 6;
  options.verify_serial = true;
  return train(planned, options, kernels);
}

constexpr const char* kOptimizers[] = {"sgd", "adagrad", "adam", "adamw"};

TEST(Verify, RoundingPassesUnderEveryOptimizer) {
  bool divided = false;
  for (const char* optimizer : kOptimizers)
    for (const int devices : {2, 3})
      for (const char* search : {"data-parallel", "exact"}) {
        SCOPED_TRACE(fmt::format("{}, {} devices, {}", optimizer, devices, search));
        const TrainReport report = verified(planned(optimizer, devices, search), kernels());
        EXPECT_EQ(error_of([&] { check_matches_serial(report, DType::kFloat64); }), "no error");
        divided |= report.rounding_error.has_value();
      }
  EXPECT_TRUE(divided);  // else no case needs the second look
}

TEST(Verify, AKernelThatErrsFails) {
  for (const char* optimizer : kOptimizers) {
    const Planned p = planned(optimizer, 3, "data-parallel");
    for (auto [phase, factor, offset] : {std::tuple{Phase::kBackward, 1.001, 0.0},
                                         {Phase::kBackward, 1.0, 1e-4},
                                         {Phase::kForward, 1.001, 0.0},
                                         {Phase::kUpdate, 1.001, 0.0}}) {
      SCOPED_TRACE(fmt::format("{}, {} x {} + {}", optimizer, name_of(phase), factor, offset));
      Erring erring(phase, factor, offset);
      const TrainReport report = verified(p, erring);
      EXPECT_NE(error_of([&] { check_matches_serial(report, DType::kFloat64); }).find("parallel differs from serial"),
                std::string::npos);
    }
  }
}

// The terms of its loss cancel: in bfloat16 little but rounding is left of it.
TEST(Verify, ALossThatCancelsPassesInShorterTypes) {
  const Planned p = planned("cancels", "elementwise", DType::kBFloat16, "sgd", 7, "spartan");
  const TrainReport report = verified(p, kernels());
  ASSERT_TRUE(report.loss_rounding_error)
      << "the first loss is near enough as it is: " << *report.first_loss_error_vs_serial;
  EXPECT_EQ(error_of([&] { check_matches_serial(report, DType::kBFloat16); }), "no error");
}

TEST(Verify, AKernelThatErrsFailsInShorterTypes) {
  for (const auto& [dtype, factor] :
       {std::pair{DType::kBFloat16, 1.25}, {DType::kFloat16, 1.03}, {DType::kFloat32, 1.001}}) {
    SCOPED_TRACE(name_of(dtype));
    const Planned p = planned("adagrad", "mse", dtype, "sgd", 3, "data-parallel");
    EXPECT_EQ(error_of([&] { check_matches_serial(verified(p, kernels()), dtype); }), "no error");
    Erring erring(Phase::kForward, factor, 0);
    EXPECT_NE(error_of([&] { check_matches_serial(verified(p, erring), dtype); }).find("parallel differs from serial"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace partita
