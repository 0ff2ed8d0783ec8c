// Reads and validates problems, naming the place of an error; reads and writes packed files.
#include "partita/network/problem.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_map>

#include "partita/base/error.h"
#include "partita/base/input_file.h"
#include "partita/base/output_file.h"
#include "partita/base/threads.h"

namespace partita::solver {

namespace {

using Rows = std::vector<std::vector<int64_t>>;
constexpr const char* kWhere = "while the problem was read";

// Collects the parser's events into rows by path. Other keys are skipped.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(const std::string& file, const Watch& watch) : file_(file), polling_(watch, kWhere) {
    for (const char* path : {kIntervals, kCosts, kUsages, kEdgeNodes, kEdgeCosts}) rows_[path];
  }

  Network network() {
    for (const auto& [path, found] : rows_)
      if (!found.seen) fail("{}: the key {} is missing", file_, path);
    Rows &intervals = rows_[kIntervals].rows, &costs = rows_[kCosts].rows, &usages = rows_[kUsages].rows;
    Rows &nodes = rows_[kEdgeNodes].rows, &tables = rows_[kEdgeCosts].rows;
    validate_length(kIntervals, intervals.size(), costs.size(), "nodes");
    validate_length(kUsages, usages.size(), costs.size(), "nodes");
    validate_length(kEdgeCosts, tables.size(), nodes.size(), "edges");
    Network n;
    n.limit = limit_;
    for (size_t v = 0; v < costs.size(); ++v) {
      if (costs[v].empty()) fail("{}: {}[{}] is empty: every node needs a strategy", file_, kCosts, v);
      if (intervals[v].size() != 2) fail("{}: {}[{}] has {} numbers, not 2", file_, kIntervals, v, intervals[v].size());
      if (usages[v].size() != costs[v].size())
        fail("{}: {}[{}] has {} values, {}[{}] has {}", file_, kUsages, v, usages[v].size(), kCosts, v,
             costs[v].size());
      for (size_t s = 0; s < usages[v].size(); ++s)
        if (usages[v][s] < 0) fail("{}: {}[{}][{}] is negative: {}", file_, kUsages, v, s, usages[v][s]);
      n.uses.push_back({static_cast<int>(v), intervals[v][0], intervals[v][1], std::move(usages[v])});
    }
    n.costs = std::move(costs);
    for (size_t e = 0; e < nodes.size(); ++e) add_edge(n, e, nodes[e], std::move(tables[e]));
    return n;
  }

