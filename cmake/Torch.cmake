# LibTorch's C++ part: -DTRIREME_TORCH=DIR, else the folder that tools/setup filled, else an
# installed Python torch of a supported version. DIR holds include/ and lib/.
foreach(name TORCH_VERSION TORCH_CUDA_VERSION)
  file(STRINGS ${CMAKE_SOURCE_DIR}/tools/versions.env _line REGEX "^${name}=")
  string(REGEX REPLACE "^${name}=" "" TRIREME_${name} "${_line}")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/versions.env)
if(DEFINED ENV{TRIREME_CACHE})
  set(_cache $ENV{TRIREME_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_cache $ENV{XDG_CACHE_HOME}/trireme)
else()
  set(_cache $ENV{HOME}/.cache/trireme)
endif()
set(TRIREME_TORCH "" CACHE PATH "LibTorch: the folder that holds include/ and lib/")
if(NOT TRIREME_TORCH AND EXISTS "${_cache}/torch-${TRIREME_TORCH_VERSION}/torch/lib/libtorch_cpu.so")
  set(TRIREME_TORCH "${_cache}/torch-${TRIREME_TORCH_VERSION}/torch" CACHE PATH "" FORCE)
endif()
if(NOT TRIREME_TORCH)
  execute_process(
    COMMAND python3 -c "import importlib.util as u,os; s=u.find_spec('torch'); print(os.path.dirname(s.origin) if s else '')"
    OUTPUT_VARIABLE _python_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(_python_torch AND EXISTS "${_python_torch}/version.py")
    file(STRINGS "${_python_torch}/version.py" _version REGEX "^__version__ = '${TRIREME_TORCH_VERSION}")
    if(_version)
      set(TRIREME_TORCH "${_python_torch}" CACHE PATH "" FORCE)
    endif()
  endif()
endif()
if(NOT EXISTS "${TRIREME_TORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch ${TRIREME_TORCH_VERSION} was not found. Run tools/setup, or pass -DTRIREME_TORCH=DIR.")
endif()
message(STATUS "LibTorch: ${TRIREME_TORCH}")

# -idirafter, not -isystem: LibTorch ships copies of fmt, pybind11 and protobuf that must not win
# over the installed ones that spdlog was built with.
add_library(trireme_torch INTERFACE)
target_compile_options(trireme_torch INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${TRIREME_TORCH}/include>"
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${TRIREME_TORCH}/include/torch/csrc/api/include>"
  "$<$<COMPILE_LANGUAGE:CXX>:-fopenmp>")  # at::parallel_for is a plain loop without it
# Its headers include those of single operators, not all two thousand.
target_compile_definitions(trireme_torch INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_libraries(trireme_torch INTERFACE
  ${TRIREME_TORCH}/lib/libtorch_cpu.so ${TRIREME_TORCH}/lib/libc10.so
  ${TRIREME_TORCH}/lib/libgomp.so.1)  # one OpenMP runtime in the process: LibTorch's
# Libraries that libtorch_cpu needs in turn are found on its own rpath, not by our linker.
target_link_options(trireme_torch INTERFACE
  -Wl,--unresolved-symbols=ignore-in-shared-libs -Wl,--disable-new-dtags)
