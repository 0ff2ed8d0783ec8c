// Tells tests that run CBC whether to skip.
#pragma once
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/device_placement/cbc.h"

namespace partita {

inline bool no_cbc() {
  try {
    find_cbc(std::getenv("PATH"));
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace partita
