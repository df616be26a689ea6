# One library per folder. A library sees only the folders that it names in USES, so an include
# against the arrows of docs/architecture.md fails to link, and tools/check_arrows.py names it.
#
#   trireme_library(runtime/comm SOURCES a.cpp b.cpp USES runtime/base LINKS MPI::MPI_CXX)
#     -> target trireme_runtime_comm (trireme::runtime/comm in USES of others)
#   trireme_program(trireme SOURCES main.cpp USES launcher/commands)
#   trireme_test(runtime/comm/local_communicator_test.cpp USES runtime/comm [RANKS 2] [LONG])

function(_trireme_target_names out)
  set(names)
  foreach(folder IN LISTS ARGN)
    string(REPLACE "/" "_" name ${folder})
    list(APPEND names trireme_${name})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# LibTorch's headers, parsed once for every target that uses them. To be called when `target` is linked to all
# that it uses. A source with options of its own for the machine sets SKIP_PRECOMPILE_HEADERS.
function(_trireme_precompile target)
  _trireme_reaches(${target} uses_torch trireme_torch)
  if(NOT uses_torch OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  if(NOT TARGET trireme_torch_headers)
    file(WRITE ${CMAKE_BINARY_DIR}/torch_headers.cpp "")
    add_library(trireme_torch_headers OBJECT ${CMAKE_BINARY_DIR}/torch_headers.cpp)
    target_link_libraries(trireme_torch_headers PRIVATE trireme_torch trireme_flags)
    target_precompile_headers(trireme_torch_headers PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled_torch.h)
  endif()
  # -fPIC for programs, too, where CMake says -fPIE; the other is for ccache.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fPIC;-fpch-preprocess>")
  target_precompile_headers(${target} REUSE_FROM trireme_torch_headers)
endfunction()

function(trireme_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINKS" ${ARGN})
  _trireme_target_names(target ${folder})
  _trireme_target_names(uses ${ARG_USES})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(${target} PUBLIC ${uses} ${ARG_LINKS} PRIVATE trireme_flags)
    _trireme_precompile(${target})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${uses} ${ARG_LINKS})
  endif()
endfunction()

function(trireme_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINKS" ${ARGN})
  _trireme_target_names(uses ${ARG_USES})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${uses} ${ARG_LINKS} trireme_flags)
  _trireme_precompile(${name})
  _trireme_allow_leaks(${name})
endfunction()

# Whether a target links, directly or through others, one of the libraries named after `out`.
function(_trireme_reaches target out)
  set(${out} FALSE PARENT_SCOPE)
  if(NOT TARGET ${target})
    return()
  endif()
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(linked ${target} ${property})
    foreach(item IN LISTS linked)
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
      if(item IN_LIST ARGN)
        set(${out} TRUE PARENT_SCOPE)
        return()
      endif()
      _trireme_reaches("${item}" found ${ARGN})
      if(found)
        set(${out} TRUE PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

function(_trireme_allow_leaks target)
  if(TRIREME_SANITIZE)
    _trireme_reaches(${target} foreign trireme_torch MPI::MPI_CXX)
    if(foreign)
      target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/allow_leaks.cpp)
    endif()
  endif()
endfunction()

# A test's file name is its tier: x_test.cpp (one process), x_mpi_test.cpp (RANKS processes under
# mpirun), x_gpu_test.cpp (skips with a reason where there is no GPU). LONG: only in `tools/test --long`.
function(trireme_test file)
  cmake_parse_arguments(ARG "LONG" "RANKS;TIMEOUT" "USES;LINKS;SOURCES" ${ARGN})
  _trireme_target_names(uses ${ARG_USES})
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/bin)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_RANKS)
    set(ARG_RANKS 2)
  endif()
  set(processes 1)
  if(name MATCHES "_mpi_test$")
    # The file has its own main: it must call MPI_Init (tests/mpi_test_main.cpp).
    target_link_libraries(${name} PRIVATE ${uses} ${ARG_LINKS} trireme_mpi_test_main trireme_flags)
    add_test(NAME ${name}
      COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -np ${ARG_RANKS} $<TARGET_FILE:${name}>)
    set(tier mpi)
    set(processes ${ARG_RANKS})
  else()
    target_link_libraries(${name} PRIVATE ${uses} ${ARG_LINKS} GTest::gtest_main trireme_flags)
    add_test(NAME ${name} COMMAND ${name})
    set(tier unit)
    if(name MATCHES "_gpu_test$")
      set(tier gpu)
    endif()
  endif()
  _trireme_precompile(${name})
  # Compiled often, run once.
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  set(labels ${tier})
  if(ARG_LONG)
    list(APPEND labels long)
  endif()
  # A sanitized program needs several times the time.
  if(TRIREME_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  _trireme_allow_leaks(${name})
  _trireme_test_environment(environment)
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${processes}
    SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests[^\n]*\n\\[  SKIPPED" ENVIRONMENT "${environment}")
endfunction()

# One thread per rank; Open MPI as root, in a container, on fewer cores than ranks; where the programs lie.
function(_trireme_test_environment out)
  set(environment
    OMP_NUM_THREADS=1
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_btl_vader_single_copy_mechanism=none
    OMPI_MCA_rmaps_base_oversubscribe=1
    TRIREME_BIN_DIR=${CMAKE_BINARY_DIR}/bin
    TRIREME_SOURCE_DIR=${CMAKE_SOURCE_DIR})
  if(TRIREME_SANITIZE)
    list(APPEND environment
      "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
      "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
  endif()
  set(${out} "${environment}" PARENT_SCOPE)
endfunction()
