# The AMD path: hipcc, the HIP runtime, RCCL, and LibTorch's ROCm libraries.
#   trireme_cudart  the HIP runtime            trireme_nccl  RCCL (and with it the runtime)
# trireme_torch, from Torch.cmake, gains LibTorch's ROCm libraries. Kernels go through hipcc by commands of
# ours: CMake's own HIP language wants ROCm's tree, which Debian's packages do not have.
#
# -DTRIREME_HIP_CHECK=ON takes an outline of RCCL where there is none, and any LibTorch: then the target
# hip_check compiles what is written for AMD, and programs cannot be linked.
option(TRIREME_HIP_CHECK "Compile the AMD sources only, without RCCL and LibTorch for ROCm" OFF)
if(TRIREME_CUDA)
  message(FATAL_ERROR "TRIREME_CUDA and TRIREME_HIP: a build is for one of them")
endif()
find_program(TRIREME_HIPCC hipcc HINTS ENV ROCM_PATH /opt/rocm PATH_SUFFIXES bin)
if(NOT TRIREME_HIPCC)
  message(FATAL_ERROR "The hip preset needs AMD's compiler driver, and no hipcc was found. Put ROCm's bin folder "
    "on the PATH or set ROCM_PATH; to check the sources alone, Debian's package hipcc is enough.")
endif()
# MI200 and MI300.
set(TRIREME_HIP_ARCHITECTURES gfx90a gfx942 CACHE STRING "AMD GPU architectures")
get_filename_component(_rocm ${TRIREME_HIPCC} REALPATH)
get_filename_component(_rocm ${_rocm}/../.. ABSOLUTE)
find_path(TRIREME_HIP_INCLUDE hip/hip_runtime_api.h HINTS ${_rocm}/include)
find_library(TRIREME_HIP_LIBRARY amdhip64 HINTS ${_rocm}/lib)
find_path(TRIREME_RCCL_INCLUDE rccl/rccl.h HINTS ${_rocm}/include)
find_library(TRIREME_RCCL_LIBRARY rccl HINTS ${_rocm}/lib)
if(NOT TRIREME_HIP_INCLUDE OR NOT TRIREME_HIP_LIBRARY)
  message(FATAL_ERROR "The HIP runtime (hip_runtime_api.h and libamdhip64.so) was not found beside ${TRIREME_HIPCC}.")
endif()

add_library(trireme_cudart INTERFACE)
target_include_directories(trireme_cudart SYSTEM INTERFACE ${TRIREME_HIP_INCLUDE})
target_compile_definitions(trireme_cudart INTERFACE __HIP_PLATFORM_AMD__)
target_link_libraries(trireme_cudart INTERFACE ${TRIREME_HIP_LIBRARY})
add_library(trireme_nccl INTERFACE)
target_link_libraries(trireme_nccl INTERFACE trireme_cudart)
if(TRIREME_HIP_CHECK)
  target_include_directories(trireme_nccl SYSTEM INTERFACE ${CMAKE_SOURCE_DIR}/cmake/rccl_outline)
elseif(TRIREME_RCCL_INCLUDE AND TRIREME_RCCL_LIBRARY)
  target_include_directories(trireme_nccl SYSTEM INTERFACE ${TRIREME_RCCL_INCLUDE})
  target_link_libraries(trireme_nccl INTERFACE ${TRIREME_RCCL_LIBRARY})
else()
  message(FATAL_ERROR "RCCL (rccl/rccl.h and librccl.so) was not found beside ${TRIREME_HIPCC}. "
    "It belongs to ROCm; Debian 12 has no package of it.")
endif()

if(NOT TRIREME_HIP_CHECK)
  if(NOT EXISTS ${TRIREME_TORCH}/lib/libtorch_hip.so)
    message(FATAL_ERROR "${TRIREME_TORCH} holds no LibTorch for ROCm (libtorch_hip.so). Install PyTorch "
      "${TRIREME_TORCH_VERSION} from its ROCm index and pass -DTRIREME_TORCH=.../site-packages/torch.")
  endif()
  target_link_libraries(trireme_torch INTERFACE
    "-Wl,--push-state,--no-as-needed,${TRIREME_TORCH}/lib/libtorch_hip.so,${TRIREME_TORCH}/lib/libc10_hip.so,--pop-state"
    trireme_cudart)
endif()

# All that is written for AMD.
add_custom_target(hip_check)

# Sources of kernels as objects, to be listed among a library's sources. Multiply-adds are written out: the
# compiler may not choose them.
function(trireme_gpu_kernels out)
  set(objects)
  set(offload)
  foreach(architecture IN LISTS TRIREME_HIP_ARCHITECTURES)
    list(APPEND offload --offload-arch=${architecture})
  endforeach()
  foreach(source IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E env HIP_PLATFORM=amd ${TRIREME_HIPCC} -x hip -std=c++20 -O3 -fPIC -Wall -Wextra
              -ffp-contract=off -DTRIREME_HIP ${offload} -I${CMAKE_SOURCE_DIR} -MD -MF ${object}.d
              -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d
      COMMENT "Compiling ${source} for ${TRIREME_HIP_ARCHITECTURES}" VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
  string(REPLACE "/" "_" name ${CMAKE_CURRENT_SOURCE_DIR})
  add_custom_target(hip_kernels_${name} DEPENDS ${objects})
  add_dependencies(hip_check hip_kernels_${name})
endfunction()
message(STATUS "HIP: ${TRIREME_HIPCC}, architectures: ${TRIREME_HIP_ARCHITECTURES}")
