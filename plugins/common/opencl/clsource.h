/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that stands before every kernel (cl/prologue.cl).
 */
#ifndef TENON_COMMON_OPENCL_CLSOURCE_H
#define TENON_COMMON_OPENCL_CLSOURCE_H

extern const char *const tni_cl_prologue;

#endif
