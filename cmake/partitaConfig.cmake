# find_package(partita) gives the target partita::partita.
include(CMakeFindDependencyMacro)
foreach(package fmt nlohmann_json yaml-cpp ZLIB Threads)
  find_dependency(${package})
endforeach()
include(${CMAKE_CURRENT_LIST_DIR}/partitaTargets.cmake)
