# Arb::Arb: ball arithmetic. A library of its own up to FLINT 2, a part of FLINT from version 3 on.
find_path(Arb_INCLUDE_DIR arb.h PATH_SUFFIXES flint)
find_path(Arb_FLINT_INCLUDE_DIR flint/flint.h)
find_library(Arb_LIBRARY NAMES flint-arb arb flint)
find_library(Arb_FLINT_LIBRARY flint)
mark_as_advanced(Arb_INCLUDE_DIR Arb_FLINT_INCLUDE_DIR Arb_LIBRARY Arb_FLINT_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Arb
  REQUIRED_VARS Arb_LIBRARY Arb_FLINT_LIBRARY Arb_INCLUDE_DIR Arb_FLINT_INCLUDE_DIR)

if(Arb_FOUND AND NOT TARGET Arb::Arb)
  add_library(Arb::Arb UNKNOWN IMPORTED)
  set_target_properties(Arb::Arb PROPERTIES
    IMPORTED_LOCATION "${Arb_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Arb_INCLUDE_DIR};${Arb_FLINT_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${Arb_FLINT_LIBRARY}")
endif()