  bool null() override { return at_limit() ? set_limit(std::nullopt) : scalar("null"); }
  bool boolean(bool) override { return scalar("a truth value"); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX))
      return scalar(fmt::format("{}, which does not fit into 64 bits", value));
    return number(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t, const string_t& text) override { return scalar(text + ", not an integer"); }
  bool string(string_t&) override { return scalar("a string"); }
  bool binary(binary_t&) override { return scalar("binary"); }
  bool key(string_t& name) override {
    polling_.step();
    keys_.back() = name;
    path_.clear();
    const bool known =
        keys_.size() <= kDeepest &&  // no longer path is sought
        std::none_of(keys_.begin(), keys_.end(), [](const std::string& k) { return k.find('.') != k.npos; });
    for (size_t k = 0; known && k < keys_.size(); ++k) path_ += (k == 0 ? "" : ".") + keys_[k];
    if (!seen_.back().insert(name).second)
      fail("{}: the key {} comes twice in one object", file_, known ? path_ : name);
    auto it = known && arrays_ == 0 ? rows_.find(path_) : rows_.end();
    current_ = it == rows_.end() ? nullptr : &it->second;
    return true;
  }
  bool start_object(size_t) override {
    if (current_ || at_limit()) scalar("an object");
    if (keys_.empty() && arrays_ > 0) fail("{}: the file is a list, not an object with the key problem", file_);
    keys_.emplace_back();
    seen_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    seen_.pop_back();
    current_ = nullptr;
    path_.clear();
    return true;
  }
  bool start_array(size_t) override {
    if (at_limit()) scalar("a list");
    ++arrays_;
    if (!current_) return true;
    current_->seen = true;
    if (arrays_ == 2) current_->rows.emplace_back();
    if (arrays_ > 2) scalar("a list");
    return true;
  }
  bool end_array() override {
    polling_.step();
    if (--arrays_ == 0) current_ = nullptr;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) override {
    fail("{}: is not JSON: byte {}: {}", file_, position, e.what());
  }

 private:
  static constexpr const char* kIntervals = "problem.nodes.intervals";
  static constexpr const char* kCosts = "problem.nodes.costs";
  static constexpr const char* kUsages = "problem.nodes.usages";
  static constexpr const char* kEdgeNodes = "problem.edges.nodes";
  static constexpr const char* kEdgeCosts = "problem.edges.costs";
  static constexpr size_t kDeepest = 3;  // keys of these paths

  bool at_limit() const { return arrays_ == 0 && path_ == "problem.usage_limit"; }
  bool set_limit(std::optional<int64_t> limit) {
    limit_ = limit;
    path_.clear();
    return true;
  }
  std::string place() const {
    if (!current_) return path_;
    const Rows& rows = current_->rows;
    if (arrays_ == 0) return path_;
    if (arrays_ == 1) return fmt::format("{}[{}]", path_, rows.size());
    return fmt::format("{}[{}][{}]", path_, rows.size() - 1, rows.back().size());
  }
  bool number(int64_t value) {
    if (at_limit()) return set_limit(value);
    if (!current_) return true;
    if (arrays_ != 2) return scalar(fmt::to_string(value));
    current_->rows.back().push_back(value);
    return true;
  }
  // Reports a value of the wrong kind; under other keys it is skipped.
  bool scalar(const std::string& what) const {
    if (current_ || at_limit())
      fail("{}: {} is {}; {} belongs there", file_, place(), what,
           at_limit() || arrays_ >= 2 ? "an integer" : "a list");
    return true;
  }
  void validate_length(const char* path, size_t length, size_t expected, const char* what) const {
    if (length != expected) fail("{}: {} has {} rows for {} {}", file_, path, length, expected, what);
  }
  void add_edge(Network& n, size_t e, const std::vector<int64_t>& nodes, Table table) {
    Network::Edge edge;
    if (nodes.empty()) fail("{}: {}[{}] is empty", file_, kEdgeNodes, e);
    size_t size = 1;
    for (int64_t v : nodes) {
      if (v < 0 || v >= n.variables())
        fail("{}: {}[{}] names node {}; there are {}", file_, kEdgeNodes, e, v, n.variables());
      if (__builtin_mul_overflow(size, n.costs[v].size(), &size))
        fail("{}: {}[{}] is over too many strategies", file_, kEdgeNodes, e);
      edge.variables.push_back(static_cast<int>(v));
    }
    if (table.size() != size)
      fail("{}: {}[{}] has {} costs; its nodes' strategies make {}", file_, kEdgeCosts, e, table.size(), size);
    const size_t hash =
        std::hash<std::string_view>()({reinterpret_cast<const char*>(table.data()), table.size() * sizeof(int64_t)});
    for (auto [it, end] = tables_.equal_range(hash); it != end && !edge.table; ++it)
      if (*it->second == table) edge.table = it->second;
    if (!edge.table) tables_.emplace(hash, edge.table = std::make_shared<const Table>(std::move(table)));
    n.edges.push_back(std::move(edge));
  }

  struct Found {
    bool seen = false;
    Rows rows;
  };
  std::string file_;
  std::map<std::string, Found> rows_;
  Polling polling_;
  std::vector<std::string> keys_;            // one for each object that is open
  std::vector<std::set<std::string>> seen_;  // all keys so far of each
  std::string path_;
  Found* current_ = nullptr;
  int arrays_ = 0;  // that are open
  std::optional<int64_t> limit_;
  std::unordered_multimap<size_t, std::shared_ptr<const Table>> tables_;
};

// Parses plain files, which are nearly all lists of integers, into the same events, several times faster. Every step
// returns false on anything unusual (a fraction, an escape, an error): then the library's parser decides.
class Scanner {
 public:
  Scanner(const std::string& json, Reader& reader) : p_(json.data()), end_(p_ + json.size()), reader_(reader) {}

  bool run() {
    while (skip()) {
      if (!open_.empty() && open_.back() == '{' && *p_ != '}' && !key()) return false;
      bool opened = false;
      if (!value(opened)) return false;
      if (opened) continue;
      if (!close()) return false;
      if (open_.empty()) return !skip();
      if (p_ == end_ || *p_++ != ',' || !skip() || *p_ == '}' || *p_ == ']') return false;
    }
    return false;
  }

