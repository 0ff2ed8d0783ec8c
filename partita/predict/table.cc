// Reads and writes tables as CSV.
#include "partita/predict/table.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

namespace {

struct Reader {
  std::string_view text, origin;
  size_t at = 0;
  int line = 1;
  bool ended() const { return at >= text.size(); }
};

std::string quoted(Reader& in) {
  std::string cell;
  const int begin = in.line;
  for (++in.at; !in.ended(); ++in.at) {
    const char c = in.text[in.at];
    in.line += c == '\n';
    if (c != '"') {
      cell += c;
    } else if (in.at + 1 < in.text.size() && in.text[in.at + 1] == '"') {
      cell += in.text[++in.at];
    } else {
      ++in.at;
      if (!in.ended() && std::string_view(",\r\n").find(in.text[in.at]) == std::string_view::npos)
        fail("{}:{}: text follows a quoted cell; put all of the cell into the quotes", in.origin, in.line);
      return cell;
    }
  }
  fail("{}:{}: a quote is opened and not closed", in.origin, begin);
}

std::vector<std::string> read_line(Reader& in) {
  std::vector<std::string> cells;
  while (true) {
    if (!in.ended() && in.text[in.at] == '"') {
      cells.push_back(quoted(in));
    } else {
      const size_t end = std::min(in.text.find_first_of(",\n", in.at), in.text.size());
      cells.emplace_back(in.text.substr(in.at, end - in.at));
      if (!cells.back().empty() && cells.back().back() == '\r') cells.back().pop_back();
      in.at = end;
    }
    if (!in.ended() && in.text[in.at] == '\r') ++in.at;
    if (in.ended() || in.text[in.at++] == '\n') break;
  }
  ++in.line;
  return cells;
}

std::string shown(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (char c : cell) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::optional<size_t> Table::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<size_t>(found - columns.begin());
}

const std::string& Table::cell(size_t row, std::string_view name) const {
  static const std::string kNone;
  const std::optional<size_t> c = column(name);
  return c ? rows[row][*c] : kNone;
}

Table parse_csv(std::string_view text, std::string_view origin) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) text.remove_prefix(kByteOrderMark.size());
  Reader in{text, origin};
  Table table;
  table.origin = origin;
  while (!in.ended()) {
    const int line = in.line;
    std::vector<std::string> cells = read_line(in);
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (table.columns.empty()) {
      table.columns = std::move(cells);
      continue;
    }
    if (cells.size() != table.columns.size())
      fail("{}:{}: {} cells, where line 1 names {} columns; quote a cell that has a comma in it", origin, line,
           cells.size(), table.columns.size());
    table.rows.push_back(std::move(cells));
    table.lines.push_back(line);
  }
  if (table.columns.empty()) fail("{}: the table is empty", origin);
  for (size_t c = 0; c < table.columns.size(); ++c)
    if (table.column(table.columns[c]) != c)
      fail("{}:1: two columns are named '{}'; rename one", origin, table.columns[c]);
  return table;
}

std::string print_csv(const Table& table) {
  std::string out;
  auto add = [&](const std::vector<std::string>& cells) {
    for (size_t c = 0; c < cells.size(); ++c) out += (c > 0 ? "," : "") + shown(cells[c]);
    out += "\n";
  };
  add(table.columns);
  for (const std::vector<std::string>& row : table.rows) add(row);
  return out;
}

}  // namespace partita
