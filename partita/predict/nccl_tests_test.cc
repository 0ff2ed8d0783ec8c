// Tests the output of nccl-tests' programs, whole, joined, tagged and damaged.
#include <gtest/gtest.h>

#include "partita/base/testing/error_of.h"
#include "partita/predict/predict.h"

namespace partita {
namespace {

constexpr const char* kLog =
    "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   1234 on      node-a device  0 [0x07] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1235 on      node-a device  1 [0x0f] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid   1236 on      node-b device  0 [0x07] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid   1237 on      node-b device  1 [0x0f] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
    "     1048576        262144     float     sum      -1    60.50   17.33   26.00      0    61.00   17.19   25.78     "
    " "
    "0\n"
    "     2097152        524288     float     sum      -1    90.00   23.30   34.95      0    91.00   23.05   34.57     "
    " "
    "0\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 30.33\n";

constexpr const char* kGpu = "NVIDIA H100 80GB HBM3";

TEST(NcclTests, TheirOutputIsATable) {
  ASSERT_TRUE(is_nccl_tests(kLog));
  EXPECT_FALSE(is_nccl_tests("size,count,type\n1,2,3\n"));
  const Table t = parse_nccl_tests(kLog, "log.txt");
  EXPECT_EQ(t.columns, (std::vector<std::string>{"gpus", "nodes", "collective", "bytes", "time_us", "gpu"}));
  EXPECT_EQ(t.rows, (std::vector<std::vector<std::string>>{{"4", "2", "all_reduce", "1048576", "60.5", kGpu},
                                                           {"4", "2", "all_reduce", "2097152", "90", kGpu}}));
  EXPECT_EQ(t.lines, (std::vector<int>{12, 13}));
}

TEST(NcclTests, WhichCollectiveItIsMustBeClear) {
  std::string gather = kLog;
  for (size_t at; (at = gather.find("   sum")) != std::string::npos;) gather.replace(at, 6, "  none");
  for (auto [bus, half] : {std::pair{"26.00", "13.00"}, {"34.95", "17.47"}}) gather.replace(gather.find(bus), 5, half);
  EXPECT_EQ(error_of([&] { parse_nccl_tests(gather, "log.txt"); }),
            "log.txt: it does not say which collective this is; name it with --collective all_gather, for example");
  EXPECT_EQ(parse_nccl_tests(gather, "log.txt", "all_gather").cell(0, "collective"), "all_gather");
  EXPECT_EQ(parse_nccl_tests("# ./build/alltoall_perf -b 1M\n" + gather, "log.txt").cell(1, "collective"), "alltoall");
  std::string headless = kLog;
  for (size_t at; (at = headless.find("#  Rank")) != std::string::npos;)
    headless.erase(at, headless.find('\n', at) - at);
  EXPECT_EQ(error_of([&] { parse_nccl_tests(headless, "log.txt"); }),
            "log.txt: no line '#  Rank 0 ..' says how many GPUs there are; keep the lines before the table");
}

// A run of so many ranks on node-a, with one row whose bus bandwidth is this part of the algorithm bandwidth.
std::string run(int ranks, const std::string& name, double part, const std::string& redop = "none",
                const std::string& gpu = kGpu) {
  std::string text = name.empty() ? "" : "$ ./" + name + "_perf -b 1M\n";
  for (int r = 0; r < ranks; ++r)
    text += fmt::format("#  Rank {:2} Group  0 Pid 1 on node-a device {:2} [0x07] {}\n", r, r, gpu);
  return text + "#       size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n" +
         fmt::format("  1048576 262144 float {} -1 50.0 {:.2f} {:.2f} 0 N/A N/A N/A N/A\n# Avg bus bandwidth : 1\n",
                     redop, 20.0, 20.0 * part);
}

std::vector<std::string> columns(const Table& t, const std::string& column) {
  std::vector<std::string> cells;
  for (size_t r = 0; r < t.rows.size(); ++r) cells.push_back(t.cell(r, column));
  return cells;
}

TEST(NcclTests, SeveralRunsInAFileEachHaveTheirOwn) {
  const Table t = parse_nccl_tests(
      run(4, "all_gather", 0.75) + run(8, "all_reduce", 1.75, "sum") + run(4, "", 0.75, "sum"), "log.txt");
  EXPECT_EQ(columns(t, "gpus"), (std::vector<std::string>{"4", "8", "4"}));
  EXPECT_EQ(columns(t, "collective"), (std::vector<std::string>{"all_gather", "all_reduce", "reduce_scatter"}));
  EXPECT_EQ(t.lines, (std::vector<int>{7, 19, 26}));
  // Newer versions name the program before and after; the name after is not of the next run.
  const std::string newer = "# Collective test starting: all_gather_perf\n" + run(4, "", 0.75) +
                            "# Collective test concluded: all_gather_perf\n";
  EXPECT_EQ(parse_nccl_tests(newer, "log.txt").cell(0, "collective"), "all_gather");
  EXPECT_EQ(error_of([&] { parse_nccl_tests(newer + run(4, "", 0.75), "log.txt"); }),
            "log.txt:10: it does not say which collective this is; name it with --collective all_gather, for example");
  EXPECT_EQ(columns(parse_nccl_tests(newer + run(4, "", 0.75), "log.txt", "all_gather"), "collective").size(), 2u);
}

TEST(NcclTests, TagsOfLaunchersAreTakenOff) {
  for (const std::string tag : {"[1,0]<stdout>:", "0: ", " 0: ", "[0] "}) {
    std::string tagged;
    const std::string log = kLog;
    for (size_t at = 0, end; at < log.size(); at = end + 1) {
      end = log.find('\n', at);
      tagged += tag + log.substr(at, end + 1 - at);
    }
    ASSERT_TRUE(is_nccl_tests(tagged)) << tag;
    EXPECT_EQ(parse_nccl_tests(tagged, "log.txt").rows, parse_nccl_tests(kLog, "log.txt").rows) << tag;
  }
  const std::string header = "#       size         count";
  std::string other = kLog;
  other.insert(other.find(header), "pod-3 | ");
  EXPECT_TRUE(is_nccl_tests(other));
  EXPECT_EQ(error_of([&] { parse_nccl_tests(other, "log.txt"); }),
            "log.txt:10: 'pod-3 | #' stands before the line of names, and before others; take it off");
}

TEST(NcclTests, ProcessesThatRanAloneAreRefused) {
  std::string text;
  for (int r = 0; r < 8; ++r) text += run(1, "all_reduce", 0, "sum");
  EXPECT_EQ(error_of([&] { parse_nccl_tests(text, "log.txt"); }),
            "log.txt:2: 8 runs of one rank each, where each process measured its own GPU alone; build nccl-tests with "
            "MPI=1, or give one process all GPUs (-g 8)");
  // Beside others it is a row that is not predicted.
  EXPECT_EQ(
      columns(parse_nccl_tests(run(1, "all_reduce", 0, "sum") + run(4, "all_reduce", 1.5, "sum"), "log.txt"), "gpus"),
      (std::vector<std::string>{"1", "4"}));
}

TEST(NcclTests, MixedAndDamagedOutputsAreRefused) {
  const auto refused = [](const std::string& text, const std::string& message, const std::string& collective = "") {
    const std::string error = error_of([&] { parse_nccl_tests(text, "log.txt", collective); });
    EXPECT_EQ(error.substr(0, message.size()), message) << error;
  };
  const std::string one = run(4, "all_gather", 0.75), table = one.substr(one.find("#       size"));
  refused(one + table, "log.txt:9: a second table for the ranks from line 2 on");
  refused(one.substr(0, one.find("#       size")) + one, "no error");
  std::string missing = one;
  missing.erase(missing.find("#  Rank  1"), missing.find("#  Rank  2") - missing.find("#  Rank  1"));
  refused(missing, "log.txt:3: rank 2 does not follow rank 1");
  refused(one + one.substr(one.find("  1048576"), 40), "log.txt:9: the row is cut off; remove it");
  std::string nameless = one;
  nameless.erase(nameless.find("#       size"), nameless.find("  1048576") - nameless.find("#       size"));
  refused(nameless, "log.txt:6: a row before the line '#  size  count  type ..' of its table");
  refused(one.substr(0, one.find("  1048576")), "log.txt: it has no rows of a table");
  std::string uneven = one;
  uneven.replace(uneven.find("node-a device  3"), 6, "node-b");
  refused(uneven, "log.txt:2: node-a has 3 of the ranks and node-b has 1");
  std::string split = one;
  split.replace(split.find("Group  0"), 8, "Group  1");
  refused(split, "log.txt:2: the ranks are in 2 groups");
}

TEST(NcclTests, RatesThatContradictTheCollectiveAreRefused) {
  EXPECT_EQ(error_of([] { parse_nccl_tests(run(4, "all_gather", 1.5), "log.txt"); }),
            "log.txt:7: busbw is 1.50 of algbw, where all_gather of 4 ranks has 0.75; lines are missing, or of another "
            "program");
  EXPECT_EQ(error_of([] { parse_nccl_tests(run(4, "", 1.5), "log.txt", "all_gather"); }),
            "log.txt:6: busbw is 1.50 of algbw, where all_gather of 4 ranks has 0.75; name another with --collective");
  EXPECT_EQ(error_of([] { parse_nccl_tests(run(4, "all_reduce", 1.5), "log.txt", "all_gather"); }),
            "log.txt:2: this run is of all_reduce; leave out --collective all_gather");
}

// For any other rows of the table.
TEST(NcclTests, GpusOfAnotherNameAreNotPredicted) {
  const auto why_not = [](const std::string& text, const std::string& cluster) {
    return predict(parse_nccl_tests(text, "log.txt"), load_cluster(cluster))[0].why_not;
  };
  const std::string own = run(8, "all_reduce", 1.75, "sum");
  EXPECT_EQ(why_not(own, "dgx-h100"), "");
  EXPECT_EQ(why_not(own, "dgx-a100"), "of another device than the cluster's A100: NVIDIA H100 80GB HBM3");
  EXPECT_EQ(why_not(run(8, "all_reduce", 1.75, "sum", "NVIDIA H100 PCIe"), "dgx-h100"),
            "of another device than the cluster's H100: NVIDIA H100 PCIe");
  EXPECT_EQ(why_not(run(8, "all_reduce", 1.75, "sum", "NVIDIA A100-SXM4-40GB"), "dgx-a100"), "") << "the same links";
  EXPECT_EQ(why_not(run(8, "all_reduce", 1.75, "sum", ""), "dgx-h100"), "") << "not named";
  std::string mixed = own;
  mixed.replace(mixed.rfind("NVIDIA H100"), 11, "NVIDIA A100");
  EXPECT_EQ(why_not(mixed, "dgx-h100"), "of another device than the cluster's H100: NVIDIA A100 80GB HBM3");
}

}  // namespace
}  // namespace partita
