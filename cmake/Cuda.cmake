# The NVIDIA path: nvcc, the CUDA runtime, NCCL, and LibTorch's CUDA libraries.
#   trireme_cudart  the CUDA runtime           trireme_nccl  NCCL (and with it the runtime)
# trireme_torch, from Torch.cmake, gains LibTorch's CUDA libraries. Nothing here needs a GPU to compile,
# link or start; code asks cudaGetDeviceCount at run time.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  # A100 and H100; newer GPUs compile the newest one's PTX when they load it.
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "GPU architectures; 90 alone compiles faster")
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(TRIREME_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT TRIREME_NVCC)
    message(FATAL_ERROR "The cuda preset needs NVIDIA's CUDA toolkit, and no nvcc was found. "
      "Put it on the PATH or set CUDA_HOME; the cpu preset needs no toolkit.")
  endif()
  set(CMAKE_CUDA_COMPILER ${TRIREME_NVCC})
endif()
enable_language(CUDA)
# CMake 3.25.1 does not know yet that nvcc speaks C++20.
foreach(kind STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)

string(REGEX MATCH "^[0-9]+" _torch_cuda_major "${TRIREME_TORCH_CUDA_VERSION}")
if(NOT CUDAToolkit_VERSION_MAJOR EQUAL _torch_cuda_major)
  message(FATAL_ERROR "LibTorch ${TRIREME_TORCH_VERSION} was built with CUDA ${TRIREME_TORCH_CUDA_VERSION}, and this toolkit "
    "(${CUDAToolkit_BIN_DIR}) is ${CUDAToolkit_VERSION}. Choose another by CUDA_HOME or -DCMAKE_CUDA_COMPILER.")
endif()

# The wheels' folder beside LibTorch: what the toolkit does not hold lies there.
get_filename_component(_beside_torch "${TRIREME_TORCH}/.." ABSOLUTE)
file(GLOB _nvidia_folders ${_beside_torch}/nvidia/*/lib)

add_library(trireme_cudart INTERFACE)
target_link_libraries(trireme_cudart INTERFACE CUDA::cudart)

find_path(TRIREME_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_beside_torch}/nvidia/nccl/include)
find_library(TRIREME_NCCL_LIBRARY NAMES nccl libnccl.so.2
  HINTS ${CUDAToolkit_LIBRARY_DIR} ${_beside_torch}/nvidia/nccl/lib)
if(NOT TRIREME_NCCL_INCLUDE OR NOT TRIREME_NCCL_LIBRARY)
  message(FATAL_ERROR "NCCL (nccl.h and libnccl.so) was not found. Run tools/setup --cuda.")
endif()
add_library(trireme_nccl INTERFACE)
target_include_directories(trireme_nccl SYSTEM INTERFACE ${TRIREME_NCCL_INCLUDE})
target_link_libraries(trireme_nccl INTERFACE ${TRIREME_NCCL_LIBRARY} trireme_cudart)

if(NOT EXISTS ${TRIREME_TORCH}/lib/libtorch_cuda.so)
  message(FATAL_ERROR "${TRIREME_TORCH} holds LibTorch's CPU part only. Run tools/setup --cuda.")
endif()
# One item, so that CMake cannot reorder it: nothing refers to libtorch_cuda by name, it registers itself.
target_link_libraries(trireme_torch INTERFACE
  "-Wl,--push-state,--no-as-needed,${TRIREME_TORCH}/lib/libtorch_cuda.so,${TRIREME_TORCH}/lib/libc10_cuda.so,--pop-state"
  trireme_cudart)
target_compile_options(trireme_torch INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-idirafter,${TRIREME_TORCH}/include>")

# libtorch_cuda.so looks for what it needs on its own RPATH, then on the program's (a DT_RPATH: Torch.cmake).
list(APPEND CMAKE_BUILD_RPATH ${TRIREME_TORCH}/lib ${_nvidia_folders} ${CUDAToolkit_LIBRARY_DIR})
# Sources of kernels, to be listed among a library's sources. Multiply-adds are written out: the compiler may
# not choose them.
function(trireme_gpu_kernels out)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -fmad=false)
  set(${out} ${ARGN} PARENT_SCOPE)
endfunction()
message(STATUS "CUDA ${CUDAToolkit_VERSION}, NCCL: ${TRIREME_NCCL_LIBRARY}, architectures: ${CMAKE_CUDA_ARCHITECTURES}")
