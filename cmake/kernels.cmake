# partita_engine(): build/.../libpartita_engine.so, which the program loads when a command runs something. It holds the rooms
# runtime and kernels with all they use, so that the program itself links no ATen. What it exports is declared in kernels/.
function(partita_engine)
  if(NOT TARGET partita_kernels OR PARTITA_SANITIZE MATCHES "thread")
    return()
  endif()
  add_library(partita_engine SHARED ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(partita_engine PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,partita_kernels>)
endfunction()
