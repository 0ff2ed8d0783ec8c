// Defines parse()'s result: the formula as written, with names not resolved yet.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

struct Syntax {
  enum class Kind {
    kNumber,  // number
    kName,    // an attribute or an index; "b.0" is the first index of the group ..b
    kExtent,  // name.axis, of an operand
    kAccess,  // name[args] else number
    kUnary,   // name: neg, not
    kBinary,  // name: the operator, or max, min
    kIf,      // args[0], args[1], args[2]
    kReduce,  // name: the reducer; over `names`; body args[0]
    kCall,    // name(args)
    kOpaque,  // opaque name(args)[names]
    kGroup,   // ..name
    kWhole,   // `:`
    kNamed,   // name = args[0]: an index read from data
  };
  Kind kind = Kind::kNumber;
  size_t at = 0;  // offset in the definition's text
  double number = 0;
  std::string name;
  int axis = 0;
  bool has_else = false;
  std::vector<Syntax> args;
  std::vector<Syntax> names;
};

struct Definition {
  struct Extent {
    std::string index;
    Syntax value;
    size_t at = 0;
  };
  struct StageText {
    std::string name;
    size_t at = 0;
    std::vector<Syntax> lhs;
    Syntax body;
  };
  std::string text;
  std::string name;
  std::vector<std::string> operands;
  std::vector<std::string> results;
  std::vector<size_t> results_at;
  std::vector<Extent> where;
  std::vector<StageText> stages;
};

// Throws bad input at an offset of the text: "NAME, line 2, column 7: MESSAGE", the line, and a caret below the place.
[[noreturn]] void fail_at(std::string_view name, std::string_view text, size_t at, const std::string& message);

std::optional<Reducer> find_reducer(std::string_view name);

}  // namespace partita::tdl
