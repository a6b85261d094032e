/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_BASE_CLOCK_H
#define TENON_BASE_CLOCK_H

#include <stdint.h>

int64_t tni_now_ns(void); /* monotonic */

#endif
