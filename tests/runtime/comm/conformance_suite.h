// All that every communicator must do.
#pragma once

#include "tests/runtime/comm/conformance_async.h"
#include "tests/runtime/comm/conformance_errors.h"
#include "tests/runtime/comm/conformance_messages.h"
#include "tests/runtime/comm/conformance_values.h"
