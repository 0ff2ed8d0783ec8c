// Maps roles, phases and device types to the words of graphs' text.
#pragma once
#include "partita/base/enum_words.h"
#include "partita/graph/graph.h"

namespace partita {

inline constexpr EnumWords<Role::kConstant> kRoles({"input", "parameter", "activation", "gradient", "state",
                                                    "constant"});
inline constexpr EnumWords<Phase::kUpdate> kPhases({"forward", "backward", "update"});
inline constexpr EnumWords<DeviceType::kLaunch> kDeviceTypes({"gpu", "cpu", "launch"});

}  // namespace partita
