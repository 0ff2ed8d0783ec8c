# Precompiled headers: what nearly every file includes of the standard library and fmt, and in tests of GoogleTest too, is read
# once instead of 800 times. A file still names all it includes: clang-tidy reads it without (tools/tidy.py).
# g++ takes one only where the options are those that it was made with, so there is one for libraries and one for tests' programs.
option(PARTITA_PRECOMPILED "Precompile the headers that most files include" OFF)
# At -O1 g++ warns of values that are set and of bounds that are kept, so the presets switch these warnings off for tests.
set(PARTITA_TEST_FLAGS "" CACHE STRING "Further compiler flags of tests")
separate_arguments(PARTITA_TEST_FLAGS_LIST UNIX_COMMAND "${PARTITA_TEST_FLAGS}")

if(PARTITA_PRECOMPILED)
  # ccache keeps what uses a precompiled header only if it is told that macros of the header and times do not matter. It keeps the
  # precompiled header too, which would be another one, byte for byte, if it were made again.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  if(CCACHE AND CMAKE_CXX_COMPILER_LAUNCHER STREQUAL CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endif()

  set(headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstdio> <cstring> <deque> <fstream> <functional> <iterator> <limits>
      <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <stdexcept> <string> <string_view> <thread> <tuple> <type_traits>
      <unordered_map> <unordered_set> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)
  add_library(partita_precompiled OBJECT ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(partita_precompiled PRIVATE partita_flags fmt::fmt)
  target_precompile_headers(partita_precompiled PRIVATE ${headers})

  add_library(partita_test_precompiled OBJECT ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(partita_test_precompiled PRIVATE partita_flags fmt::fmt nlohmann_json::nlohmann_json GTest::gtest)
  target_compile_options(partita_test_precompiled PRIVATE ${PARTITA_TEST_FLAGS_LIST} -fPIE)  # as programs are compiled
  target_precompile_headers(partita_test_precompiled PRIVATE ${headers} <nlohmann/json.hpp> <gtest/gtest.h>)
  set_target_properties(partita_test_precompiled PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  set_target_properties(partita_precompiled partita_test_precompiled PROPERTIES EXCLUDE_FROM_ALL ON)
endif()

# partita_precompile(TARGET HOLDER): TARGET takes the precompiled header of HOLDER, one of the two above.
function(partita_precompile target holder)
  if(PARTITA_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${holder})
  endif()
endfunction()
