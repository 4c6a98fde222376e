# Finds the xsimd headers: an installed package of version 14 or newer, else the copy that the
# PyPI package pythran carries (the only way to get them in an isolated pip build).
find_package(xsimd 14 QUIET CONFIG)
if(NOT xsimd_FOUND)
  find_package(Python REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND
      "${Python_EXECUTABLE}" -c
      "from importlib.util import find_spec as f; s = f('pythran'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE SPECTOR_PYTHRAN_DIR
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_path(XSIMD_INCLUDE_DIR xsimd/xsimd.hpp HINTS "${SPECTOR_PYTHRAN_DIR}" NO_DEFAULT_PATH)
  if(NOT XSIMD_INCLUDE_DIR)
    message(FATAL_ERROR "xsimd headers not found: pip install 'pythran>=0.19' (it carries them)")
  endif()
  add_library(xsimd INTERFACE IMPORTED)
  target_include_directories(xsimd SYSTEM INTERFACE "${XSIMD_INCLUDE_DIR}")
endif()