 private:
  // Skips white space; false at the end.
  bool skip() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\r' || *p_ == '\t')) ++p_;
    return p_ < end_;
  }

  // Reads a string of ASCII without escapes into `name_`.
  bool text() {
    const char* from = ++p_;
    while (p_ < end_ && *p_ != '"' && *p_ != '\\' && *p_ >= ' ')
      ++p_;  // signed or not, a byte that is not ASCII ends it or passes through
    for (const char* c = from; c < p_; ++c)
      if (static_cast<unsigned char>(*c) >= 0x80) return false;
    name_.assign(from, p_);
    return p_ < end_ && *p_++ == '"';
  }

  bool key() { return *p_ == '"' && text() && reader_.key(name_) && skip() && *p_++ == ':' && skip(); }

  bool integer() {
    const bool negative = *p_ == '-';
    const char* from = p_ += negative;
    uint64_t value = 0;
    while (p_ < end_ && *p_ >= '0' && *p_ <= '9') value = 10 * value + static_cast<uint64_t>(*p_++ - '0');
    constexpr int kDigits = 18;  // these fit 64 bits whatever they are
    const auto digits = p_ - from;
    if (digits == 19 && !negative && *from == '1') return reader_.number_unsigned(value);  // from 10^18 on
    if (digits < 1 || digits > kDigits || (digits > 1 && *from == '0')) return false;
    return negative ? reader_.number_integer(-static_cast<int64_t>(value)) : reader_.number_unsigned(value);
  }

  // Reads a value, or the beginning of a list or an object; `opened`: the beginning of one that is not empty.
  bool value(bool& opened) {
    switch (*p_) {
      case '{':
      case '[':
        open_ += *p_;
        if (*p_ == '{' ? !reader_.start_object(0) : !reader_.start_array(0)) return false;
        ++p_;
        if (!skip()) return false;
        opened = *p_ != '}' && *p_ != ']';
        return true;
      case '"':
        return text() && reader_.string(name_);
      case 'n':
        if (end_ - p_ < 4 || std::memcmp(p_, "null", 4) != 0) return false;
        p_ += 4;
        reader_.null();
        return true;
      default:
        return integer() && p_ != end_ && *p_ != '.' && *p_ != 'e' && *p_ != 'E';
    }
  }

  // Closes all lists and objects that end here.
  bool close() {
    while (skip() && (*p_ == '}' || *p_ == ']')) {
      if (open_.empty() || open_.back() != (*p_ == '}' ? '{' : '[')) return false;
      open_.pop_back();
      if (*p_++ == '}' ? !reader_.end_object() : !reader_.end_array()) return false;
    }
    return true;
  }

  const char* p_;
  const char* const end_;
  Reader& reader_;
  std::string open_;  // '{' and '['
  std::string name_;
};

}  // namespace

Network parse_problem(const std::string& json, const std::string& file, const Watch& watch) {
  {
    Reader reader(file, watch);
    if (Scanner(json, reader).run()) return reader.network();
  }
  Reader reader(file, watch);
  nlohmann::json::sax_parse(json, &reader);
  return reader.network();
}

Network read_problem(const std::string& path, const Watch& watch) {
  return parse_problem(read_text(path, watch), path, watch);
}

std::string read_text(const std::string& path, const Watch& watch) {
  constexpr int64_t kMost = int64_t{4} << 30;  // ten times the largest public problem
  const int descriptor = open_file(path, "a file");
  gzFile file = gzdopen(descriptor, "rb");
  if (!file) {
    close(descriptor);
    fail("{}: cannot be read: zlib cannot begin", path);
  }
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> closed(file, &gzclose);
  gzbuffer(file, 1 << 18);
  std::string text;
  constexpr size_t kPiece = 1 << 20;
  int got = 0;
  do {
    watch.poll(kWhere);
    const size_t before = text.size();
    text.resize(before + kPiece);
    got = gzread(file, text.data() + before, kPiece);
    text.resize(before + static_cast<size_t>(std::max(got, 0)));
    if (static_cast<int64_t>(text.size()) > kMost) fail("{}: has more than {} bytes, or does not end", path, kMost);
  } while (got > 0);
  int error = Z_OK;
  gzerror(file, &error);
  if (got < 0 || (error != Z_OK && error != Z_STREAM_END))
    fail("{}: is cut off, or broken: it does not unpack beyond byte {}", path, text.size());
  return text;
}

namespace {

// A member of a gzip file; several after one another unpack to their texts after one another (RFC 1952, section 2.2).
std::string gzip_member(std::string_view text) {
  constexpr int kFastest = 1, kGzip = 15 + 16, kMemory = 8;
  z_stream z{};
  ensure(deflateInit2(&z, kFastest, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) == Z_OK, "zlib cannot begin");
  std::string out(deflateBound(&z, static_cast<uLong>(text.size())), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  const int ended = deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  ensure(ended == Z_STREAM_END, "zlib cannot end");
  return out;
}

}  // namespace

void write_text(const std::string& path, const std::string& text) {
  constexpr size_t kPiece = size_t{1} << 25;
  std::vector<std::string> members;
  if (path.ends_with(".gz")) {
    members.resize(std::max<size_t>(1, (text.size() + kPiece - 1) / kPiece));
    parallel_for(kFewThreads, members.size(),
                 [&](size_t i, int) { members[i] = gzip_member(std::string_view(text).substr(i * kPiece, kPiece)); });
  }
  const std::vector<std::string_view> pieces(members.begin(), members.end());
  if (pieces.empty()) write_file(path, text);
  else write_file(path, pieces);
}

}  // namespace partita::solver
