// Defines typed integer ids: positions in a vector that can't be mixed up.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace partita {

template <typename Tag>
struct Id {
  int32_t value = -1;  // -1: none

  constexpr Id() = default;
  constexpr explicit Id(std::size_t v) : value(static_cast<int32_t>(v)) {}
  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  constexpr auto operator<=>(const Id&) const = default;
};

using TensorId = Id<struct TensorTag>;
using OpId = Id<struct OpTag>;
using DeviceId = Id<struct DeviceTag>;
using LinkId = Id<struct LinkTag>;
using TaskId = Id<struct TaskTag>;
using RegisterId = Id<struct RegisterTag>;
using CollectiveId = Id<struct CollectiveTag>;

}  // namespace partita

template <typename Tag>
struct std::hash<partita::Id<Tag>> {
  std::size_t operator()(partita::Id<Tag> id) const noexcept { return std::hash<int32_t>()(id.value); }
};
