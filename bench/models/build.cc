// Times the training graph of Llama 3.1 405B, from the text of its config.json to forward, backward and updates of all
// 126 layers, each graph verified; and the same with one layer. Best of five. bench/models/load.py times Python's onnx
// package for the forward graph.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/models/huggingface.h"
#include "partita/ops/ops.h"

int main() {
  using namespace partita;
  using Clock = std::chrono::steady_clock;
  const std::string path = PARTITA_SOURCE_DIR "/tests/data/huggingface/llama-3.1-405b/config.json";
  std::stringstream config;
  config << std::ifstream(path).rdbuf();
  const auto registry = standard_ops();
  for (const char* layers : {"126", "1"}) {
    double built = 1e9, derived = 1e9;
    std::size_t forward = 0, all = 0;
    for (int round = 0; round < 5; ++round) {
      const auto start = Clock::now();
      const Model model = build_huggingface(path, config.str(), {{"num_hidden_layers", layers}}, registry);
      const auto middle = Clock::now();
      const Graph training = add_backward(model.graph, model.loss, {.kind = "adamw"});
      const auto end = Clock::now();
      built = std::min(built, std::chrono::duration<double>(middle - start).count());
      derived = std::min(derived, std::chrono::duration<double>(end - middle).count());
      forward = model.graph.ops.size(), all = training.ops.size();
    }
    std::printf("%s layers: %zu ops forward in %.3f s, %zu with backward and updates in %.3f s: %.3f s\n", layers,
                forward, built, all, derived, built + derived);
  }
}
