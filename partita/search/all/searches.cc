// The list of searches: one line each.
#include "partita/search/all/searches.h"

namespace partita {

// NAME_search() is in the searcher's own file.
#define PARTITA_SEARCHES(SEARCH) \
  SEARCH(data_parallel)          \
  SEARCH(expert)                 \
  SEARCH(layer_placement)        \
  SEARCH(expert_placement)       \
  SEARCH(baechi_mtopo)           \
  SEARCH(baechi_metf)            \
  SEARCH(baechi_msct)            \
  SEARCH(pesto)                  \
  SEARCH(placement)              \
  SEARCH(megatron)               \
  SEARCH(model_parallel)         \
  SEARCH(owt)                    \
  SEARCH(pipeline)               \
  SEARCH(single)                 \
  SEARCH(small_batch)            \
  SEARCH(soybean)                \
  SEARCH(swap)                   \
  SEARCH(tofu)                   \
  SEARCH(allrow_greedy)          \
  SEARCH(spartan)                \
  SEARCH(equal_chop)             \
  SEARCH(icml18)                 \
  SEARCH(optcnn)                 \
  SEARCH(zero)                   \
  SEARCH(flexflow)               \
  SEARCH(soap)                   \
  SEARCH(exact)                  \
  SEARCH(auto)

#define DECLARE(name) SearchEntry name##_search();
#define ENTRY(name) name##_search(),

PARTITA_SEARCHES(DECLARE)

const std::vector<SearchEntry>& searches() {
  static const std::vector<SearchEntry> kSearches = {PARTITA_SEARCHES(ENTRY)};
  return kSearches;
}

const SearchEntry* find_search(std::string_view name) {
  for (const SearchEntry& entry : searches())
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace partita
