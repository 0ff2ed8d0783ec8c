// Programs ask for pages of 2 MiB (MADV_HUGEPAGE, where the system leaves it to them): first touches of small ones were a tenth of a search's time.
// MIMALLOC_LARGE_OS_PAGES=0 in the environment wins.
#include <mimalloc.h>

namespace {

[[maybe_unused]] const bool asked = (mi_option_set_enabled_default(mi_option_large_os_pages, true), true);

}  // namespace
