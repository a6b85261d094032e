/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the page: a model and a profile each, and what the commands gave for them.
 */
#ifndef TENON_CLI_PAGE_ROWS_H
#define TENON_CLI_PAGE_ROWS_H

#include "runtime/cli/page/ask.h"

/* The list of rows that were planned: objects with "id", "label", "group" ("floats", "rounded", "calibrated"), "model",
 * and where there are any "profile" (what --profile is given), "yaml" (what that file holds), "weights" or "bits" (of
 * tenon quantize). NULL: a->err says why. */
json_t *page_rows_plan(page_asker *a);
/* Runs the commands of a row and adds "eval", "bench", "inspect", "check", "pack", "run", "quantize": what they printed. */
TN_MUST_CHECK tn_status page_row_fill(page_asker *a, json_t *row);
/* How many commands a row has. */
int page_row_commands(const page_asker *a, const json_t *row);

#endif
