// Tests the memory of plans with inter-op parallelism.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "partita/physical/shortage.h"
#include "tests/golden/planned.h"

namespace partita {
namespace {

// No task waits for bytes, and yet the bytes of uses that are over are reused: nearly all of the peak holds something.
TEST(MemoryBeside, HoldsSomething) {
  for (const char* model : {"zoo:nmt?steps=4,batch=64", "zoo:rnnlm?steps=4,batch=64"}) {
    SCOPED_TRACE(model);
    const Planned p = planned(model, "layer-placement", "flexflow-p100");
    const auto contents = p.peak_memory_contents();
    const auto gaps = std::ranges::find(contents, kGaps, [](const auto& kind) { return kind.first; });
    if (gaps == contents.end()) continue;
    EXPECT_LT(static_cast<double>(gaps->second), 0.1 * static_cast<double>(p.peak_memory_bytes()));
  }
}

}  // namespace
}  // namespace partita
