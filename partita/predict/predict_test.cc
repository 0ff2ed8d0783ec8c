// Tables of measurements, and what is predicted of them.
#include "partita/predict/predict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "partita/base/error.h"
#include "partita/cost/collective.h"

namespace partita {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(Csv, QuotesAndLinesAreKept) {
  const Table t = parse_csv(
      "\xef\xbb\xbf"
      "a,b\r\n1,\"x, \"\"y\"\"\nz\"\n\n,3\n",
      "t.csv");
  EXPECT_EQ(t.columns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(t.rows, (std::vector<std::vector<std::string>>{{"1", "x, \"y\"\nz"}, {"", "3"}}));
  EXPECT_EQ(t.lines, (std::vector<int>{2, 5}));
  EXPECT_EQ(print_csv(t), "a,b\n1,\"x, \"\"y\"\"\nz\"\n,3\n");
}

TEST(Csv, BadOnesAreRefusedWithTheLine) {
  EXPECT_EQ(error_of([] { parse_csv("a,b\n1,2\n1,2,3\n", "t.csv"); }),
            "t.csv:3: 3 cells, where line 1 names 2 columns; quote a cell that has a comma in it");
  EXPECT_EQ(error_of([] { parse_csv("a,b\n1,\"2\n", "t.csv"); }), "t.csv:2: a quote is opened and not closed");
  EXPECT_EQ(error_of([] { parse_csv("a,b\n1,\"2\"3\n", "t.csv"); }),
            "t.csv:2: text follows a quoted cell; put all of the cell into the quotes");
  EXPECT_EQ(error_of([] { parse_csv("a,a\n", "t.csv"); }), "t.csv:1: two columns are named 'a'; rename one");
  EXPECT_EQ(error_of([] { parse_csv("", "t.csv"); }), "t.csv: the table is empty");
}

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

TEST(NcclTests, TheirOutputIsATable) {
  ASSERT_TRUE(is_nccl_tests(kLog));
  EXPECT_FALSE(is_nccl_tests("size,count,type\n1,2,3\n"));
  const Table t = parse_nccl_tests(kLog, "log.txt");
  EXPECT_EQ(t.columns, (std::vector<std::string>{"gpus", "nodes", "collective", "bytes", "time_us"}));
  EXPECT_EQ(t.rows, (std::vector<std::vector<std::string>>{{"4", "2", "all_reduce", "1048576", "60.5"},
                                                           {"4", "2", "all_reduce", "2097152", "90"}}));
  EXPECT_EQ(t.lines, (std::vector<int>{12, 13}));
}

TEST(NcclTests, WhichCollectiveItIsMustBeClear) {
  std::string gather = kLog;
  for (size_t at; (at = gather.find("   sum")) != std::string::npos;) gather.replace(at, 6, "  none");
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

// Two nodes of four; rings alone at the links' rates: 100 GB/s inside, 10 GB/s for each device between.
const char* const kNodes =
    "name: nodes\n"
    "device_types:\n"
    "  G: {kind: gpu, peak_tflop_per_s: {float32: 1, float64: 1}, memory_gibytes: 1, memory_bandwidth_gbytes_per_s: 1, "
    "efficiency: 1, launch_overhead_us: 0}\n"
    "  C: {kind: cpu, peak_tflop_per_s: {float32: 1, float64: 1}, memory_gibytes: 1, memory_bandwidth_gbytes_per_s: 1, "
    "efficiency: 1, launch_overhead_us: 0}\n"
    "topology:\n"
    "  link: {bandwidth_gbytes_per_s: 10, latency_us: 2, per_device: true}\n"
    "  children:\n"
    "    - name: node\n"
    "      count: 2\n"
    "      link: {bandwidth_gbytes_per_s: 100, latency_us: 1}\n"
    "      host: {type: C, link: {bandwidth_gbytes_per_s: 10, latency_us: 1}}\n"
    "      children:\n"
    "        - {name: gpu, count: 4, type: G}\n";

std::vector<Prediction> of(const std::string& csv) {
  return predict(parse_csv(csv, "t.csv"), parse_cluster(kNodes, "nodes.yaml"));
}

TEST(Predict, RowsOfCollectives) {
  const auto p =
      of("collective,gpus,nodes,bytes,time_us,algbw_GBps,busbw_GBps,system\n"
         "all_reduce,4,1,4000000,72,,,x\n"      // 6 hops of 2 us, 6 MB at 100 GB/s
         "AllGather,4,,4000000,,80,,x\n"        // 3 hops, 3 MB; measured 50 us
         "reduce-scatter,8,2,8000000,,,35,x\n"  // 7 hops of 4 us, 7 MB over four ports; measured 200 us
         "sendrecv,2,2,1000000,208,,,x\n"
         "broadcast,4,1,1000,5,,,x\n"
         "all_reduce,16,4,1000,5,,,x\n"
         "alltoall,4,1,,5,,,x\n"
         "all_gather,2,1,1000000,,,,x\n");
  ASSERT_EQ(p.size(), 8u);
  EXPECT_DOUBLE_EQ(*p[0].predicted_us, 6 * 2 + 60);
  EXPECT_NEAR(*p[0].error(), 0, 1e-12);
  EXPECT_EQ(p[0].algorithm, "ring");
  EXPECT_EQ(p[0].kind, "all-reduce, 4 devices");
  EXPECT_EQ(p[0].size, "1 MiB and more");
  EXPECT_DOUBLE_EQ(*p[1].predicted_us, 3 * 2 + 30);
  EXPECT_DOUBLE_EQ(*p[1].measured_us, 50);
  EXPECT_DOUBLE_EQ(*p[2].predicted_us, 7 * 4 + 7e6 / 40e3);
  EXPECT_DOUBLE_EQ(*p[2].measured_us, 200);
  EXPECT_EQ(p[2].kind, "reduce-scatter, 8 devices on 2 nodes");
  EXPECT_DOUBLE_EQ(*p[3].predicted_us, 4 + 100);
  EXPECT_DOUBLE_EQ(*p[3].error(), -0.5);
  EXPECT_EQ(p[4].why_not, "plans have no broadcast");
  EXPECT_EQ(p[5].why_not, "16 devices on 4 nodes are needed, the cluster has 8 on 2");
  EXPECT_EQ(p[6].why_not, "the row has no bytes");
  EXPECT_TRUE(p[7].predicted_us);
  EXPECT_FALSE(p[7].error());
}

// A GPU of 100 TFLOP/s in float32, 400 in bfloat16, 1 TB/s and 3 us a launch; of 100 multiprocessors where `sized`.
std::vector<Prediction> of_kernels(const std::string& csv, bool sized = false) {
  std::string yaml = kNodes;
  const std::string figures =
      "float32: 1, float64: 1}, memory_gibytes: 1, memory_bandwidth_gbytes_per_s: 1, "
      "efficiency: 1, launch_overhead_us: 0";
  const size_t at = yaml.find(figures);
  EXPECT_NE(at, std::string::npos);
  yaml.replace(at, figures.size(),
               std::string("float32: 100, float64: 50, bfloat16: 400}, memory_gibytes: 1, "
                           "memory_bandwidth_gbytes_per_s: 1000, efficiency: 1, launch_overhead_us: 3") +
                   (sized ? ", multiprocessors: 100, clock_ghz: 1, fused_attention: 1" : ""));
  return predict(parse_csv(csv, "t.csv"), parse_cluster(yaml, "nodes.yaml"));
}

TEST(Predict, RowsOfProducts) {
  const auto p = of_kernels(
      "m,n,k,dtype,batch,time_us,tflops\n"
      "1000,1000,1000,fp32,,46,\n"                                 // 2 GFLOP
      "1000,1000,1000,\"fp16 in, fp32 acc tensor core\",5,,100\n"  // 10 GFLOP at float32's rate; measured 100 us
      "10000,100,100,bf16,,,\n"                                    // 4.02 MB
      "8,8,8,nvfp4,,1,\n");
  EXPECT_DOUBLE_EQ(*p[0].predicted_us, 3 + 20);
  EXPECT_DOUBLE_EQ(*p[0].error(), -0.5);
  EXPECT_EQ(p[0].kind, "product, float32");
  EXPECT_EQ(p[0].size, "1 to 100 GFLOP");
  EXPECT_DOUBLE_EQ(*p[1].predicted_us, 3 + 100);
  EXPECT_DOUBLE_EQ(*p[1].measured_us, 100);
  EXPECT_DOUBLE_EQ(*p[2].predicted_us, 3 + 4.02);
  EXPECT_EQ(p[3].why_not, "Partita has no products in nvfp4");
  // A wave of 10 x 10 tiles of 128 x 128 at 1 TFLOP/s each, and 7.2 MB, which overlap in part.
  EXPECT_NEAR(*of_kernels("m,n,k,dtype\n1280,1280,64,fp32\n", true)[0].predicted_us,
              std::cbrt(std::pow(2.097152, 3) + std::pow(7.2089600, 3)) + 3, 1e-6);
}

TEST(Predict, RowsOfAttention) {
  const std::string columns = "pass,head_dim,seq_q,seq_kv,batch,heads_q,heads_kv,causal,dtype,impl,time_us,tflops\n";
  const auto p = of_kernels(columns +
                                "fwd,128,1024,1024,100,8,8,0,bf16,x,,200\n"
                                "fwd,128,1024,1024,100,8,2,0,bf16,x (includes rope and KV write),,200\n"
                                "bwd,128,1024,1024,100,8,8,1,bf16,x,,200\n"
                                "decode,128,1,1024,100,8,8,1,bf16,x,1000,\n"
                                "fwd,128,1024,1024,100,8,8,0,fp8,x,1,\n"
                                "fwd,128,1024,,,,,0,fp16,standard PyTorch attention,,10\n",
                            true);
  // 8 x 8 x 8 tiles of 128^2 pairs, each 512 FLOPs at 4 TFLOP/s and an exponential; q, k, v, o of 210 MB each.
  const double q = 100 * 8 * 1024 * 128 * 2 / 1e6, pair = 512 / 4e6 + 1 / 16e3;
  EXPECT_NEAR(*p[0].predicted_us, 3 + 512 * 16384 * pair + 4 * q, 1e-6);
  EXPECT_NEAR(*p[0].measured_us, 4.0 * 100 * 8 * 1024 * 1024 * 128 / 200e6, 1e-6);
  EXPECT_EQ(p[0].kind, "attention, forward");
  // Fewer heads of k and v, and two kernels more.
  EXPECT_NEAR(*p[1].predicted_us, 3 + 512 * 16384 * pair + 2.5 * q + 6 + (2 + 0.5 + 1) * q, 1e-6);
  // 36 of 64 tiles and five products, 0.8 of the rate. The papers' count: half, times 2.5.
  EXPECT_NEAR(*p[2].predicted_us, 3 + 8 * 36.03 * 16384 * (1280 / 4e6 + 1 / 16e3) / 0.8 + 8 * q, 60);
  EXPECT_NEAR(*p[2].measured_us, 1.25 * *p[0].measured_us, 1e-6);
  EXPECT_EQ(p[2].kind, "attention, backward");
  EXPECT_EQ(p[3].kind, "attention, one query");
  EXPECT_NEAR(*p[3].predicted_us, 6 + 8 * 8 * 16 * 128 * pair + 2 * (q + q / 1024), 1e-6);
  EXPECT_EQ(p[4].why_not, "Partita has no attention in fp8");
  EXPECT_EQ(p[5].kind, "attention, unfused");
  EXPECT_NEAR(*p[5].measured_us, 4.0 * 16384 * 1024 * 2048 / 10e6, 1e-6) << "FlashAttention's benchmark";
}

TEST(Predict, RowsOfMemoryBoundKernels) {
  const auto p = of_kernels(
      "kernel,bytes,GBps,time_us,launch_mode\n"
      "triad,,500,,\n"
      "add,1000000,,8,\"blockSize 1024, occupancy 100.0% (1 block/SM)\"\n"
      "triad,,300,,\"blockSize 128, occupancy 12.5% (1 block/SM)\"\n"
      "L2 working-set read,1000,5000,,\n"
      "cudaMemcpy host to device,1000,,30,\n");
  EXPECT_DOUBLE_EQ(*p[0].predicted_us, 3 + 1000);
  EXPECT_DOUBLE_EQ(*p[0].measured_us, 2000);
  EXPECT_DOUBLE_EQ(*p[1].predicted_us, 3 + 1);
  EXPECT_DOUBLE_EQ(*p[1].error(), -0.5);
  EXPECT_EQ(p[2].why_not, "few threads on each multiprocessor, where a plan's kernels fill it");
  EXPECT_EQ(p[3].why_not, "reads of the cache again and again, which no plan has");
  EXPECT_EQ(p[4].why_not, "copies from or to the host are the link's, and no kernel");
}

TEST(Predict, RowsOfOtherDevicesAreLeftOut) {
  const auto p = of("collective,gpus,bytes,system\nall_reduce,2,1,our G-4\nall_reduce,2,1,HG 80\n");
  EXPECT_TRUE(p[0].predicted_us);
  EXPECT_EQ(p[1].why_not, "of another device than the cluster's G");
  EXPECT_TRUE(of("collective,gpus,bytes,system\nall_reduce,2,1,ours\nall_reduce,2,4,ours\n")[1].predicted_us)
      << "one system, whatever its name";
}

TEST(Predict, BadTablesAreRefused) {
  EXPECT_EQ(error_of([] { of("a,b\n1,2\n"); }),
            "t.csv: the columns a, b are of no kind of table that is known; these are collectives (collective, bytes, "
            "gpus), products (m, n, k, dtype), attention (pass, head_dim, seq_q), memory-bound kernels (kernel, "
            "bytes)");
  EXPECT_EQ(error_of([] { of("collective,gpus,bytes\nall_reduce,x,1\n"); }),
            "t.csv:2: gpus is 'x', which is not a positive number");
  EXPECT_EQ(error_of([] { of("collective,gpus,bytes\nall_reduce,1,1\n"); }),
            "t.csv:2: gpus is 1 on 1 nodes; a group has two or more, as many on each node");
}

TEST(Predict, TheTableComesBackWithFourColumnsMore) {
  Table table = parse_csv("collective,gpus,bytes,time_us\nall_reduce,4,4000000,144\nbroadcast,4,1,1\n", "t.csv");
  const auto p = predict(table, parse_cluster(kNodes, "nodes.yaml"));
  table = with_predictions(std::move(table), p);
  EXPECT_EQ(print_csv(table),
            "collective,gpus,bytes,time_us,predicted_us,algorithm,error,not_predicted\n"
            "all_reduce,4,4000000,144,72,ring,-0.5000,\n"
            "broadcast,4,1,1,,,,plans have no broadcast\n");
  EXPECT_EQ(error_of([&] { with_predictions(table, p); }),
            "t.csv: it has a column 'predicted_us' already; remove it, or give the table that was predicted from");
}

TEST(Predict, ErrorsAreSummedUpByKindAndSize) {
  std::vector<Prediction> p(4);
  for (int i = 0; i < 4; ++i) {
    p[i].kind = i < 3 ? "a" : "b";
    p[i].size = "s";
    p[i].measured_us = 100;
  }
  p[0].predicted_us = 110;
  p[1].predicted_us = 50;
  p[2].predicted_us = 102;
  p[3].predicted_us = 300;
  const auto s = summed_up(p);
  ASSERT_EQ(s.size(), 3u);
  EXPECT_EQ(s[0].kind, "a");
  EXPECT_EQ(s[0].rows, 3);
  EXPECT_NEAR(s[0].median, 0.1, 1e-12);
  EXPECT_NEAR(s[0].most, 0.5, 1e-12);
  EXPECT_NEAR(s[0].factor, 1.1, 1e-12);
  EXPECT_EQ(s[2].kind, "all");
  EXPECT_EQ(s[2].rows, 4);
  EXPECT_EQ(worst_rows(p, 2), (std::vector<size_t>{3, 1}));
}

TEST(Predict, OnlySomeRows) {
  Table t = parse_csv("system,n\nHGX H100,1\nDGX H100,2\nHGX A100,3\n", "t.csv");
  Table kept = t;
  keep_rows(kept, "system=HGX*");
  EXPECT_EQ(kept.rows.size(), 2u);
  EXPECT_EQ(kept.lines, (std::vector<int>{2, 4}));
  EXPECT_EQ(error_of([&] { keep_rows(t, "system=X*"); }), "--only system=X*: no row of t.csv is so");
  EXPECT_EQ(error_of([&] { keep_rows(t, "gpu=1"); }), "--only gpu=1: t.csv has no column 'gpu'; it has system, n");
  EXPECT_EQ(error_of([&] { keep_rows(t, "system"); }),
            "--only 'system' is not COLUMN=TEXT, where * stands for any text");
}

}  // namespace
}  // namespace partita
