// Searches texts for regular expressions (ECMAScript's).
#include "partita/base/testing/patterns.h"

#include <regex>

namespace partita {

bool has_match(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

std::vector<std::string> first_match(const std::string& text, const std::string& pattern) {
  auto all = all_matches(text, pattern);
  return all.empty() ? std::vector<std::string>() : all.front();
}

std::vector<std::vector<std::string>> all_matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::vector<std::string>> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.emplace_back(it->begin(), it->end());
  return found;
}

}  // namespace partita
