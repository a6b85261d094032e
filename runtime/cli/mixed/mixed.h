/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/cli/mixed: what a budget chose, as text.
 */
#ifndef TENON_CLI_MIXED_H
#define TENON_CLI_MIXED_H

#include <jansson.h>
#include <stdio.h>

/* quantize.json, with "folder": bits, loss, how many products took which format, and how losses were found. */
void cli_mixed_show(const json_t *j, FILE *f);
/* "fold" of quantize.json: how many places changed. Nothing where j has none. */
void cli_mixed_show_fold(const json_t *j, FILE *f);

#endif
