/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/harness.h"
