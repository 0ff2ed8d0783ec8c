// Converts an enum's values to words and back, for files and messages.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace partita {

// One word for each value 0, 1 .. `last`. `enum class Light { kRed, kGreen };` has
//   constexpr EnumWords<Light::kGreen> kLights({"red", "green"});
// where kLights.of(Light::kRed) is "red", and kLights.find("green") is Light::kGreen.
template <auto last>
struct EnumWords {
  using Enum = decltype(last);
  static constexpr std::size_t kCount = static_cast<std::size_t>(last) + 1;

  std::array<std::string_view, kCount> words;

  template <std::size_t n>
  constexpr explicit EnumWords(const std::string_view (&given)[n]) : words() {
    static_assert(n == kCount, "a word for each value");
    for (std::size_t i = 0; i < n; ++i) words[i] = given[i];
  }

  constexpr std::string_view of(Enum value) const { return words[static_cast<std::size_t>(value)]; }
  constexpr std::optional<Enum> find(std::string_view word) const {
    for (std::size_t i = 0; i < kCount; ++i)
      if (words[i] == word) return static_cast<Enum>(i);
    return std::nullopt;
  }
};

}  // namespace partita
