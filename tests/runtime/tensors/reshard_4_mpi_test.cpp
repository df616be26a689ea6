#include "tests/runtime/tensors/reshard_over_mpi.h"
