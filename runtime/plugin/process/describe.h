/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin says of itself, as bytes and back: caps, options, formats.
 */
#ifndef TENON_PLUGIN_PROCESS_DESCRIBE_H
#define TENON_PLUGIN_PROCESS_DESCRIBE_H

#include <tenon/plugin.h>

#include "runtime/plugin/process/wire.h"

void tni_caps_put(tni_wire *w, const tn_caps *c);
const tn_caps *tni_caps_get(tni_rd *r, tni_arena *a); /* NULL: bad */
void tni_option_put(tni_wire *w, const tn_option *o);
const tn_option *tni_option_get(tni_rd *r, tni_arena *a);
void tni_numerics_put(tni_wire *w, const tn_numerics *n);     /* NULL is fine */
const tn_numerics *tni_numerics_get(tni_rd *r, tni_arena *a); /* NULL: there were none, or bad */
/* What is data of it; functions are the reader's. */
void tni_format_put(tni_wire *w, const tn_format *f);
bool tni_format_get(tni_rd *r, tni_arena *a, tn_format *out, bool *has_numerics_of);
void tni_custom_put(tni_wire *w, const tn_custom_op *o);
const tn_custom_op *tni_custom_get(tni_rd *r, tni_arena *a); /* NULL: bad */
void tni_info_put(tni_wire *w, const tn_program_info *i, uint32_t (*format)(const void *ctx, const tn_format *f),
                  const void *ctx);
/* format: of 1 + index, NULL: bad. */
const tn_program_info *tni_info_get(tni_rd *r, tni_arena *a,
                                    const tn_format *(*format)(const void *ctx, uint32_t index), const void *ctx);

#endif
