// The built-in clusters, as YAML in the schema of docs/reference/cluster.md.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace partita {

// The YAML of a preset of cluster_presets(); empty if `reference` is none of them. Bad input if the count (dgx-h100:N,
// local:N) is not a positive number, or stands where none is taken.
std::optional<std::string> preset_text(std::string_view reference);

// The preset of the same kind with at least so many devices: "dgx-h100:2" of "dgx-h100" for 16. Empty where it comes in
// one size only.
std::optional<std::string> preset_of_size(std::string_view reference, int devices);

// The end of a message about a reference that cannot be taken: what to do if it lists several clusters; else empty.
std::string one_cluster_hint(std::string_view reference);

}  // namespace partita
