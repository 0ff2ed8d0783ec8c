// Bounds the nesting of foreign JSON before it becomes a tree.
#pragma once
#include <string_view>

namespace partita {

// The deepest nesting of lists and objects in a file. Copying and printing a tree recurses into it.
constexpr int kDeepestJson = 1000;
// Bad input if the text nests deeper; `what` names the file in the message.
void validate_json_depth(std::string_view json, std::string_view what);

}  // namespace partita
