/* SPDX-License-Identifier: Apache-2.0
 *
 * The page: HTML without scripts, with its styles and pictures inside.
 */
#ifndef TENON_CLI_PAGE_HTML_H
#define TENON_CLI_PAGE_HTML_H

#include <stdio.h>

#include "runtime/base/markup.h"
#include "runtime/cli/page/ask.h"

/* Writes the whole page. What the stream could not take is seen when it is closed. */
void page_write(const page_asker *a, const json_t *rows, FILE *f);
/* {"page", "rows": [{"label", "bits", ...}], "failed": commands that failed}: the figures of the first table. */
json_t *page_figures(const page_asker *a, const json_t *rows);

/* --- what its parts share --- */

const char *page_string(const json_t *o, const char *key);
/* A number by its path, "memory.packed_bytes"; NAN: there is none. */
double page_number(const json_t *o, const char *path);
/* Tokens a second of the test that begins with `test` ("pp", "tg"); NAN: not measured. */
double page_rate(const json_t *row, const char *test);
/* Bits of a weight, packed bytes over weights; NAN: floats. */
double page_bits(const json_t *row);
/* The format that weights have, malloc'd-free: "lev4"; params are part of it: "w4g:32". */
void page_format(const json_t *row, char *out, size_t room);

/* KL divergence over bits, and over decode speed. */
void page_charts(const json_t *rows, FILE *f);
/* Errors by layer and product of each row; sensitivities where a row has them. */
void page_heat(const page_asker *a, const json_t *rows, FILE *f);
/* Samples, memory and placement. */
void page_samples(const page_asker *a, const json_t *rows, FILE *f);
void page_memory(const json_t *rows, FILE *f);
void page_placement(const json_t *rows, FILE *f);

#endif
