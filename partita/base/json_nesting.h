// JSON of others, before it becomes a tree.
#pragma once
#include <string_view>

namespace partita {

// Lists and objects within one another that a file may have. Copying and printing a tree recurses into it.
constexpr int kDeepestJson = 1000;
// Bad input where the text nests deeper; `what`: the file, for the message.
void expect_shallow_json(std::string_view json, std::string_view what);

}  // namespace partita
