#include "tests/runtime/comm/mpi_conformance.h"
