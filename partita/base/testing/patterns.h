// Searches by regular expressions, for tests, out of line: <regex> takes seconds to compile in every file that uses it.
#pragma once
#include <string>
#include <vector>

namespace partita {

// Tells whether some part of the text matches.
bool has_match(const std::string& text, const std::string& pattern);

// The first part of the text that matches, with its groups; empty if there is none.
std::vector<std::string> first_match(const std::string& text, const std::string& pattern);

// The same for every part that matches.
std::vector<std::vector<std::string>> all_matches(const std::string& text, const std::string& pattern);

}  // namespace partita
