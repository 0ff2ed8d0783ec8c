// The text of a search with its options, as the command line and plan files have it: NAME?option=value,option=value.
//
// Worked example: "soybean" and "soybean?tilings=paper" are the same choice, whose text is "soybean", since `paper` is
// the default. "fsdp" is an alias: its choice is `zero` with stage=3. "tofu?tilings=all" is a usage error: "search
// 'tofu' has no option 'tilings'; it has: coarsening, recursion".
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/search/all/searches.h"

namespace partita {

struct SearchChoice {
  const SearchEntry* entry = nullptr;
  std::map<std::string, std::string> options;  // every one that the search has
  // Options of every search, in place of --micro-batches, --micro-batch-size, --recompute and --bucket, so that the
  // rows of a comparison may differ. One of the first two.
  std::optional<int> micro_batches;
  std::optional<int64_t> micro_batch_size;
  std::optional<std::string> recompute;
  std::optional<int64_t> bucket_bytes;
};
// Usage error (exit 2) for an unknown name, option or value, naming the known ones.
SearchChoice parse_search(std::string_view text);
std::string text_of(const SearchChoice& choice);        // as parse_search() takes it, without defaults
std::string short_text_of(const SearchChoice& choice);  // the alias, where one stands for it
// Alias -> the text that it stands for: "fsdp" -> "zero?stage=3".
const std::map<std::string, std::string>& search_aliases();
// An amount for Plan::bucket_bytes: "25MB", "0". Usage error where it is none; `what`: "--bucket".
int64_t bucket_bytes_of(const std::string& what, const std::string& value);

}  // namespace partita
