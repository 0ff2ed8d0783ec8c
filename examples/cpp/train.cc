// A model made in C++, planned for four devices and trained on them; no Python, no model file.
#include "partita/train/train.h"

#include <cstdio>

#include "partita/graph/builder.h"
#include "partita/ops/ops.h"
#include "partita/train/engine.h"

using namespace partita;

int main() {
  GraphBuilder build("net", standard_ops());
  TensorId x = build.input("x", {64, 32});
  for (int layer = 0; layer < 3; ++layer) {
    const TensorId w = build.parameter("w" + std::to_string(layer), {32, 32});
    x = build.op("matmul", {x, w});
    if (layer < 2) x = build.op("relu", {x});
  }
  Request request;
  request.cluster = "local:4";
  request.optimizer = {.kind = "sgd", .lr = 0.1, .momentum = 0.9};
  Runner runner;
  const Planned planned = plan_graph({build.finish({x}), {.kind = "cross_entropy"}}, request, runner);
  std::printf("moves %lld bytes a step, predicted %.1f us\n", static_cast<long long>(planned.report.comm_bytes),
              1e-3 * static_cast<double>(planned.predicted.step_time_ns));
  TrainOptions options;
  options.steps = 100;
  options.verify_serial = true;
  const TrainReport report = train(planned, options, load_kernels());
  std::printf("loss %.3f -> %.3f, serial run differs by %.1g\n", report.losses.front(), report.losses.back(),
              *report.max_error_vs_serial);
  return report.losses.back() < report.losses.front() ? 0 : 1;
}
