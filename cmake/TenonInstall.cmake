# SPDX-License-Identifier: MIT
# The installed tree: headers, libraries, plugins, pkg-config file, find_package(tenon [COMPONENTS sdk]).
# Everything is found from the files' own place, so that the tree may be moved.
include(CMakePackageConfigHelpers)
add_library(tenon-sdk INTERFACE)
target_include_directories(tenon-sdk INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(tenon-sdk PROPERTIES EXPORT_NAME sdk)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)
install(DIRECTORY core/include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT lib)
install(DIRECTORY sdk/include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk)
install(TARGETS tenon tenon-static EXPORT tenon-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib)
install(TARGETS tenon-sdk EXPORT tenon-sdk-targets)
install(EXPORT tenon-targets NAMESPACE tenon:: DESTINATION ${package} COMPONENT lib)
install(EXPORT tenon-sdk-targets NAMESPACE tenon:: DESTINATION ${package} COMPONENT sdk)
configure_package_config_file(cmake/tenon-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/gen/tenon-config.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/gen/tenon-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gen/tenon-config.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/gen/tenon-config-version.cmake DESTINATION ${package} COMPONENT lib)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gen/tenon-config.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/gen/tenon-config-version.cmake cmake/TenonPlugin.cmake
        DESTINATION ${package} COMPONENT sdk)

list(JOIN TENON_PC_LIBS " " pc_libs)
file(RELATIVE_PATH pc_prefix /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(cmake/tenon.pc.in ${CMAKE_CURRENT_BINARY_DIR}/gen/tenon.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gen/tenon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT lib)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT lib)

include(TenonSdk)
