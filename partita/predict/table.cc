// Reads and writes tables as CSV.
#include "partita/predict/table.h"

#include <algorithm>
#include <cctype>
#include <set>

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
      if (!in.ended() && std::string_view(", \t\r\n").find(in.text[in.at]) == std::string_view::npos)
        fail("{}:{}: text follows a quoted cell; put all of the cell into the quotes", in.origin, in.line);
      return cell;
    }
  }
  fail("{}:{}: a quote is opened and not closed", in.origin, begin);
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

std::vector<std::string> read_line(Reader& in) {
  std::vector<std::string> cells;
  while (true) {
    const size_t begin = in.at;
    while (!in.ended() && (in.text[in.at] == ' ' || in.text[in.at] == '\t')) ++in.at;
    if (!in.ended() && in.text[in.at] == '"') {
      cells.push_back(quoted(in));
      while (!in.ended() && (in.text[in.at] == ' ' || in.text[in.at] == '\t')) ++in.at;
    } else {
      const size_t end = std::min(in.text.find_first_of(",\n", begin), in.text.size());
      cells.emplace_back(without_blanks(in.text.substr(begin, end - begin)));
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
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const std::string& column) {
    return std::equal(column.begin(), column.end(), name.begin(), name.end(), same);
  });
  if (found == columns.end()) return std::nullopt;
  return static_cast<size_t>(found - columns.begin());
}

const std::string& Table::cell(size_t row, std::string_view name) const {
  static const std::string kNone;
  const std::optional<size_t> c = column(name);
  return c ? rows[row][*c] : kNone;
}

namespace {

std::string in_small_letters(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Rejects text that is no table for parse_csv, with advice for a person.
void check_text(std::string_view text, std::string_view origin) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    fail("{}: the text is UTF-16; save it as UTF-8", origin);
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    fail("{}:{}: a byte that is 0; the table is text in UTF-8", origin,
         1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  if (text.find('\n') == std::string_view::npos && text.find('\r') != std::string_view::npos)
    fail("{}: its lines end in carriage returns alone; save it with ends of lines of Unix or Windows", origin);
}

}  // namespace

Table parse_csv(std::string_view text, std::string_view origin) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  check_text(text, origin);
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
  if (table.columns.size() == 1)
    for (char c : {';', '\t', '|'})
      if (table.columns[0].find(c) != std::string::npos)
        fail("{}:1: the columns are separated by '{}'; separate them by commas", origin,
             c == '\t' ? "\\t" : std::string(1, c));
  std::set<std::string> names;
  for (const std::string& column : table.columns)
    if (!names.insert(in_small_letters(column)).second)
      fail("{}:1: two columns are named '{}'; rename one", origin, column);
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
