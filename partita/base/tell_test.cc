// Tests that texts for a person are short and cannot act on a terminal.
#include "partita/base/tell.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(Readable, CutsLongWordsAndTexts) {
  EXPECT_EQ(readable("a short text\nof two lines\t."), "a short text\nof two lines\t.");
  EXPECT_EQ(readable(std::string(1000, 'x')), std::string(1000, 'x'));
  EXPECT_EQ(readable("no " + std::string(1001, 'x') + " there"),
            "no " + std::string(100, 'x') + "..(1001 characters) there");
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += fmt::format("c{}, ", i);
  const std::string cut = readable(many);
  EXPECT_LT(cut.size(), 8000u);
  EXPECT_TRUE(cut.starts_with("c0, c1, c2, ")) << cut;
  EXPECT_TRUE(cut.ends_with("c99998, c99999, "));
  EXPECT_NE(cut.find(fmt::format("..({} characters in all)..", many.size())), std::string::npos);
}

TEST(Readable, CutsNoCharacter) {
  std::string word;
  for (int i = 0; i < 400; ++i) word += "\xe4\xbd\xa0";  // of three bytes
  const std::string cut = readable(word);
  EXPECT_TRUE(cut.starts_with(word.substr(0, 99) + "..(")) << cut;
}

TEST(Readable, SpellsOutControlCharacters) {
  EXPECT_EQ(readable(std::string("a\x1b[2Jb\r\x7f\0c", 10)), "a\\x1b[2Jb\\x0d\\x7f\\x00c");
}

}  // namespace
}  // namespace partita
