// Names reducers, and gives the identity of each.
#include <limits>

#include "partita/base/enum_words.h"
#include "partita/tdl/syntax.h"

namespace partita::tdl {

static constexpr EnumWords<Reducer::kProd> kReducers({"sum", "max", "min", "prod"});

std::string_view name_of(Reducer reducer) { return kReducers.of(reducer); }
std::optional<Reducer> find_reducer(std::string_view name) { return kReducers.find(name); }

double identity_of(Reducer reducer) {
  switch (reducer) {
    case Reducer::kSum:
      return 0;
    case Reducer::kMax:
      return -std::numeric_limits<double>::infinity();
    case Reducer::kMin:
      return std::numeric_limits<double>::infinity();
    case Reducer::kProd:
      return 1;
  }
  return 0;
}

}  // namespace partita::tdl
