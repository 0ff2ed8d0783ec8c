// Tests the command `predict`, and `clusters` with a name: exit codes, text, files and JSON.
#include <gtest/gtest.h>

#include <string>

#include "program.h"

namespace partita {
namespace {

constexpr const char* kTable =
    "system,gpus,nodes,collective,bytes,time_us\n"
    "HGX H100,8,1,all_reduce,1073741824,4029.4\n"
    "HGX H100,8,1,all_gather,67108864,208.1\n"
    "HGX H100,16,2,all_reduce,1048576,87\n"
    "HGX A100,8,1,all_reduce,1073741824,8159\n"
    "HGX H100,8,1,broadcast,1024,10\n";

TEST(CliPredict, SetsWhatTheModelSaysBesideTheTable) {
  const std::string table = put("collectives.csv", kTable);
  const std::string out = scratch("predicted.csv");
  const Outcome o = partita({"predict", table, "--cluster", "dgx-h100", "-o", out});
  EXPECT_EQ(o.code, 0) << o.err;
  for (const char* text :
       {"all-reduce, 8 devices", "1 MiB and more", "nvls", "plans have no broadcast",
        "16 devices on 2 nodes are needed, the cluster has 8 on 1", "of another device than the cluster's H100"})
    EXPECT_NE(o.out.find(text), std::string::npos) << text << "\n" << o.out;
  const std::string table_out = contents(out);
  EXPECT_TRUE(table_out.starts_with("system,gpus,nodes,collective,bytes,time_us,predicted_us,algorithm,error,"))
      << table_out;

  const Json figures = json_of({"predict", table, "--cluster", "dgx-h100:2", "--only", "collective=all_*"});
  EXPECT_EQ(figures["rows"], 4);
  EXPECT_EQ(figures["not_predicted"], 1);
  for (const Json& s : figures["summary"]) EXPECT_LT(s["median_error"].get<double>(), 0.5);
  EXPECT_EQ(figures["worst"].size(), 3u);
  EXPECT_TRUE(figures["notes"].empty());
}

// A model that is too fast is distinguished from one that is too slow, and rows name their figures.
TEST(CliPredict, ErrorsHaveASign) {
  for (const auto& [us, sign] : {std::pair{"8058", "-4"}, {"2014", "+10"}}) {
    const std::string table =
        put("signed.csv", std::string("gpus,nodes,collective,bytes,time_us\n8,1,all_reduce,1073741824,") + us + "\n");
    const Outcome o = partita({"predict", table, "--cluster", "dgx-h100"});
    EXPECT_NE(o.out.find(sign), std::string::npos) << o.out;
    EXPECT_NE(o.out.find("line 2: collective all_reduce, gpus 8, nodes 1, bytes 1073741824: "), std::string::npos)
        << o.out;
    EXPECT_EQ(json_of({"predict", table, "--cluster", "dgx-h100"})["summary"][0]["median_signed_error"] < 0,
              sign[0] == '-');
  }
}

TEST(CliPredict, SaysWhatItTookAndWhatItCouldNotCompare) {
  const std::string table =
      put("ours.csv", "system,gpus,collective,bytes\nours,8,all_reduce,1000\nours,4,all_reduce,0\n");
  const Outcome o = partita({"predict", table, "--cluster", "dgx-h100"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("1 row predicted, none of which has a time to compare with"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("not predicted: 1 row: it has 0 bytes"), std::string::npos) << o.out;
  EXPECT_NE(o.err.find("all rows are of 'ours', which does not name the cluster's H100"), std::string::npos) << o.err;
}

TEST(CliPredict, BadTablesAreRefused) {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& message) {
    const Outcome o = partita(arguments);
    EXPECT_EQ(o.code, 3) << o.err;
    EXPECT_NE(o.err.find(message), std::string::npos) << o.err;
  };
  refused({"predict", "/nowhere.csv", "--cluster", "dgx-h100"}, "/nowhere.csv");
  refused({"predict", put("a.csv", "a,b\n1,2\n"), "--cluster", "dgx-h100"}, "of no kind of table that is known");
  refused({"predict", put("b.csv", kTable), "--cluster", "dgx-1"}, "nothing is predicted");
  refused({"predict", put("c.csv", kTable), "--cluster", "dgx-h100", "--only", "gpu=1"}, "no column 'gpu'");
  refused({"predict", put("d.csv", kTable), "--cluster", "dgx-h100", "--collective", "all_gather"},
          "--collective is for the output of nccl-tests");
}

// `clusters NAME` prints a cluster file of the same cluster.
TEST(CliClusters, PrintAPresetToBeginWith) {
  const Outcome o = partita({"clusters", "dgx-h200:2"});
  EXPECT_EQ(o.code, 0) << o.err;
  const std::string file = put("mine.yaml", o.out);
  const std::string table = put("e.csv", "gpus,nodes,collective,bytes,time_us\n16,2,all_reduce,1048576,87\n");
  const Outcome preset = partita({"predict", table, "--cluster", "dgx-h200:2"}),
                own = partita({"predict", table, "--cluster", file});
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(own.out, preset.out);
  EXPECT_EQ(partita({"clusters", "dgx-h900"}).code, 3);
}

}  // namespace
}  // namespace partita
