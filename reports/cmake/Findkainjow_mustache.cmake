# kainjow::mustache: Mustache templates, one header. It ships no CMake package.
find_path(kainjow_mustache_INCLUDE_DIR kainjow/mustache.hpp)
mark_as_advanced(kainjow_mustache_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(kainjow_mustache REQUIRED_VARS kainjow_mustache_INCLUDE_DIR)

if(kainjow_mustache_FOUND AND NOT TARGET kainjow::mustache)
  add_library(kainjow::mustache INTERFACE IMPORTED)
  target_include_directories(kainjow::mustache INTERFACE "${kainjow_mustache_INCLUDE_DIR}")
endif()
