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
