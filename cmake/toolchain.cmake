# Flags of every target, and the fast tools where they are installed.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(partita_flags INTERFACE)
target_compile_options(partita_flags INTERFACE "$<BUILD_INTERFACE:-Wall;-Wextra;-Wno-missing-field-initializers>")

find_program(MOLD mold)
if(MOLD)
  # Where segments share pages, mold 1.10 may let the one that becomes read-only begin at a .tbss in a page that is not
  # there: one program in some hundreds, by its size, does not start.
  add_link_options(-fuse-ld=mold -Wl,-z,separate-code)
endif()

# PARTITA_SANITIZE: what -fsanitize= takes. A finding ends the program, so that the test fails.
# Under `thread` only the tests of the runtime are built: nothing that is loaded may be uninstrumented (room.cmake).
set(PARTITA_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")
if(PARTITA_SANITIZE)
  add_compile_options(-fsanitize=${PARTITA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PARTITA_SANITIZE})
endif()
# Four checks of every access through a pointer take more time to compile than all the others, and find little that AddressSanitizer does not.
# Rooms that see bytes as numbers ask for `alignment` again (room.cmake).
if(PARTITA_SANITIZE MATCHES "undefined")
  add_compile_options(-fno-sanitize=null,alignment,object-size,vptr)
endif()

# A sanitized test runs, also when its cases are listed, with these options; what it starts inherits them.
if(PARTITA_SANITIZE)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_COMMAND} -E env
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
    LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tools/lsan.supp:print_suppressions=0
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=second_deadlock_stack=1)
  # GCC 12's ThreadSanitizer does not start where the kernel randomises more than 28 bits of an address.
  set(random_bits 28)
  if(EXISTS /proc/sys/vm/mmap_rnd_bits)
    file(READ /proc/sys/vm/mmap_rnd_bits random_bits)
  endif()
  if(PARTITA_SANITIZE MATCHES "thread" AND random_bits GREATER 28)
    list(APPEND CMAKE_CROSSCOMPILING_EMULATOR setarch -R)
  endif()
endif()
