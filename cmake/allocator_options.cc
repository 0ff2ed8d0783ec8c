// Programs keep what is freed, where mimalloc would give it back to the system within a part of a second and take it
// again: first touches of pages were a fifth of a search's time. MIMALLOC_ALLOW_DECOMMIT (from version 2.1 on
// MIMALLOC_PURGE_DELAY) in the environment wins.
#include <mimalloc.h>

namespace {

[[maybe_unused]] const bool asked = [] {
#if MI_MALLOC_VERSION < 210
  mi_option_set_enabled_default(mi_option_allow_decommit, false);
#else
  mi_option_set_default(mi_option_purge_delay, -1);
#endif
  return true;
}();

}  // namespace
