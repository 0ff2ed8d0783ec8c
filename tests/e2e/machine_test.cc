// Tests resources that the machine may refuse, and paths that are no regular files.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "partita/base/output_file.h"
#include "partita/base/testing/error_of.h"

namespace partita {
namespace {

namespace fs = std::filesystem;

std::string scratch(const std::string& name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder =
      fmt::format("{}/machine_test/{}.{}", PARTITA_BINARY_DIR, test->test_suite_name(), test->name());
  fs::create_directories(folder);
  return folder + "/" + name;
}
std::string fresh(const std::string& name) {
  fs::remove(scratch(name));
  return scratch(name);
}
std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

struct Outcome {
  int code = -1;
  std::string out, err;
};
// Runs a line of sh, in which PARTITA is the program. Catches standard error, and standard output if the line does not
// redirect it.
Outcome shell(std::string line) {
  const std::string out = scratch("out"), err = scratch("err");
  for (size_t at; (at = line.find("PARTITA")) != std::string::npos;)
    line.replace(at, 7, std::string(PARTITA_BINARY_DIR) + "/partita");
  const int status = std::system(fmt::format("{{ {}; }} >{} 2>{} </dev/null", line, out, err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(out), contents(err)};
}

// Expects one line on standard error.
void expect_line(const Outcome& o, int code, const std::string& part) {
  EXPECT_EQ(o.code, code) << o.err;
  EXPECT_NE(o.err.find(part), std::string::npos) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_EQ(o.err.find("internal error"), std::string::npos);
}

const char* const kPlan = "PARTITA plan zoo:mlp?width=8,batch=8 --devices 2 --search data-parallel";

// ---------------------------------------------------------------- files that are written

TEST(OutputFile, IsRenamedOntoARegularFileAndKeepsItsPermissions) {
  const std::string path = fresh("file");
  write_file(path, "one");
  struct stat before, after;
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  write_file(path, "two");
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(contents(path), "two");
  EXPECT_NE(before.st_ino, after.st_ino);
  EXPECT_EQ(after.st_mode & 07777, 0640u);
  for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path()))
    EXPECT_NE(entry.path().extension(), ".partial");
}

TEST(OutputFile, FollowsLinks) {
  const std::string target = fresh("target"), link = fresh("link"), second = fresh("second");
  fs::create_symlink("target", link);  // relative to its folder
  fs::create_symlink(link, second);
  for (const char* text : {"made", "and replaced"}) {
    write_file(second, text);
    EXPECT_TRUE(fs::is_symlink(link) && fs::is_symlink(second) && fs::is_regular_file(fs::symlink_status(target)));
    EXPECT_EQ(contents(target), text);
  }
  const std::string loop = fresh("loop");
  fs::create_symlink("loop", loop);
  EXPECT_NE(error_of([&] { write_file(loop, "x"); }).find("cannot be written"), std::string::npos);
  EXPECT_NE(error_of([&] { validate_writable(fs::path(target).parent_path()); }).find("it is a folder"),
            std::string::npos);
  EXPECT_NE(error_of([&] { validate_writable(scratch("nowhere/file")); }).find("cannot be written"), std::string::npos);
}

TEST(OutputFile, ThatIsAFifoIsWrittenThrough) {
  const std::string fifo = fresh("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = contents(fifo); });
  write_file(fifo, std::string(200000, 'x'));
  reader.join();
  EXPECT_EQ(read.size(), 200000u);
  EXPECT_TRUE(fs::is_fifo(fifo));
  // A reader that leaves early is an error, not a signal.
  std::thread early([&] { std::ifstream(fifo).get(); });
  EXPECT_NE(error_of([&] { write_file(fifo, std::string(4000000, 'x')); }).find("cannot be written"),
            std::string::npos);
  early.join();
  EXPECT_TRUE(fs::is_fifo(fifo));
}

// A device of the same numbers as /dev/full, made here; without the right to make one, the real one through a link.
TEST(OutputFile, ThatIsADeviceIsWrittenThrough) {
  const std::string device = fresh("device");
  if (mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0 || !std::ofstream(device)) {
    fs::remove(device);
    fs::create_symlink("/dev/full", device);
  }
  EXPECT_NE(error_of([&] { write_file(device, "x"); }).find("No space left on device"), std::string::npos);
  EXPECT_TRUE(fs::is_character_file(device));
}

TEST(OutputFile, OfCommandsMayBeAnything) {
  const std::string fifo = fresh("fifo"), link = fresh("link"), target = fresh("target");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink(target, link);
  const Outcome piped = shell(fmt::format("cat {0} > {0}.read & {1} -o {0} && wait", fifo, kPlan));
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_TRUE(fs::is_fifo(fifo));
  const Outcome linked = shell(fmt::format("{} -o {}", kPlan, link));
  EXPECT_EQ(linked.code, 0) << linked.err;
  EXPECT_TRUE(fs::is_symlink(link));
  const auto plan = nlohmann::json::parse(contents(target));
  EXPECT_EQ(plan, nlohmann::json::parse(contents(fifo + ".read")));
  // Standard output: the plan, then what the command prints.
  const Outcome shown = shell(fmt::format("{} -o /dev/stdout", kPlan));
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(shown.out.starts_with(contents(target))) << shown.out;
  EXPECT_NE(shown.out.find("peak memory"), std::string::npos);
  for (const char* option : {"--save", "--log", "--trace"}) {
    const Outcome o = shell(fmt::format("PARTITA train {} --devices 2 --search data-parallel --steps 1 {} /dev/full",
                                        "zoo:mlp?width=8,batch=8", option));
    EXPECT_EQ(o.code, 3) << option;
    EXPECT_NE(o.err.find("/dev/full: cannot be written: No space left"), std::string::npos) << o.err;
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

// ---------------------------------------------------------------- standard output

TEST(StandardOutput, ThatCannotBeWrittenIsAnError) {
  put(scratch("problem.json"), contents(std::string(PARTITA_SOURCE_DIR) + "/tests/data/sharding_example.json"));
  ASSERT_EQ(shell(fmt::format("{} -o {}", kPlan, scratch("plan.json"))).code, 0);
  const std::string plan = scratch("plan.json");
  for (const std::string& words :
       {std::string("models"), std::string("clusters"), std::string("searches"), std::string("ops"),
        std::string("ops matmul"), std::string("--help"), std::string("tdl 'f(a)[i] = a[i]'"),
        std::string("show zoo:mlp"), std::string("plan zoo:mlp?width=8,batch=8 --devices 2 --search data-parallel"),
        std::string("compare zoo:mlp?width=8,batch=8 --devices 2 --search data-parallel"), "simulate " + plan,
        "check " + plan, "explain " + plan, "train " + plan + " --steps 1",
        "solve " + scratch("problem.json") + " --max-steps 10"})
    for (const char* json : {"", " --json"}) {
      if (words == "--help" && *json) continue;
      SCOPED_TRACE(words + json);
      const Outcome o = shell("PARTITA " + words + json + " > /dev/full");
      EXPECT_EQ(o.code, 3) << o.err;
      EXPECT_NE(o.err.find("standard output cannot be written: "), std::string::npos) << o.err;
      EXPECT_EQ(o.err.find("internal error"), std::string::npos) << o.err;
    }
}

// ---------------------------------------------------------------- memory and threads

TEST(Machine, WithTooLittleMemorySaysSo) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer reserves more";
#endif
  int refused = 0;
  for (const int megabytes : {40, 60, 80, 100, 150, 200, 300}) {
    SCOPED_TRACE(megabytes);
    const Outcome o = shell(fmt::format(
        "ulimit -v {}; PARTITA plan zoo:gpt2?layers=2 --devices 4 --search exact --max-steps 20", megabytes * 1024));
    if (o.code == 0) continue;
    if (o.code == 127) continue;  // too little for the loader itself, which says so
    ++refused;
    EXPECT_EQ(o.code, 4) << o.err;
    EXPECT_NE(o.err.find("partita: this machine has too little memory for that"), std::string::npos) << o.err;
  }
  EXPECT_GT(refused, 0);
}

// If memory is too little for one of auto's searches, it has the plan of another.
TEST(Machine, WithTooLittleMemoryForAPartOfAutoHasThePlanOfAnother) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer reserves more";
#endif
  // Its memory depends on the system, and on which threads are there at once.
  constexpr int kLeast = 20, kMost = 210, kTries = 190;
  bool without_a_part = false;
  for (int i = 0; i < kTries && !without_a_part; ++i) {
    const int megabytes = kLeast + 7 * i % (kMost - kLeast);
    const Outcome o = shell(fmt::format(
        "ulimit -v {}; PARTITA plan zoo:gpt2?layers=2 --batch 8 --devices 4 --max-steps 20", megabytes * 1024));
    if (o.code == 0) without_a_part = o.err.find("the machine has too little memory for it") != std::string::npos;
    else EXPECT_TRUE(o.code == 4 || o.code == 127) << o.err;
  }
  EXPECT_TRUE(without_a_part);
}

TEST(Machine, WithoutThreadsPlansAndSaysWhyItDoesNotRun) {
  const std::string none = std::string(PARTITA_BINARY_DIR) + "/libpartita_no_threads.so";
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer takes no library before its own";
#endif
  ASSERT_TRUE(fs::exists(none));
  for (const char* words :
       {"plan zoo:mlp?width=8,batch=8 --devices 4 --search exact", "plan zoo:mlp?width=8,batch=8 --devices 4"}) {
    const Outcome o = shell(fmt::format("LD_PRELOAD={} PARTITA {}", none, words));
    EXPECT_EQ(o.code, 0) << o.err;
  }
  expect_line(
      shell(fmt::format(
          "LD_PRELOAD={} PARTITA train zoo:mlp?width=8,batch=8 --devices 2 --search data-parallel --steps 1", none)),
      4, "threads, and this machine started 0");
}

// ---------------------------------------------------------------- numbers

TEST(Json, LeavesOutWhatIsNoNumber) {
  const Outcome o = shell("PARTITA train zoo:mlp?width=8,batch=8 --lr 1e38 --steps 12 --json --log " + scratch("log"));
  EXPECT_EQ(o.code, 0) << o.err;
  const auto json = nlohmann::json::parse(o.out);
  EXPECT_FALSE(json.contains("loss_last")) << o.out;
  EXPECT_TRUE(json.at("loss_first").is_number());
  EXPECT_EQ(contents(scratch("log")).find("null"), std::string::npos);
  EXPECT_NE(contents(scratch("log")).find("{\"step\":11}"), std::string::npos);
}

TEST(Options, WithNegativeCountsAreUsageErrors) {
  for (const char* words : {"plan zoo:mlp --seed -1", "plan zoo:mlp --max-steps -1", "train zoo:mlp --seed -1",
                            "solve x.json --seed -1", "plan zoo:mlp --seed 1e400"})
    EXPECT_EQ(shell(fmt::format("PARTITA {}", words)).code, 2) << words;
  EXPECT_EQ(shell("PARTITA plan zoo:mlp --devices 2 --search data-parallel --seed 18446744073709551615").code, 0);
}

TEST(Plans, WithRadicesThatAreNoneAreRefused) {
  expect_line(shell(fmt::format("PARTITA check {}/tests/data/cases/radices/plan.json", PARTITA_SOURCE_DIR)), 3,
              "a radix of axis 0 is -1; radices are positive numbers");
}

}  // namespace
}  // namespace partita
