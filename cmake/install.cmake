# partita_installed(): what `cmake --install` puts where: the program, the rooms as static libraries with their headers, and the kernels
# as libpartita_engine.so, which is loaded when something runs. find_package(partita) gives partita::partita. libtorch itself is not
# installed: the engine finds it where it was when it was built.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

function(partita_installed)
  if(NOT TARGET partita OR PARTITA_SANITIZE)
    return()
  endif()
  get_property(rooms GLOBAL PROPERTY PARTITA_ROOMS)
  list(REMOVE_ITEM rooms partita_kernels)
  add_library(partita_library INTERFACE)
  target_link_libraries(partita_library INTERFACE partita_train)
  target_compile_features(partita_library INTERFACE cxx_std_20)
  target_include_directories(partita_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # A program finds the engine by its own run path.
  target_link_options(partita_library INTERFACE $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
  set_target_properties(partita_library PROPERTIES EXPORT_NAME partita)

  get_target_property(torch partita_torch_cpu IMPORTED_LOCATION)
  cmake_path(GET torch PARENT_PATH torch)
  set_target_properties(partita_engine PROPERTIES INSTALL_RPATH ${torch})
  install(TARGETS partita RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS partita_engine LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS partita_library partita_flags partita_onnx_proto ${rooms} EXPORT partita
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY partita DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE
          PATTERN kernels EXCLUDE PATTERN testing EXCLUDE)
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/partita)
  install(EXPORT partita NAMESPACE partita:: FILE partitaTargets.cmake DESTINATION ${folder})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/partitaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_SOURCE_DIR}/cmake/partitaConfig.cmake ${CMAKE_BINARY_DIR}/partitaConfigVersion.cmake DESTINATION ${folder})
  install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()
