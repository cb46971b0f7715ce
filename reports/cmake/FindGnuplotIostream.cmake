# Gnuplot::iostream: a pipe to the program gnuplot, one header over Boost.Iostreams and
# Boost.Filesystem (found by the caller). It ships no CMake package.
find_path(GnuplotIostream_INCLUDE_DIR gnuplot-iostream.h)
find_program(GnuplotIostream_GNUPLOT gnuplot)
mark_as_advanced(GnuplotIostream_INCLUDE_DIR GnuplotIostream_GNUPLOT)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(GnuplotIostream
  REQUIRED_VARS GnuplotIostream_INCLUDE_DIR GnuplotIostream_GNUPLOT)

if(GnuplotIostream_FOUND AND NOT TARGET Gnuplot::iostream)
  add_library(Gnuplot::iostream INTERFACE IMPORTED)
  target_include_directories(Gnuplot::iostream INTERFACE "${GnuplotIostream_INCLUDE_DIR}")
  target_link_libraries(Gnuplot::iostream INTERFACE
    Boost::iostreams Boost::filesystem Boost::system)
endif()
