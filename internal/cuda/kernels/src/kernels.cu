// All kernels, in one translation unit.
#include "gpu.h"
#include "elementwise.cu"
#include "bias.cu"
#include "norm.cu"
#include "normgrad.cu"
