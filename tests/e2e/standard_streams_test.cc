// Tests standard streams that are full, closed, or have lost their reader.
#include <sys/resource.h>

#include <filesystem>

#include "tests/e2e/shell.h"

namespace partita {
namespace {

const std::string kTrain = "PARTITA train zoo:mlp?width=8,batch=8 --devices 2 --search data-parallel --steps 20";
const std::string kPlan = "PARTITA plan zoo:mlp?width=8,batch=8 --devices 2 --search data-parallel";

std::string fresh(const std::string& name) {
  std::filesystem::remove(scratch(name));
  return scratch(name);
}
int lines_of(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

// If messages cannot be written, the run is the same.
TEST(StandardError, ThatCannotBeWrittenEndsNothing) {
  const std::string whole = fresh("whole.safetensors"), log = fresh("log");
  ASSERT_EQ(shell(kTrain + " --save " + whole).code, 0);
  for (const char* errors : {"2>/dev/full", "2>&-", "2>&- 0<&-"}) {
    SCOPED_TRACE(errors);
    const std::string saved = fresh("saved.safetensors");
    const Outcome o = shell(fmt::format("{} --save {} --log {} {}", kTrain, saved, log, errors));
    EXPECT_EQ(o.code, 0);
    EXPECT_NE(o.out.find("trained        20 steps"), std::string::npos) << o.out;
    EXPECT_EQ(contents(saved), contents(whole));
    EXPECT_EQ(lines_of(contents(log)), 20);
  }
  // A reader that has gone.
  const std::string saved = fresh("saved.safetensors"), code = fresh("code");
  shell(fmt::format("{{ sleep 0.2; {} --save {} 2>&1 >/dev/null; echo $? >{}; }} | true", kTrain, saved, code));
  EXPECT_EQ(contents(code), "0\n");
  EXPECT_EQ(contents(saved), contents(whole));
}

TEST(StandardError, ThatCannotBeWrittenEndsNoOtherCommand) {
  const std::string file = fresh("file");
  for (const std::string& words :
       Words{kPlan + " -o " + file,
             std::string("PARTITA compare zoo:mlp --devices 2 --search soybean,single --max-steps 5"),
             "PARTITA profile zoo:mlp?width=8,batch=8 --devices 1 --seconds 0.001 -o " + fresh("profile.json"),
             "PARTITA plan zoo:mlp --devices 2 --search exact --verbose",
             "PARTITA solve " + data("sharding_example.json")})
    for (const char* errors : {"2>/dev/full", "2>&-"})
      EXPECT_EQ(shell(fmt::format("{} {}", words, errors)).code, 0) << words << " " << errors;
  EXPECT_EQ(Json::parse(contents(file))["search"], "data-parallel");
  for (const char* errors : {"2>/dev/full", "2>&-"})  // an error's code stands
    EXPECT_EQ(shell(fmt::format("PARTITA show no/such.onnx {}", errors)).code, 3);
}

// A file never lands on a descriptor that the caller has closed.
TEST(StandardError, IsNoFileOfTheProgram) {
  const std::string plan = fresh("plan.json"), again = fresh("again.json"), dump = scratch("dump");
  ASSERT_EQ(shell(kPlan + " -o " + plan).code, 0);
  for (const char* closed : {"2>&-", "0<&- 2>&-", "0<&-"}) {
    EXPECT_EQ(shell(fmt::format("{} --verbose --dump {} -o {} {}", kPlan, dump, again, closed)).code, 0) << closed;
    EXPECT_EQ(contents(again), contents(plan)) << closed;
  }
  for (const char* closed : {"1>&-", "0<&- 1>&- 2>&-"}) {
    fresh("again.json");
    EXPECT_EQ(shell(fmt::format("{} -o {} {}", kPlan, again, closed)).code, 3) << closed;
    EXPECT_EQ(contents(again), contents(plan)) << closed;
  }
  EXPECT_NE(shell(kPlan + " 1>&-").err.find("standard output cannot be written"), std::string::npos);
  EXPECT_EQ(shell(kPlan + " -o /dev/stderr 2>&-").code, 3);
  EXPECT_EQ(shell("PARTITA predict /dev/stdin --cluster dgx-h100 0<&-").code, 3);
}

TEST(StandardOutput, ThatCannotBeWrittenComesAfterTheFiles) {
  const std::string saved = fresh("saved.safetensors"), log = fresh("log"), trace = fresh("trace"),
                    plan = fresh("plan.json");
  EXPECT_EQ(shell(fmt::format("{} --save {} --log {} --trace {} >/dev/full", kTrain, saved, log, trace)).code, 3);
  EXPECT_GT(contents(saved).size(), 500u);
  EXPECT_EQ(lines_of(contents(log)), 20);
  EXPECT_TRUE(Json::parse(contents(trace)).is_object());
  EXPECT_EQ(shell(kPlan + " >/dev/full -o " + plan).code, 3);
  EXPECT_EQ(Json::parse(contents(plan))["search"], "data-parallel");
}

// A reader that has gone ends nothing: files are written, and the exit code is that of output that cannot be written.
TEST(StandardOutput, WhoseReaderHasGoneComesAfterTheFiles) {
  const std::string saved = fresh("saved.safetensors"), plan = fresh("plan.json"), code = fresh("code"),
                    errors = scratch("errors");
  const auto code_of = [&](const std::string& words) {
    shell(fmt::format("{{ sleep 0.2; {} 2>{}; echo $? >{}; }} | true", words, errors, code));
    EXPECT_NE(contents(errors).find("standard output cannot be written: Broken pipe"), std::string::npos)
        << words << ": " << contents(errors);
    return contents(code);
  };
  EXPECT_EQ(code_of(kPlan + " -o " + plan), "3\n");
  EXPECT_EQ(Json::parse(contents(plan))["search"], "data-parallel");
  EXPECT_EQ(code_of(kTrain + " --save " + saved), "3\n");
  EXPECT_GT(contents(saved).size(), 500u);
  for (const char* words : {"models", "plan --help", "show zoo:mlp --json", "compare zoo:mlp --search single,single"})
    EXPECT_EQ(code_of(fmt::format("PARTITA {}", words)), "3\n") << words;
}

// One file that cannot be written takes no other one along.
TEST(Files, AreEachWritten) {
  const std::string log = fresh("log"), trace = fresh("trace"), saved = fresh("saved.safetensors");
  const Outcome o = shell(fmt::format("{} --save /dev/full --log {} --trace {}", kTrain, log, trace));
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("/dev/full: cannot be written: No space left"), std::string::npos) << o.err;
  EXPECT_EQ(lines_of(contents(log)), 20);
  EXPECT_TRUE(Json::parse(contents(trace)).is_object());
  EXPECT_EQ(shell(fmt::format("{} --save {} --log /dev/full", kTrain, saved)).code, 3);
  EXPECT_GT(contents(saved).size(), 500u);
}

// ulimit -f: a signal by default.
TEST(Files, OverTheLimitOfTheirSizeAreAnError) {
  const std::string saved = fresh("big.safetensors"), log = fresh("log");
  const Outcome o = shell(
      fmt::format("(ulimit -f 8; PARTITA train zoo:mlp?width=64,batch=8 --steps 2 --save {} --log {})", saved, log));
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("big.safetensors: cannot be written: File too large"), std::string::npos) << o.err;
  EXPECT_FALSE(std::filesystem::exists(saved));
  EXPECT_EQ(lines_of(contents(log)), 2);
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(saved).parent_path()))
    EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
}

}  // namespace
}  // namespace partita
