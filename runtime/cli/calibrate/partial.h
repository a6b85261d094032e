/* SPDX-License-Identifier: Apache-2.0
 *
 * What was recorded so far lies in OUT.partial, so that a call that was stopped goes on. In order: ids of all pieces,
 * open, then the pieces of each pass and its end; drop when OUT is written. One thread.
 */
#ifndef TENON_CLI_CALIBRATE_PARTIAL_H
#define TENON_CLI_CALIBRATE_PARTIAL_H

#include <stdbool.h>
#include <tenon/tenon.h>

typedef struct cli_partial {
  tn_model *m;
  tn_calibration_text what; /* the caller's but for done (pieces of this pass) and options */
  char *path, *options;
  uint64_t ids;             /* a hash */
  uint64_t before;          /* pieces of this pass that ran in an earlier call */
  uint32_t pass;            /* to go on in: 1 or 2; 3: both have ended */
  bool resumed, useless;    /* useless: a file was there that is damaged or of something else */
  int64_t kept_ns, took_ns; /* when the file was written, and how long that took */
} cli_partial;

/* m has recorded nothing yet. *what is copied, what it points to stays the caller's. */
void cli_partial_init(cli_partial *p, tn_model *m, const tn_calibration_text *what);
void cli_partial_finish(cli_partial *p);
/* A piece that will run. Tokenizer and template make the ids, so the file is for these. */
void cli_partial_ids(cli_partial *p, const int32_t *ids, size_t n);
/* Goes on where OUT.partial ends, if it is for the same model, text, ids and `how`; pass and resumed say so. useless:
 * TN_OK, and err says what is wrong with the file. */
tn_status cli_partial_open(cli_partial *p, const char *out, const char *how, tn_error *err);
/* The next piece: true where it ran before. */
bool cli_partial_skips(cli_partial *p);
/* It has run as a whole; the file is written when it is time, or Ctrl-C came. TN_E_IO: it cannot be. */
tn_status cli_partial_piece(cli_partial *p, tn_error *err);
/* All pieces of the pass have run. */
tn_status cli_partial_pass(cli_partial *p, tn_error *err);
/* The file is needed no more. false: errno says why it is still there. */
bool cli_partial_drop(const cli_partial *p);

#endif
