/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_BASE_UTF8_H
#define TENON_BASE_UTF8_H

#include <stddef.h>

/* First byte that is not valid UTF-8 (surrogates and overlong forms are not), or n. Pure. */
size_t tni_utf8_valid(const char *s, size_t n);

#endif
