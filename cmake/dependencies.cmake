# What Partita stands on. The distribution's packages come first; then torch and onnx.proto, which tools/setup.sh puts in .deps/.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CLI11 REQUIRED)
find_library(PARTITA_NETTLE nettle REQUIRED)  # SHA-256
find_package(Threads REQUIRED)
find_program(PARTITA_PYTHON python3 REQUIRED DOC "The Python that runs the scripts of tests")

# partita_allocator: what programs link, but not libraries, whose users choose their own. Searches and lowering make millions of small things:
# with it lowering takes two thirds of the time. The sanitizers bring theirs.
add_library(partita_allocator INTERFACE)
if(NOT PARTITA_SANITIZE)
  find_package(mimalloc REQUIRED)
  add_library(partita_allocator_options OBJECT ${CMAKE_SOURCE_DIR}/cmake/allocator_options.cc)
  target_link_libraries(partita_allocator_options PRIVATE mimalloc)
  target_sources(partita_allocator INTERFACE $<TARGET_OBJECTS:partita_allocator_options>)
  target_link_libraries(partita_allocator INTERFACE mimalloc)
endif()

find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
include(GoogleTest)

# The next two are functions, called where a room needs them, so that the rooms before it build without.

# partita_aten: ATen's headers and libraries, from the torch or libtorch that CMAKE_PREFIX_PATH names, else from .deps/.
# Only kernels/ and its tests link it. It is put together by hand, since find_package(Torch) wants a CUDA toolkit beside a CUDA
# build, and adds every include directory of the wheel. The wheel carries an old protobuf: this target never goes near onnx/.
function(partita_find_aten)
  set(folders ${CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
  list(APPEND folders ${from_environment})
  foreach(folder IN LISTS folders)  # torch.utils.cmake_prefix_path is TORCH/share/cmake
    list(APPEND folders ${folder}/../..)
  endforeach()
  find_path(pointed_to ATen/ATen.h HINTS ${folders} PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
  if(pointed_to)  # also where an earlier run found another one
    set(PARTITA_ATEN_INCLUDE ${pointed_to} CACHE PATH "The folder that has ATen/ATen.h" FORCE)
  endif()
  find_path(PARTITA_ATEN_INCLUDE ATen/ATen.h HINTS ${CMAKE_SOURCE_DIR}/.deps/torch/torch/include NO_DEFAULT_PATH)
  if(NOT PARTITA_ATEN_INCLUDE)
    message(FATAL_ERROR "No torch was found. Run tools/setup.sh, which installs one into .deps/, or point to one that is on this "
      "machine: -DCMAKE_PREFIX_PATH=FOLDER, where FOLDER/include/ATen/ATen.h exists.")
  endif()
  file(REAL_PATH ${PARTITA_ATEN_INCLUDE}/.. root)

  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)  # the second in older ones
    if(NOT version AND EXISTS ${root}/include/${header})
      file(STRINGS ${root}/include/${header} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
      string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
      list(JOIN numbers "." version)
    endif()
  endforeach()
  if(NOT version OR version VERSION_LESS 2.11)
    message(FATAL_ERROR "The torch at ${root} is version '${version}'; Partita needs 2.11 or newer.")
  endif()

  foreach(name c10 torch_cpu)
    if(NOT EXISTS ${root}/lib/lib${name}.so)
      message(FATAL_ERROR "The torch at ${root} has no lib/lib${name}.so.")
    endif()
    add_library(partita_${name} SHARED IMPORTED)
    set_target_properties(partita_${name} PROPERTIES
      IMPORTED_LOCATION ${root}/lib/lib${name}.so
      INTERFACE_COMPILE_OPTIONS "SHELL:-idirafter ${root}/include")  # after the system's: the wheel carries its own fmt, too
  endforeach()
  add_library(partita_aten INTERFACE)
  target_link_libraries(partita_aten INTERFACE partita_torch_cpu partita_c10)
  message(STATUS "ATen: torch ${version} at ${root}")
endfunction()

# partita_onnx_proto: ONNX's messages, compiled from onnx.proto. protobuf is linked statically, and a program that links this
# hides its symbols, so that libtorch's own protobuf and this one never meet.
function(partita_make_onnx_proto)
  find_path(PARTITA_ONNX_FOLDER onnx.proto HINTS ${CMAKE_SOURCE_DIR}/.deps/onnx/onnx NO_DEFAULT_PATH)
  if(NOT PARTITA_ONNX_FOLDER)
    message(FATAL_ERROR "onnx.proto was not found. Run tools/setup.sh, or name the folder that has it: -DPARTITA_ONNX_FOLDER=FOLDER")
  endif()
  find_program(PARTITA_PROTOC protoc REQUIRED)
  find_library(PARTITA_PROTOBUF libprotobuf.a REQUIRED)
  set(generated ${CMAKE_BINARY_DIR}/generated/onnx)
  file(MAKE_DIRECTORY ${generated})
  add_custom_command(OUTPUT ${generated}/onnx.pb.cc ${generated}/onnx.pb.h
    COMMAND ${PARTITA_PROTOC} --proto_path=${PARTITA_ONNX_FOLDER} --cpp_out=${generated} ${PARTITA_ONNX_FOLDER}/onnx.proto
    DEPENDS ${PARTITA_ONNX_FOLDER}/onnx.proto VERBATIM)
  add_library(partita_onnx_proto STATIC ${generated}/onnx.pb.cc ${generated}/onnx.pb.h)
  target_include_directories(partita_onnx_proto SYSTEM PUBLIC $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/generated>)  # <onnx/onnx.pb.h>
  target_link_libraries(partita_onnx_proto PUBLIC ${PARTITA_PROTOBUF} Threads::Threads)
  if(NOT PARTITA_SANITIZE MATCHES "fuzzer")  # clang's AddressSanitizer is an archive, whose operator new shared libraries must find
    target_link_options(partita_onnx_proto INTERFACE -Wl,--exclude-libs,ALL)
  endif()
  set_target_properties(partita_onnx_proto PROPERTIES EXCLUDE_FROM_ALL ON)
endfunction()
