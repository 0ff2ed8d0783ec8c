// Tests which changes are tried if a plan does not fit.
#include "partita/pipeline/remedies.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

namespace partita {
namespace {

// Nothing fits: the message lists what was tried.
std::string tried(const std::string& batch, int micro_batches, const std::string& search = "data-parallel") {
  Request request;
  request.model = "zoo:mlp?layers=3,width=64";
  request.bindings["batch"] = batch;
  request.cluster = "local:2";
  request.search = search;
  request.micro_batches = micro_batches;
  request.memory_limit_bytes = 2000;
  return remedies(request);
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// The request's own micro-batches divide the batch that is halved, and a replica's samples.
TEST(Remedies, CountTheWholeBatch) {
  const std::string text = tried("64", 2);
  expect_in(text, "; not with any of --micro-batches 32 --recompute layer (needs at least ");
  expect_in(text, ", --batch 32 (needs at least 149.2 kB), --batch 16 (needs at least ");
  expect_in(tried("64", 2, "model-parallel"), "--micro-batches 64 --recompute layer (");
}

// A trial without enough samples for the devices says nothing of memory.
TEST(Remedies, SayWhichTrialsCannotBe) {
  const std::string text = tried("64", 2), why =
                                               "--batch 2, --batch 2 --recompute layer cannot be: data-parallel: input "
                                               "'x' has 1 samples in a micro-batch, too few for 2 devices";
  const std::size_t end = text.find(" either; ");
  ASSERT_NE(end, std::string::npos) << text;
  EXPECT_EQ(text.substr(end + 9), why);  // without the advice of the search itself
  EXPECT_EQ(text.substr(0, end).find("--batch 2 "), std::string::npos) << text;
}

// Nobody gave a time limit.
TEST(Remedies, SayThatAnInterruptionEndedThem) {
  const std::atomic<bool> stop = true;
  Request request;
  request.model = "zoo:mlp?layers=3,width=64";
  request.cluster = "local:2";
  request.search = "data-parallel";
  request.budget.stop = &stop;
  EXPECT_EQ(remedies(request), "; an interruption ended the search for what fits");
}

TEST(Remedies, SayThatTheTimeLimitEndedThem) {
  Request request;
  request.model = "zoo:mlp?layers=3,width=64";
  request.cluster = "local:2";
  request.search = "data-parallel";
  request.budget.seconds = 0;
  EXPECT_EQ(remedies(request), "; the time limit ended the search for what fits");
}

// 24 samples a replica in 2, 4, 8, and 24 micro-batches.
TEST(Remedies, HaveMicroBatchesThatDivideTheSamples) {
  expect_in(tried("48", 2), "--micro-batches 24 --recompute layer");
}

}  // namespace
}  // namespace partita
