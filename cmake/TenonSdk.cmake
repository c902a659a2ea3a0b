# SPDX-License-Identifier: MIT
# The SDK's program, tenon-plugin-check, and what the component `sdk` installs beside the headers: the template,
# the guide, and the op tests that `tenon-plugin-check --ops` runs.
file(GLOB check_sources CONFIGURE_DEPENDS sdk/check/*.c)
add_executable(tenon-plugin-check ${check_sources})
target_include_directories(tenon-plugin-check PRIVATE sdk/include)
target_link_libraries(tenon-plugin-check PRIVATE Threads::Threads m ${CMAKE_DL_LIBS})
set_target_properties(tenon-plugin-check PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
tenon_warnings(tenon-plugin-check)
install(TARGETS tenon-plugin-check RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT sdk)
install(FILES sdk/README.md sdk/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/tenon/sdk COMPONENT sdk)
install(DIRECTORY sdk/template sdk/check DESTINATION ${CMAKE_INSTALL_DATADIR}/tenon/sdk COMPONENT sdk)
if(TENON_TESTS)
  install(FILES tests/golden/methods.bin DESTINATION ${CMAKE_INSTALL_DATADIR}/tenon/tests COMPONENT sdk)
  install(PROGRAMS ${CMAKE_BINARY_DIR}/tenon-tests DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/tenon COMPONENT sdk OPTIONAL)
endif()
