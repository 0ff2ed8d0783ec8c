// Offers the built-in clusters as YAML, in the schema of docs/reference/cluster.md.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace partita {

// Returns the YAML of a preset of cluster_presets(); empty if `reference` is none. Bad input if the count (dgx-h100:N,
// local:N) is not a positive number, or the preset takes none.
std::optional<std::string> preset_text(std::string_view reference);

// Names the preset of the same kind with at least `devices` devices: "dgx-h100:2" for "dgx-h100" and 16. Empty if the
// preset has one size only.
std::optional<std::string> preset_of_size(std::string_view reference, int devices);

// Ends a message about a reference that cannot be taken: says what to do if it lists several clusters; else empty.
std::string one_cluster_hint(std::string_view reference);

}  // namespace partita
