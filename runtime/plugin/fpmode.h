/* SPDX-License-Identifier: Apache-2.0
 *
 * The floating-point control word (x86-64 MXCSR without its sticky flags, aarch64 FPCR): rounding, flush to zero,
 * traps. Compared around plugin calls, which must leave it as it was.
 */
#ifndef TENON_PLUGIN_FPMODE_H
#define TENON_PLUGIN_FPMODE_H

#include <stdint.h>

uint64_t tni_fpmode_get(void);
void tni_fpmode_put(uint64_t mode);

#endif
