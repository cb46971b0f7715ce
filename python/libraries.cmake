# What the extension module is built from, asked for together: whoever runs pip hears once, and in the names that apt
# knows, what is missing.
set(missing "")
foreach(row
    "Boost 1.74/libboost-dev" "Eigen3 3.4/libeigen3-dev" "MPFR/libmpfr-dev" "MPFI/libmpfi-dev"
    "Random123/librandom123-dev" "hwy 1.0/libhwy-dev" "fmt 9/libfmt-dev" "nlohmann_json 3.11/nlohmann-json3-dev"
    "Libzip/libzip-dev" "Python 3.10 COMPONENTS Interpreter Development.Module/python3-dev")
  string(REGEX MATCH "^(([A-Za-z0-9_]+)[^/]*)/(.*)$" row "${row}")
  set(package "${CMAKE_MATCH_2}")
  set(debian "${CMAKE_MATCH_3}")
  separate_arguments(wanted UNIX_COMMAND "${CMAKE_MATCH_1}")
  find_package(${wanted} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND missing "${debian}")
  endif()
endforeach()
if(missing)
  list(JOIN missing " " missing)
  message(FATAL_ERROR "fa1lab is built on this machine, from libraries of the system, and these are missing. "
    "On Debian and Ubuntu, as root:\n  apt-get install g++ ${missing}\n")
endif()
