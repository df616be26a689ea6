set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# -O2 with line tables: a stack in a log is readable, and objects stay small.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

# ccache, told to forget the build folder: what the presets compile alike is compiled once.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CCACHE_PROGRAM ccache)
  if(CCACHE_PROGRAM)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()

# Warnings and sanitizers for our own sources only; dependencies are included as system headers.
add_library(trireme_flags INTERFACE)
target_compile_options(trireme_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wno-missing-field-initializers>)
# One result everywhere: the compiler may not fuse a*b+c differently from file to file.
target_compile_options(trireme_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(TRIREME_CUDA)
  target_compile_definitions(trireme_flags INTERFACE TRIREME_CUDA)
elseif(TRIREME_HIP)
  target_compile_definitions(trireme_flags INTERFACE TRIREME_HIP)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_flags INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(trireme_flags INTERFACE -fsanitize=address,undefined)
endif()
