# Arrow's and Parquet's C++ libraries: -DTRIREME_ARROW=DIR, else the folder that tools/setup filled, else an
# installed pyarrow of the supported version. DIR holds include/, libarrow.so.N and libparquet.so.N.
foreach(name ARROW_VERSION ARROW_SO)
  file(STRINGS ${CMAKE_SOURCE_DIR}/tools/versions.env _line REGEX "^${name}=")
  string(REGEX REPLACE "^${name}=" "" TRIREME_${name} "${_line}")
endforeach()
set(TRIREME_ARROW "" CACHE PATH "Arrow: the folder that holds include/, libarrow and libparquet")
if(NOT TRIREME_ARROW AND EXISTS "${_cache}/arrow-${TRIREME_ARROW_VERSION}/pyarrow/libarrow.so.${TRIREME_ARROW_SO}")
  set(TRIREME_ARROW "${_cache}/arrow-${TRIREME_ARROW_VERSION}/pyarrow" CACHE PATH "" FORCE)
endif()
if(NOT TRIREME_ARROW)
  execute_process(
    COMMAND python3 -c "import importlib.util as u,os; s=u.find_spec('pyarrow'); print(os.path.dirname(s.origin) if s else '')"
    OUTPUT_VARIABLE _python_arrow OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(_python_arrow AND EXISTS "${_python_arrow}/../pyarrow-${TRIREME_ARROW_VERSION}.dist-info")
    set(TRIREME_ARROW "${_python_arrow}" CACHE PATH "" FORCE)
  endif()
endif()
foreach(_library arrow parquet)
  if(NOT EXISTS "${TRIREME_ARROW}/lib${_library}.so.${TRIREME_ARROW_SO}")
    message(FATAL_ERROR "Arrow ${TRIREME_ARROW_VERSION} (lib${_library}.so.${TRIREME_ARROW_SO}) was not found. "
      "Run tools/setup, or pass -DTRIREME_ARROW=DIR.")
  endif()
endforeach()
message(STATUS "Arrow: ${TRIREME_ARROW}")

add_library(trireme_arrow INTERFACE)
target_include_directories(trireme_arrow SYSTEM INTERFACE ${TRIREME_ARROW}/include)
target_link_libraries(trireme_arrow INTERFACE
  ${TRIREME_ARROW}/libparquet.so.${TRIREME_ARROW_SO} ${TRIREME_ARROW}/libarrow.so.${TRIREME_ARROW_SO})
