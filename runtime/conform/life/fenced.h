/* SPDX-License-Identifier: Apache-2.0
 *
 * Items with fences: on one or two engines of a device, as many as it takes at once, held by words that the kit stores
 * into and telling words that it looks at. Private to the room.
 *
 * A function that returns a bool has said what was wrong where it returns false. Once a case has failed, nothing is
 * given back: an item may still be waiting.
 */
#ifndef TENON_CONFORM_LIFE_FENCED_H
#define TENON_CONFORM_LIFE_FENCED_H

#include "runtime/conform/drive/drive.h"

enum { TNI_CF_LANES = 2, TNI_CF_LANE_ITEMS = 3, TNI_CF_ITEM_WAITS = 4, TNI_CF_ITEM_OUTS = 4, TNI_CF_WORDS = 200 };

/* One task of an engine that may be run by itself, over and over: instances of it, and what each gives. */
typedef struct tni_cf_lane {
  uint32_t engine, task, n;
  tni_cf_rig rig[TNI_CF_LANE_ITEMS];
  uint32_t out[TNI_CF_ITEM_OUTS], n_out; /* slots that it writes */
  uint8_t *want[TNI_CF_LANE_ITEMS][TNI_CF_ITEM_OUTS];
} tni_cf_lane;

typedef struct tni_cf_fenced {
  tni_cf_host h;
  tni_cf_lane lane[TNI_CF_LANES];
  uint32_t n_lanes, n_words;
  uint8_t *page;                  /* of the words */
  uint64_t stored[TNI_CF_WORDS];  /* what the kit stored last */
  bool told[TNI_CF_WORDS];        /* an item may store into it */
  uint64_t largest[TNI_CF_WORDS]; /* that an item may store */
  bool waits, signals;            /* kinds of fences that the device has */
} tni_cf_fenced;

/* Opens the device and finds its lanes, none where there is no such task: n_lanes. False: skipped or failed. */
bool tni_cf_fenced_open(tni_cf *cf, tni_cf_fenced *b, const tni_cf_ask *ask);
void tni_cf_fenced_close(tni_cf *cf, tni_cf_fenced *b);

/* A word that holds `at`, as a fence of that value. Of one that items signal, value is the largest so far. */
tn_fence tni_cf_fenced_word(tni_cf_fenced *b, uint64_t at, uint64_t value, bool told);
/* The kit stores into a word that items wait for. */
void tni_cf_fenced_store(tni_cf_fenced *b, const tn_fence *f, uint64_t value);
uint64_t tni_cf_fenced_now(const tn_fence *f);
/* No word but those that items signal was written, and nothing beside them. */
bool tni_cf_fenced_words(tni_cf *cf, const tni_cf_fenced *b, const char *what);

/* Words may not be touched any more: their time is over. */
void tni_cf_fenced_shut(tni_cf_fenced *b);

/* One submission of items [first, first + n) of a lane. */
typedef struct tni_cf_sent {
  tni_cf_fenced *b;
  tni_cf_lane *lane;
  uint32_t first, n;
  const char *what; /* of what is asked, for findings */
  tn_fence wait[TNI_CF_LANE_ITEMS][TNI_CF_ITEM_WAITS], signal[TNI_CF_LANE_ITEMS];
  uint32_t n_waits[TNI_CF_LANE_ITEMS];
  bool signals[TNI_CF_LANE_ITEMS];
  struct tni_cf_ticket *ticket[TNI_CF_LANE_ITEMS];
  pthread_t thread;
  bool started, blocks;
  atomic_bool over;
  tn_status st, allowed; /* allowed: what submit may say as well, and take nothing */
} tni_cf_sent;

/* Fills the outputs and submits; where the engine blocks, submit is still under way then. */
bool tni_cf_fenced_send(tni_cf *cf, tni_cf_sent *s);
/* Item i has not begun: looks for a while. */
bool tni_cf_fenced_held(tni_cf *cf, const tni_cf_sent *s, uint32_t i, const char *by);
/* Item i is over: its word first, where it has one, with its results, then done. */
bool tni_cf_fenced_right(tni_cf *cf, tni_cf_sent *s, uint32_t i);
/* Item i is completed, with `st` or, where or_right is set, right; `why`: for what reason it ends. */
bool tni_cf_fenced_ended(tni_cf *cf, tni_cf_sent *s, uint32_t i, tn_status st, bool or_right, const char *why);
/* submit has come back. */
bool tni_cf_fenced_join(tni_cf *cf, tni_cf_sent *s);

#endif
