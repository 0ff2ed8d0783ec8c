// Compares layouts of one tensor on a device: views, copies, names.
#include "partita/search/joint/tensor_space.h"

#include "partita/base/radices.h"

namespace partita {

bool is_view(const Layout& held, const Layout& wanted, int position) {
  if (held.is_partial() || wanted.is_partial()) return same_placement(held, wanted);
  const auto box = over_radices(wanted.boxes[position], wanted.radices, held.radices);
  return box && contains(held.boxes[position], *box);
}

int64_t elements_beside(const Layout& kept_layout, const Layout& copy, int position, bool made) {
  if (is_view(kept_layout, copy, position)) return 0;
  return std::max<int64_t>(0, copy.elements(position) - (made ? kept_layout.elements(position) : 0));
}

bool can_be_kept(const Layout& layout) {
  const bool has_all = volume(layout.shape()) == 0;  // of an empty tensor, every position
  return !layout.is_partial() && (has_all || !layout.boxes.any_empty()) && name_of(layout).has_value();
}

}  // namespace partita
