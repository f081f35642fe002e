# libtorch as a Python wheel of torch carries it, whichever build of the wheel it is.
#
# The wheel has a TorchConfig.cmake of its own. In the builds for GPUs, which pip takes on x86-64 unless it is told
# otherwise, that one insists on the CUDA toolkit, although nothing here uses more of libtorch than its CPU part. This one
# asks for that part only. It is used when CMake is told so with Torch_DIR, as lib/setup.sh does; it finds the wheel the
# same way, through CMAKE_PREFIX_PATH, which ends in torch/share/cmake.
#
# Sets what the driver needs: TORCH_INSTALL_PREFIX, TORCH_INCLUDE_DIRS, TORCH_LIBRARY, TORCH_CXX_FLAGS, Torch_VERSION.

set(TORCH_INSTALL_PREFIX "")
foreach(_prefix IN LISTS CMAKE_PREFIX_PATH)
  get_filename_component(_wheel "${_prefix}/../.." ABSOLUTE)
  if(EXISTS "${_wheel}/lib/libtorch_cpu.so" AND EXISTS "${_wheel}/include/torch/csrc/api/include/torch/torch.h")
    set(TORCH_INSTALL_PREFIX "${_wheel}")
    break()
  endif()
endforeach()

if(NOT TORCH_INSTALL_PREFIX)
  set(Torch_FOUND FALSE)
  set(Torch_NOT_FOUND_MESSAGE
    "no libtorch: expected CMAKE_PREFIX_PATH to hold the folder torch/share/cmake of a Python wheel, got '${CMAKE_PREFIX_PATH}'")
  return()
endif()

set(TORCH_INCLUDE_DIRS
  "${TORCH_INSTALL_PREFIX}/include"
  "${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include")
set(TORCH_LIBRARY "${TORCH_INSTALL_PREFIX}/lib/libtorch.so")
# Every wheel since 2.7 is built with the C++11 ABI of libstdc++, the compiler's default.
set(TORCH_CXX_FLAGS "")
set(Torch_VERSION "")
if(EXISTS "${TORCH_INSTALL_PREFIX}/version.py")
  file(STRINGS "${TORCH_INSTALL_PREFIX}/version.py" _lines REGEX "^__version__ *=")
  string(REGEX REPLACE ".*['\"]([0-9.]+).*" "\\1" Torch_VERSION "${_lines}")
endif()
set(Torch_FOUND TRUE)
