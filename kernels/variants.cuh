/// The text of every kernel in variants.def; the two translation units that instantiate kernels
/// include this one file.
#pragma once

#include "kernels/fa1.cuh"
