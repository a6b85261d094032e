/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session holds that keeps its caches: how long they are, and what it feeds to the inputs.
 */
#ifndef TENON_SESSION_KEEP_H
#define TENON_SESSION_KEEP_H

#include "runtime/memory/memory.h"

/* What a keeping session feeds to one input. */
typedef struct tni_fed {
  tn_tensor t; /* dims as last bound; data is `data` */
  void *data;  /* malloc'd */
  bool given;  /* a plain input that the caller gave: NULL leaves it as it is where it stays (tni_feed_stays) */
  uint64_t room;
} tni_fed;

/* Rotary tables that the length of the whole text chooses (long_text.h). */
typedef struct tni_long {
  int64_t limit;    /* the longest text that the first tables are for; INT64_MAX: there is no choice */
  int64_t first[2]; /* their first row, and that of the tables for longer texts (tni_graph.tables) */
  int64_t text;     /* length of the text that steps are a part of, as far as somebody said; 0: nobody did */
  int64_t now;      /* first row for the step under way, */
  int64_t rows;     /* and for what is in the caches */
  bool warned;
} tni_long;

/* A session that keeps its caches (step.c). */
typedef struct tni_keep {
  int64_t batch, capacity, limit,
      max_step;             /* capacity: limit, and room for a padded chunk at its end, in whole buckets */
  int64_t length;           /* positions in the caches */
  struct tni_sequences *slots;  /* of sequences with lengths of their own, or NULL (slots.h) */
  bool gaps;                /* an input over the whole context has a zero: sequences may end at different rows */
  struct tni_sexec *exec;   /* prepared for what follows, or NULL */
  int64_t total, rows, end; /* length of the context, rows of logits and where they end */
  tni_fed *fed;             /* [n_inputs] */
  void **remembered;        /* [n_inputs] states of fixed size at position remembered_at (fixed.h), or NULL */
  int64_t remembered_at;
  tni_long longer;
  struct tni_pieces *pieces; /* of prompts in flight, or NULL (pieces.c) */
} tni_keep;

/* Memory for steps of these sizes, of a session that keeps nothing yet. Where it fails with a lost device, another
 * session may take over (tn_session_keep); what it leaves half made is for tni_keep_undo. */
TN_MUST_CHECK tn_status tni_keep_make(tn_session *s, const tn_keep_opts *o, tn_error *err);
/* The session keeps no caches, as before tni_keep_make. */
void tni_keep_undo(tn_session *s);
void tni_keep_release(tn_session *s);

#endif
