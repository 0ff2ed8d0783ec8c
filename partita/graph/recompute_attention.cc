// Recomputes the core of attention alone (selective recomputation: Korthikanti et al., arXiv:2205.05198, section 5).
// It recomputes the core's ops from the operands of its products, which are kept (attention_cores.h).
#include "partita/graph/attention_cores.h"
#include "partita/graph/recompute.h"

namespace partita {

RecomputeSet attention_recompute_set(const Graph& training) {
  const std::vector<char> cores = attention_cores(training), can = can_be_recomputed(training);
  RecomputeSet out{{}, std::vector<char>(training.tensors.size())};
  for (size_t i = 0; i < training.ops.size(); ++i)
    out.block.push_back(training.ops[i].phase == Phase::kBackward || (cores[i] && can[i]) ? 0 : -1);
  return out;
}

}  // namespace partita
