// Reads and writes NAME?option=value,option=value.
#include "partita/search/all/search_text.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/graph/autodiff.h"

namespace partita {

namespace {

template <typename... Args>
[[noreturn]] void usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::kUsage, fmt::format(format, std::forward<Args>(args)...));
}

constexpr const char* kCounts = "a whole number from 1 to 999999";  // is_count()

// "1, 2 or 3"; "node or a whole number from 1 to 999999".
std::string values_text(std::vector<std::string> values) {
  if (values.back() == "N") {
    values.pop_back();
    std::erase_if(values, is_count);
    values.push_back(kCounts);
  }
  if (values.back() == "A-B") values.back() = "numbers in a row, such as 20-21-19";
  if (values.back() == "PxQ") values.back() = "a mesh's extents, such as 2x4";
  const std::string last = values.back();
  values.pop_back();
  return values.empty() ? last : fmt::format("{} or {}", fmt::join(values, ", "), last);
}

const SearchEntry& entry_named(const std::string& name) {
  if (const SearchEntry* entry = find_search(name)) return *entry;
  std::vector<std::string> known;
  for (const SearchEntry& entry : searches()) known.push_back(entry.name);
  for (const auto& [alias, whole] : search_aliases()) known.push_back(alias);
  usage("unknown search '{}'; there are: {}", name, fmt::join(known, ", "));
}

// Tells whether an option with these values takes this one.
bool takes(const std::vector<std::string>& values, const std::string& value) {
  const std::string& last = values.back();
  if ((last == "N" && is_count(value)) || (last == "PxQ" && !extents_of(value).empty()) ||
      (last == "A-B" && !counts_of(value).empty()))
    return true;
  return value != "N" && value != "PxQ" && value != "A-B" &&
         std::find(values.begin(), values.end(), value) != values.end();
}

// An option of every search. False: it is none.
bool read_common(const std::string& key, const std::string& value, SearchChoice& choice) {
  if (key == "micro-batches" || key == "micro-batch-size") {
    if (!is_count(value)) usage("search '{}': option '{}' is {}, not '{}'", choice.entry->name, key, kCounts, value);
    if (choice.micro_batches || choice.micro_batch_size)
      usage("search '{}': micro-batches and micro-batch-size both say how many parts a batch has; give one of them",
            choice.entry->name);
    if (key == "micro-batches") choice.micro_batches = std::stoi(value);
    else choice.micro_batch_size = std::stoi(value);
    return true;
  }
  if (key == "bucket") {
    choice.bucket_bytes = bucket_bytes_of(fmt::format("search '{}': option '{}'", choice.entry->name, key), value);
    return true;
  }
  if (key != "recompute") return false;
  const std::vector<std::string> kinds = recompute_kinds();
  if (std::find(kinds.begin(), kinds.end(), value) == kinds.end())
    usage("search '{}': option '{}' is one of {}, not '{}'", choice.entry->name, key, fmt::join(kinds, ", "), value);
  choice.recompute = value;
  return true;
}

// One "option=value"; `given`: the options before it.
void read_option(const std::string& item, SearchChoice& choice, std::set<std::string>& given) {
  const std::string& name = choice.entry->name;
  const size_t equals = item.find('=');
  const std::string key = item.substr(0, equals), value = equals == std::string::npos ? "" : item.substr(equals + 1);
  if (!given.insert(key).second) usage("search '{}': option '{}' is given twice", name, key);
  if (read_common(key, value, choice)) return;
  const auto option = choice.entry->options.find(key);
  if (option == choice.entry->options.end()) {
    std::vector<std::string> names = {"micro-batches", "micro-batch-size", "recompute", "bucket"};
    for (const auto& [n, v] : choice.entry->options) names.push_back(n);
    usage("search '{}' has no option '{}'; it has: {}", name, key, fmt::join(names, ", "));
  }
  if (!takes(option->second, value))
    usage("search '{}': option '{}' is {}, not '{}'", name, key, values_text(option->second), value);
  choice.options[key] = value;
}

// "option=value,option=value", or nothing.
void read_options(std::string rest, SearchChoice& choice) {
  std::set<std::string> given;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    read_option(rest.substr(0, comma), choice, given);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
}

}  // namespace

const std::map<std::string, std::string>& search_aliases() {
  static const std::map<std::string, std::string> kAliases = [] {
    std::map<std::string, std::string> aliases;
    for (const SearchEntry& entry : searches())
      for (const auto& [alias, options] : entry.aliases) aliases[alias] = entry.name + "?" + options;
    return aliases;
  }();
  return kAliases;
}

SearchChoice parse_search(std::string_view text) {
  const size_t mark = std::min(text.find('?'), text.size());
  const std::string name(text.substr(0, mark));
  SearchChoice choice;
  if (const auto alias = search_aliases().find(name); alias != search_aliases().end()) {
    choice = parse_search(alias->second);
  } else {
    choice.entry = &entry_named(name);
    choice.options = default_options(*choice.entry);
  }
  read_options(std::string(text.substr(std::min(mark + 1, text.size()))), choice);
  return choice;
}

std::string text_of(const SearchChoice& choice) {
  std::vector<std::string> chosen;
  for (const auto& [option, value] : choice.options)
    if (value != choice.entry->options.at(option)[0]) chosen.push_back(fmt::format("{}={}", option, value));
  if (choice.micro_batches) chosen.push_back(fmt::format("micro-batches={}", *choice.micro_batches));
  if (choice.micro_batch_size) chosen.push_back(fmt::format("micro-batch-size={}", *choice.micro_batch_size));
  if (choice.recompute) chosen.push_back("recompute=" + *choice.recompute);
  if (choice.bucket_bytes)
    chosen.push_back(fmt::format("bucket={}{}", *choice.bucket_bytes, *choice.bucket_bytes ? "B" : ""));
  return choice.entry->name + (chosen.empty() ? "" : "?") + fmt::format("{}", fmt::join(chosen, ","));
}

std::string short_text_of(const SearchChoice& choice) {
  for (const auto& [alias, whole] : search_aliases())
    if (const SearchChoice named = parse_search(alias); named.entry == choice.entry && named.options == choice.options)
      return alias;
  return text_of(choice);
}

int64_t bucket_bytes_of(const std::string& what, const std::string& value) {
  if (value == "0") return 0;
  const std::optional<Bytes> bytes = parse_bytes(value);
  if (!bytes)
    usage("{} takes an amount of memory, as 25MB, 25MiB or 25000000, or 0 for each tensor by itself, not '{}'", what,
          value);
  if (bytes->bare && bytes->bytes < 1'000'000)
    usage("{} {} is {} bytes; is {}{} meant? {}B stands for bytes", what, value, value, value,
          bytes->bytes < 4096 ? "MB" : "kB", value);
  return bytes->bytes;
}

}  // namespace partita
