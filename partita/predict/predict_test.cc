// Tests predictions of tables of measurements.
#include "partita/predict/predict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "partita/base/testing/error_of.h"
#include "partita/cost/collective.h"

namespace partita {
namespace {

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

TEST(Csv, BlanksAndCapitalsDoNotMatter) {
  const Table t = parse_csv("collective, Bytes ,\tGPUs\r\n all_gather , \" 1\" ,2 \r\n", "t.csv");
  EXPECT_EQ(t.columns, (std::vector<std::string>{"collective", "Bytes", "GPUs"}));
  EXPECT_EQ(t.rows, (std::vector<std::vector<std::string>>{{"all_gather", " 1", "2"}}));
  EXPECT_EQ(t.column("bytes"), 1u);
  EXPECT_EQ(t.cell(0, "gpus"), "2");
}

TEST(Csv, WhatIsNoCsvIsSaidByItsCause) {
  using namespace std::string_view_literals;
  EXPECT_EQ(error_of([] { parse_csv("m;n;k\n1;2;3\n", "t.csv"); }),
            "t.csv:1: the columns are separated by ';'; separate them by commas");
  EXPECT_EQ(error_of([] { parse_csv("m\tn\n1\t2\n", "t.csv"); }),
            "t.csv:1: the columns are separated by '\\t'; separate them by commas");
  EXPECT_EQ(error_of([] { parse_csv("\xff\xfem\0\n\0"sv, "t.csv"); }), "t.csv: the text is UTF-16; save it as UTF-8");
  EXPECT_EQ(error_of([] { parse_csv("a,b\nx\0y,1\n"sv, "t.csv"); }),
            "t.csv:2: a byte that is 0; the table is text in UTF-8");
  EXPECT_EQ(error_of([] { parse_csv("a,b\r1,2\r", "t.csv"); }),
            "t.csv: its lines end in carriage returns alone; save it with ends of lines of Unix or Windows");
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

TEST(Predict, RowsOfCollectivesThatCannotBe) {
  const auto p =
      of("collective,gpus,nodes,bytes\n"
         "all_reduce,1,1,1000\n"
         "all_reduce,5,2,1000\n"
         "all_reduce,1e8,1,1000\n"
         "all_reduce,4,0,1000\n"
         "all_reduce,,1,1000\n"
         "all_reduce,4,1,0\n"
         "all_reduce,4,1,1e300\n");
  EXPECT_EQ(p[0].why_not, "a group of one device has nothing to send");
  EXPECT_EQ(p[1].why_not, "5 devices on 2 nodes are not as many on each");
  EXPECT_EQ(p[2].why_not, "gpus is above 32768, the most that a cluster has");
  EXPECT_EQ(p[3].why_not, "nodes is 0");
  EXPECT_EQ(p[4].why_not, "the row has no gpus");
  EXPECT_EQ(p[5].why_not, "it has 0 bytes");
  EXPECT_EQ(p[6].why_not, "of more than 1e+18 bytes");
}

// A node of three and one of five.
TEST(Predict, NodesOfSeveralSizes) {
  std::string yaml = kNodes;
  const size_t begin = yaml.find("    - name: node\n");
  std::string five = yaml.substr(begin);
  for (std::string* node : {&yaml, &five}) {
    node->replace(node->find("count: 4"), 8, node == &yaml ? "count: 3" : "count: 5");
    node->replace(node->find("count: 2"), 8, "count: 1");
  }
  five.replace(five.find("name: node"), 10, "name: more");
  const auto p =
      predict(parse_csv("collective,gpus,nodes,bytes\nall_reduce,8,2,1000\nall_reduce,4,1,4000000\nall_reduce,6,2,1\n",
                        "t.csv"),
              parse_cluster(yaml + five, "nodes.yaml"));
  EXPECT_EQ(p[0].why_not, "8 devices on 2 nodes are needed, the cluster has 8 on 2, 3 to 5 on each");
  EXPECT_DOUBLE_EQ(p[1].predicted_us.value_or(0), 6 * 2 + 60) << "those of the second node";
  EXPECT_TRUE(p[2].predicted_us);
}

// A GPU of 100 TFLOP/s in float32, 400 in bfloat16, 1 TB/s and 3 us a launch; with 100 multiprocessors if `sized`.
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
                   // A kernel alone is at its whole clock.
                   (sized ? ", multiprocessors: 100, clock_ghz: 1, fused_attention: 1, sustained: 0.5" : ""));
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

TEST(Predict, NamesOfDtypes) {
  const auto p = of_kernels(
      "m,n,k,dtype\n"
      "8,8,8,FP64\n8,8,8,double\n8,8,8,float\n8,8,8,f32\n8,8,8,torch.bfloat16\n8,8,8,half\n"
      "8,8,8,\"fp32 in, fp16 out\"\n8,8,8,fp6\n8,8,8,float8_e4m3fn\n8,8,8,tf32\n8,8,8,x\n");
  const char* const kinds[] = {"float64", "float64", "float32", "float32", "bfloat16", "float16", "float32"};
  for (size_t r = 0; r < 7; ++r) EXPECT_EQ(p[r].kind, std::string("product, ") + kinds[r]) << r;
  for (size_t r = 7; r < 11; ++r) EXPECT_NE(p[r].why_not, "") << r;
}

TEST(Predict, ProductsThatCannotBe) {
  const auto p =
      of_kernels("m,n,k,dtype,batch\n8,,8,bf16,1\n0,8,8,bf16,1\n8,8,1e200,bf16,1\n8,8,8,bf16,0\n8,8,8,bf16,\n");
  EXPECT_EQ(p[0].why_not, "the row has no n");
  EXPECT_EQ(p[1].why_not, "m is 0");
  EXPECT_EQ(p[2].why_not, "k is above 1e+09");
  EXPECT_EQ(p[3].why_not, "batch is 0");
  EXPECT_TRUE(p[4].predicted_us);
  EXPECT_EQ(error_of([] { of_kernels("m,n,k,dtype\n0.1,8,8,bf16\n"); }), "t.csv:2: m is 0.1; it is a whole number");
  EXPECT_EQ(error_of([] { of_kernels("m,n,k,dtype\n0x10,8,8,bf16\n"); }),
            "t.csv:2: m is '0x10', which is not a positive number");
}

// With fewer keys the first queries see nothing: the time is that of the queries that do, in whole tiles.
TEST(Predict, CausalAttentionWithFewerKeysThanQueries) {
  const auto p = of_kernels(
      "pass,head_dim,seq_q,seq_kv,batch,heads_q,heads_kv,causal,dtype\n"
      "fwd,128,8192,1,1,8,8,1,bf16\n"
      "bwd,128,8192,1,1,8,8,1,bf16\n"
      "fwd,128,2048,1024,100,8,8,1,bf16\n"
      "fwd,128,2048,1024,100,8,8,0,bf16\n"
      "fwd,128,1024,1024,100,8,8,1,bf16\n",
      true);
  const auto compute = [&](size_t r, double queries) {  // less the launch and the bytes of q, k, v and o
    return *p[r].predicted_us - 3 - 100 * 8 * 128 * 2 * 2 * (queries + 1024) / 1e6;
  };
  for (size_t r : {0u, 1u}) EXPECT_GT(*p[r].predicted_us, 3);
  EXPECT_NEAR(compute(2, 2048) / compute(3, 2048), 0.25 + 8.0 / 128, 1e-3) << "and half a tile of each of 16 rows of 8";
  EXPECT_GE(*p[2].predicted_us, *p[4].predicted_us);
}

TEST(Predict, PassesOfAttention) {
  const auto p = of_kernels(
      "pass,head_dim,seq_q,causal\n"
      "Forward,64,1024,1\nbackward,64,1024,1\nfwd+bwd,64,1024,1\n,64,1024,1\ndecode,64,1024,1\nfwd,64,1024,no\n",
      true);
  EXPECT_EQ(p[0].kind, "attention, forward");
  EXPECT_EQ(p[1].kind, "attention, backward");
  EXPECT_EQ(p[2].why_not, "pass is 'fwd+bwd', not fwd, bwd or decode");
  EXPECT_EQ(p[3].why_not, "pass is '', not fwd, bwd or decode");
  EXPECT_EQ(p[4].why_not, "decode is of one query");
  EXPECT_GT(*p[5].predicted_us, *p[0].predicted_us);
  EXPECT_EQ(error_of([] { of_kernels("pass,head_dim,seq_q,causal\nfwd,64,1024,2\n"); }),
            "t.csv:2: causal is '2'; it is 1 or 0");
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
  for (const Prediction& named :
       of_kernels("kernel,bytes\nl2_normalize,1000\nL2norm,1000\nghost copy,1000\nL2 norm,1000\nhostile,1000\n"))
    EXPECT_TRUE(named.predicted_us) << named.why_not;
  EXPECT_EQ(of_kernels("kernel,bytes\ncudaMemcpyHostToDevice,1000\n")[0].why_not, p[4].why_not);
  EXPECT_EQ(of_kernels("kernel,bytes\ntriad,0\n")[0].why_not, "it has 0 bytes");
}

TEST(Predict, RowsOfOtherDevicesAreLeftOut) {
  const auto p = of("collective,gpus,bytes,system\nall_reduce,2,1,our G-4\nall_reduce,2,1,HG 80\n");
  EXPECT_TRUE(p[0].predicted_us);
  EXPECT_EQ(p[1].why_not, "of another device than the cluster's G");
  EXPECT_TRUE(of("collective,gpus,bytes,system\nall_reduce,2,1,ours\nall_reduce,2,4,ours\n")[1].predicted_us)
      << "one system, whatever its name";
}

// Cards of the same number: G, 1 GiB.
TEST(Predict, VariantsOfTheDeviceAreOthers) {
  const auto why_not = [](const std::string& gpu, const std::string& other = "X") {
    return of_kernels("m,n,k,dtype,gpu\n8,8,8,fp32," + gpu + "\n8,8,8,fp32," + other + "\n")[0].why_not;
  };
  for (const char* own : {"G", "NVIDIA G SXM5", "G-SXM (PCIe 5 host)", "G 1GB", "G NVLink"})
    EXPECT_EQ(why_not(own), "");
  for (const std::string other : {"G PCIe", "G-PCIE-1GB", "G NVL", "G MIG 1g", "G-80GB"}) {
    EXPECT_EQ(why_not(other), "of another device than the cluster's G: " + other);
    EXPECT_EQ(why_not(other, other), "of another device than the cluster's G: " + other) << "the only one";
  }
  EXPECT_EQ(why_not("GG"), "of another device than the cluster's G");
  // Links are the same whatever the memory.
  EXPECT_EQ(of("collective,gpus,bytes,gpu\nall_reduce,2,1,G-80GB\nall_reduce,2,1,X\n")[0].why_not, "");
}

TEST(Predict, WhatOnlyHasAnotherNameIsTakenWithANote) {
  const auto notes = [](const std::string& csv) {
    return notes_of(parse_csv(csv, "t.csv"), parse_cluster(kNodes, "nodes.yaml"));
  };
  EXPECT_EQ(notes("collective,gpus,bytes,system\nall_reduce,2,1,ours\nall_reduce,2,4,ours\n"),
            std::vector<std::string>{"t.csv: all rows are of 'ours', which does not name the cluster's G; they are "
                                     "predicted as if they were of it"});
  EXPECT_TRUE(notes("collective,gpus,bytes,system\nall_reduce,2,1,our G-4\n").empty());
  EXPECT_TRUE(notes("collective,gpus,bytes\nall_reduce,2,1\n").empty());
}

TEST(Predict, BadTablesAreRefused) {
  EXPECT_EQ(error_of([] { of("a,b\n1,2\n"); }),
            "t.csv: the columns a, b are of no kind of table that is known; these are collectives (collective, bytes, "
            "gpus), products (m, n, k, dtype), attention (pass, head_dim, seq_q), memory-bound kernels (kernel, "
            "bytes)");
  EXPECT_EQ(error_of([] { of("collective,gpus,bytes\nall_reduce,x,1\n"); }),
            "t.csv:2: gpus is 'x', which is not a positive number");
  EXPECT_EQ(error_of([] { of("collective,gpus,bytes\nall_reduce,2.5,1\n"); }),
            "t.csv:2: gpus is 2.5; it is a whole number");
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
  EXPECT_NEAR(s[0].signed_median, 0.02, 1e-12);
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
