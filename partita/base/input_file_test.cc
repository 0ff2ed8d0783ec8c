// Tests files read up to a bound, and JSON objects read without conversions.
#include "partita/base/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "partita/base/json_fields.h"
#include "partita/base/testing/error_of.h"

namespace partita {
namespace {

std::string fresh(const std::string& name) {
  const std::string folder = std::string(PARTITA_BINARY_DIR) + "/input_file_test/" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder + "/" + name);
  return folder + "/" + name;
}

TEST(InputFile, IsReadUpToABound) {
  const std::string file = fresh("file");
  std::ofstream(file) << "0123456789";
  EXPECT_EQ(read_file(file, "a file", 10), "0123456789");
  EXPECT_EQ(error_of([&] { read_file(file, "a plan", 9); }), file + ": has 10 bytes; of a plan at most 9 are read");
  EXPECT_EQ(read_range(file, 3, 4), "3456");
  EXPECT_EQ(read_range(file, 10, 0), "");
  EXPECT_EQ(error_of([&] { read_range(file, 8, 3); }), file + ": has 10 bytes; bytes 8 to 11 are wanted");
  EXPECT_NE(error_of([&] { read_range(file, INT64_MAX, INT64_MAX); }), "");
  EXPECT_EQ(size_of_file(file), 10);
  EXPECT_EQ(beginning_of(file, 4), "0123");
  EXPECT_EQ(beginning_of(file + ".absent", 4), "");
  EXPECT_FALSE(read_file("/proc/self/status").empty());  // its size is told as 0
}

TEST(InputFile, MayBeAPipeThatEnds) {
  const std::string fifo = fresh("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string text(300'000, 'x');
  {
    std::jthread writer([&] { std::ofstream(fifo) << text; });
    EXPECT_EQ(read_file(fifo, "a file", 300'000), text);
  }
  EXPECT_EQ(error_of([&] { read_range(fifo, 0, 1, "external data"); }),
            fifo + ": is a pipe, a device or a socket; a regular file is needed");
  EXPECT_NE(error_of([&] { size_of_file(fifo); }), "");
  EXPECT_EQ(beginning_of(fifo, 4), "");
  EXPECT_NE(error_of([] { read_file("/dev/zero"); }).find("does not end after 67108864 bytes"), std::string::npos);
}

TEST(InputFile, IsToldFromWhatIsNone) {
  const std::string loop = fresh("loop"), folder = std::filesystem::path(loop).parent_path();
  std::filesystem::create_symlink("loop", loop);
  EXPECT_FALSE(is_folder(loop) || is_regular_file(loop) || leads_somewhere(loop));
  EXPECT_TRUE(is_folder(folder) && leads_somewhere(folder) && !is_regular_file(folder));
  EXPECT_EQ(error_of([&] { read_file(folder, "a cluster"); }), folder + ": is a folder, not a cluster");
  EXPECT_EQ(error_of([&] { read_range(folder, 0, 1); }), folder + ": is a folder, not a file");
  EXPECT_EQ(error_of([&] { read_file(loop); }), loop + ": cannot be read: Too many levels of symbolic links");
}

TEST(JsonObject, IsAsItStands) {
  const std::string text = R"({"b":1,"a":[{"x":null},[],{},-2,2.5,"s",true],"c":{"b":{"b":18446744073709551615}}})";
  EXPECT_EQ(parse_json_object(text, "f").dump(), text);
  EXPECT_EQ(error_of([] { parse_json_object(R"({"a": {"b": 1, "c": 2, "b": 3}})", "f"); }),
            "f: 'b' stands twice in one object");
  EXPECT_EQ(error_of([] { parse_json_object("[1]", "f"); }), "f: not a JSON object");
  for (const char* wrong : {"", "{", "{\"a\": 1e999}", "{\"a\": \"\xff\"}", "{} {}", "{\"a\" 1}"})
    EXPECT_TRUE(error_of([&] { parse_json_object(wrong, "f"); }).starts_with("f: not JSON: ")) << wrong;
}

// A comparison with each entry so far would be n^2: 10^10 comparisons.
TEST(JsonObject, OfManyEntriesIsReadAsFast) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("{}\"name_{}\":{}", i ? "," : "", i, i);
  EXPECT_EQ(parse_json_object(text + "}", "f").size(), 100'000u);
}

}  // namespace
}  // namespace partita
