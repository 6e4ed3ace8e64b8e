# `make install`: both libraries, the headers, and what pkg-config and find_package(hodu) read. All of it is relative
# to where it lies, so that an installed copy may be moved.
include(CMakePackageConfigHelpers)

set(HODU_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hodu)
set(HODU_PKGCONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS hodu hodu_static EXPORT hoduTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS hodu-export OPTIONAL RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}) # where it was built
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/hodu DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

install(EXPORT hoduTargets NAMESPACE hodu:: DESTINATION ${HODU_CMAKE_DIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/hoduConfig.cmake.in ${PROJECT_BINARY_DIR}/hoduConfig.cmake
  INSTALL_DESTINATION ${HODU_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hoduConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hoduConfig.cmake ${PROJECT_BINARY_DIR}/hoduConfigVersion.cmake
  DESTINATION ${HODU_CMAKE_DIR})

file(RELATIVE_PATH HODU_PREFIX_FROM_PC /prefix/${HODU_PKGCONFIG_DIR} /prefix)
string(REGEX REPLACE "/$" "" HODU_PREFIX_FROM_PC ${HODU_PREFIX_FROM_PC})
set(HODU_PC_DEFINITIONS "")
foreach(definition ${HODU_PARTS_LEFT_OUT}) # as the CMake targets say it: see library.cmake
  string(APPEND HODU_PC_DEFINITIONS " -D${definition}")
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/hodu.pc.in ${PROJECT_BINARY_DIR}/hodu.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/hodu.pc DESTINATION ${HODU_PKGCONFIG_DIR})
