// Catches the message of a refused input, for tests.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "partita/base/error.h"

namespace partita {

// The message of the bad-input error that `call` throws; "no error" if it throws none.
std::string error_of(auto&& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput) << e.what();
    return e.what();
  }
  return "no error";
}

}  // namespace partita
