# SPDX-License-Identifier: MIT
# Warnings of every target, and the sanitizers.
set(TENON_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes)
if(TENON_WERROR)
  list(APPEND TENON_WARNINGS -Werror)
  if(CMAKE_C_COMPILER_ID STREQUAL GNU) # guesses of the optimiser, others with each version: shown, no errors
    list(APPEND TENON_WARNINGS -Wno-error=array-bounds -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow)
  endif()
endif()
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  # with a sanitizer gcc sees uninitialised values where there are none, and says that it knows no fences
  set(TENON_SANITIZE_QUIET -Wno-maybe-uninitialized -Wno-tsan)
endif()

function(tenon_warnings target)
  target_compile_options(${target} PRIVATE ${TENON_WARNINGS})
endfunction()

if(TENON_SANITIZE)
  add_compile_options(-fsanitize=${TENON_SANITIZE} -fno-omit-frame-pointer ${TENON_SANITIZE_QUIET})
  add_link_options(-fsanitize=${TENON_SANITIZE})
  if(TENON_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=all)
  endif()
endif()
if(TENON_FUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(TENON_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

# Every symbol of a plugin must be found at link time; sanitizers bring theirs at run time.
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
  if(NOT (TENON_SANITIZE AND CMAKE_C_COMPILER_ID MATCHES Clang))
    set(defs -Wl,-z,defs)
  endif()
  set(TENON_PLUGIN_LINK ${defs} -Wl,-z,nodelete -Wl,-Bsymbolic)
endif()
