// CUDA's runtime API on virtual GPUs: found instead of CUDA's own header when a .cu file is compiled with
// an ordinary C++ compiler. ../README.md says what is promised and what is not seen.
#pragma once

#include "cuda_emulation/api.h"
#include "cuda_emulation/atomics.h"
#include "cuda_emulation/kernel.h"
#include "cuda_emulation/launch.h"
#include "cuda_emulation/math.h"
#include "cuda_emulation/types.h"
