/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding, all at once or id by id: one pipeline for both. Tokens enter at the first decoder; each stage hands on what
 * can no longer change. Before a Fuse or ByteLevel a stage gets whole tokens; after it, fragments of one token, the
 * last of which has `end` set. A stage that cannot work on fragments gathers them first (tni_dec.whole).
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/tok.h"

typedef struct stage {
  tni_str held;      /* bytes, a run of byte tokens, a token or a tail that may still change */
  tni_str out, out2; /* what it hands on */
  tni_str whole;
  size_t seen;     /* tokens so far; Strip: characters stripped */
  bool past_start; /* Strip: the leading run is over */
} stage;

struct tni_detok {
  const tni_tokenizer *t;
  bool skip_special;
  const int32_t *shown; /* [n_shown] special tokens that are not skipped */
  size_t n_shown;
  tni_match_memory match;
  tni_str out;
  tn_status failed;
  bool lost; /* an append did not fit, in a text that has been cleared since */
  tn_error *err;
  stage *stages;
  size_t in, grown; /* bytes of tokens; bytes that stand for what was replaced */
};

static void feed_stage(tni_detok *d, size_t k, const char *s, size_t n, bool end);

/* A stage's text begins anew: what did not fit before is lost all the same. */
static void clear_text(tni_detok *d, tni_str *s) {
  d->lost = d->lost || s->failed;
  tni_str_clear(s);
}

/* --- replacing ---------------------------------------------------------------------------------------------------- */

/* Appends s to out with matches replaced; returns how much of s was used. hold: the end of s may be the beginning of a
 * literal match, stop before it. */
static size_t replace_pattern(tni_detok *d, const tni_pattern *p, tni_view with, const char *s, size_t n, bool hold,
                              tni_str *out) {
  tni_matches m = tni_matches_begin(p, &d->match, s, n);
  size_t last = 0, b = 0, e = 0, stop = n;
  for (bool found = true; found;) {
    d->failed = tni_matches_next(&m, &found, &b, &e, d->err);
    if (d->failed != TN_OK) return n;
    if (!found) break;
    tni_str_add(out, s + last, b - last);
    tni_str_add(out, with.v, with.n);
    last = e;
    d->grown += with.n;
    if (d->grown <= tni_str_most(d->in)) continue;
    d->failed = tni_fail(d->err, TN_E_LIMIT, "decoder", "text of %zu bytes grows over %zu", d->in, tni_str_most(d->in));
    return n;
  }
  if (hold) {
    size_t most = n - last < p->lit.n - 1 ? n - last : p->lit.n - 1;
    while (most && memcmp(s + n - most, p->lit.v, most) != 0) most--;
    stop = n - most;
  }
  if (stop > last) tni_str_add(out, s + last, stop - last);
  return stop;
}

/* WordPiece's clean-up of spaces before punctuation and English contractions, in this order. */
static void cleanup_spaces(tni_detok *d, stage *g) {
  static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                         {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                         {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    tni_pattern p = {{pairs[i][0], strlen(pairs[i][0])}, NULL};
    clear_text(d, &g->out2);
    replace_pattern(d, &p, (tni_view){pairs[i][1], strlen(pairs[i][1])}, g->out.v, g->out.n, false, &g->out2);
    tni_str t = g->out;
    g->out = g->out2;
    g->out2 = t;
  }
}

static void do_replace(tni_detok *d, size_t k, const char *s, size_t n, bool end) {
  const tni_dec *x = &d->t->decs[k];
  stage *g = &d->stages[k];
  clear_text(d, &g->out);
  if (!x->fused || x->whole) {
    replace_pattern(d, &x->pattern, x->text, s, n, false, &g->out);
  } else {
    tni_str_add(&g->held, s, n);
    size_t used = replace_pattern(d, &x->pattern, x->text, g->held.v, g->held.n, !end, &g->out);
    tni_str_drop(&g->held, used);
  }
  feed_stage(d, k + 1, g->out.v, g->out.n, end);
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

/* One character at s: its length if it is valid, minus the length of its longest valid beginning if it is broken, 0 if
 * it may be complete with more bytes. */
static int char_at(const unsigned char *s, size_t n) {
  unsigned char c = s[0], lo = 0x80, hi = 0xbf;
  if (c < 0x80) return 1;
  int len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if (c < 0xc2 || c > 0xf4) return -1;
  if (c == 0xe0) lo = 0xa0;
  if (c == 0xed) hi = 0x9f;
  if (c == 0xf0) lo = 0x90;
  if (c == 0xf4) hi = 0x8f;
  for (int i = 1; i < len; i++, lo = 0x80, hi = 0xbf) {
    if ((size_t)i >= n) return 0;
    if (s[i] < lo || s[i] > hi) return -i;
  }
  return len;
}

/* Moves whole characters from held to out; what is broken becomes U+FFFD, one per longest valid beginning. */
static void put_lossy(stage *g, bool last) {
  size_t i = 0;
  while (i < g->held.n) {
    int k = char_at((const unsigned char *)g->held.v + i, g->held.n - i);
    if (k == 0 && !last) break;
    if (k > 0)
      tni_str_add(&g->out, g->held.v + i, (size_t)k);
    else
      tni_str_add_cp(&g->out, 0xfffd);
    i += k > 0 ? (size_t)k : k < 0 ? (size_t)-k : g->held.n - i;
  }
  tni_str_drop(&g->held, i);
}

static void do_bytes(tni_detok *d, size_t k, const char *s, size_t n) {
  stage *g = &d->stages[k];
  bool whole = d->t->decs[k].whole;
  clear_text(d, &g->out);
  tni_put_token_bytes(&g->held, s, n);
  put_lossy(g, whole);
  if (g->out.n || whole) feed_stage(d, k + 1, g->out.v, g->out.n, whole);
}

/* A run of byte tokens is text only if all of it is: one bad byte makes each of its bytes a U+FFFD. */
static void flush_run(tni_detok *d, size_t k) {
  stage *g = &d->stages[k];
  bool good = tni_utf8_valid(g->held.n ? g->held.v : "", g->held.n) == g->held.n;
  size_t n = g->held.n;
  g->held.n = 0;
  if (good && n) feed_stage(d, k + 1, g->held.v, n, true);
  for (size_t i = 0; !good && i < n; i++) feed_stage(d, k + 1, "\xef\xbf\xbd", 3, true);
}

static void do_byte_fallback(tni_detok *d, size_t k, const char *s, size_t n) {
  int b = tni_byte_token(s, n);
  bool whole = d->t->decs[k].whole;
  if (b >= 0) tni_str_add(&d->stages[k].held, (char[1]){(char)b}, 1);
  if (b < 0 || whole) flush_run(d, k);
  if (b < 0) feed_stage(d, k + 1, s, n, true);
}

/* --- the other stages --------------------------------------------------------------------------------------------- */

static bool is_char(const tni_dec *x, const char *s, size_t n) {
  return n >= x->text.n && memcmp(s, x->text.v, x->text.n) == 0;
}

static void do_strip(tni_detok *d, size_t k, const char *s, size_t n, bool end) {
  const tni_dec *x = &d->t->decs[k];
  stage *g = &d->stages[k];
  if (!x->fused) {
    g->seen = 0;
    g->past_start = false;
  }
  while (n && !g->past_start) {
    g->past_start = g->seen == x->start || !is_char(x, s, n);
    if (g->past_start) break;
    s += x->text.n;
    n -= x->text.n;
    g->seen++;
  }
  tni_str_add(&g->held, s, n);
  size_t keep = g->held.n, c = x->text.n;
  for (size_t i = 0; i < x->stop && keep >= c && is_char(x, g->held.v + keep - c, c); i++) keep -= c;
  clear_text(d, &g->out);
  if (keep) tni_str_add(&g->out, g->held.v, keep);
  tni_str_drop(&g->held, end ? g->held.n : keep);
  feed_stage(d, k + 1, g->out.v, g->out.n, end);
}

static void do_metaspace(tni_detok *d, size_t k, const char *s, size_t n, bool end) {
  const tni_dec *x = &d->t->decs[k];
  stage *g = &d->stages[k];
  bool drop = g->seen == 0 && !x->keep_first;
  clear_text(d, &g->out);
  for (size_t i = 0, len; i < n; i += len) {
    len = tni_utf8_len(s[i]);
    if (!is_char(x, s + i, n - i))
      tni_str_add(&g->out, s + i, len);
    else if (!drop)
      tni_str_add(&g->out, " ", 1);
  }
  g->seen += end;
  feed_stage(d, k + 1, g->out.v, g->out.n, end);
}

static void do_wordpiece(tni_detok *d, size_t k, const char *s, size_t n, bool end) {
  const tni_dec *x = &d->t->decs[k];
  stage *g = &d->stages[k];
  clear_text(d, &g->out);
  bool part = g->seen && is_char(x, s, n);
  if (g->seen && !part) tni_str_add(&g->out, " ", 1);
  if (part)
    tni_str_add(&g->out, s + x->text.n, n - x->text.n);
  else
    tni_str_add(&g->out, s, n);
  if (x->cleanup) cleanup_spaces(d, g);
  g->seen += end;
  feed_stage(d, k + 1, g->out.v, g->out.n, end);
}

/* The suffix is a space except in the last token, so one token waits. */
static void flush_bpe(tni_detok *d, size_t k, bool last) {
  stage *g = &d->stages[k];
  clear_text(d, &g->out);
  replace_pattern(d, &d->t->decs[k].pattern, last ? (tni_view){"", 0} : (tni_view){" ", 1}, g->held.v, g->held.n, false,
                  &g->out);
  clear_text(d, &g->held);
  feed_stage(d, k + 1, g->out.v, g->out.n, true);
}

static void do_bpe(tni_detok *d, size_t k, const char *s, size_t n) {
  stage *g = &d->stages[k];
  if (g->seen++) flush_bpe(d, k, false);
  tni_str_add(&g->held, s, n);
  if (d->t->decs[k].whole) flush_bpe(d, k, true);
}

static void do_ctc(tni_detok *d, size_t k, const char *s, size_t n) {
  const tni_dec *x = &d->t->decs[k];
  stage *g = &d->stages[k];
  if (g->seen++ && g->held.n == n && memcmp(n ? g->held.v : "", s, n) == 0) return;
  clear_text(d, &g->held);
  tni_str_add(&g->held, s, n);
  clear_text(d, &g->out);
  replace_pattern(d, &(tni_pattern){x->text, NULL}, (tni_view){"", 0}, s, n, false, &g->out);
  if (x->cleanup) {
    cleanup_spaces(d, g);
    clear_text(d, &g->out2);
    replace_pattern(d, &(tni_pattern){x->text2, NULL}, (tni_view){" ", 1}, g->out.v, g->out.n, false, &g->out2);
  }
  tni_str *o = x->cleanup ? &g->out2 : &g->out;
  if (o->n || x->whole) feed_stage(d, k + 1, o->v, o->n, true);
}

static void do_join(tni_detok *d, size_t k, const char *s, size_t n) {
  if (d->stages[k].seen++) feed_stage(d, k + 1, " ", 1, true);
  feed_stage(d, k + 1, s, n, true);
}

/* --- the pipeline ------------------------------------------------------------------------------------------------- */

static void feed_stage(tni_detok *d, size_t k, const char *s, size_t n, bool end) {
  if (d->failed != TN_OK) return;
  if (n == 0) s = "";
  if (k == d->t->n_decs) {
    tni_str_add(&d->out, s, n);
    return;
  }
  const tni_dec *x = &d->t->decs[k];
  if (x->whole) {
    tni_str *w = &d->stages[k].whole;
    tni_str_add(w, s, n);
    if (!end) return;
    s = w->n ? w->v : "";
    n = w->n;
  }
  switch (x->kind) {
    case TNI_DEC_BYTES:
      do_bytes(d, k, s, n);
      break;
    case TNI_DEC_METASPACE:
      do_metaspace(d, k, s, n, end);
      break;
    case TNI_DEC_BYTE_FALLBACK:
      do_byte_fallback(d, k, s, n);
      break;
    case TNI_DEC_FUSE:
      feed_stage(d, k + 1, s, n, x->fused && end);
      break;
    case TNI_DEC_STRIP:
      do_strip(d, k, s, n, end);
      break;
    case TNI_DEC_REPLACE:
      do_replace(d, k, s, n, end);
      break;
    case TNI_DEC_WORDPIECE:
      do_wordpiece(d, k, s, n, end);
      break;
    case TNI_DEC_BPE:
      do_bpe(d, k, s, n);
      break;
    case TNI_DEC_CTC:
      do_ctc(d, k, s, n);
      break;
    case TNI_DEC_JOIN:
      do_join(d, k, s, n);
      break;
  }
}

/* No more tokens: what the stages hold goes on, first stage first. */
static void drain_stages(tni_detok *d) {
  for (size_t k = 0; k < d->t->n_decs && d->failed == TN_OK; k++) {
    const tni_dec *x = &d->t->decs[k];
    stage *g = &d->stages[k];
    if (x->fused) continue; /* its end has come through feed */
    if (x->kind == TNI_DEC_BYTES) {
      clear_text(d, &g->out);
      put_lossy(g, true);
      feed_stage(d, k + 1, g->out.v, g->out.n, true);
    }
    if (x->kind == TNI_DEC_FUSE) feed_stage(d, k + 1, "", 0, true);
    if (x->kind == TNI_DEC_BYTE_FALLBACK) flush_run(d, k);
    if (x->kind == TNI_DEC_BPE && g->seen) flush_bpe(d, k, true);
  }
}

static tn_status begin_detok(tni_detok *d, const tni_tokenizer *t, bool skip_special) {
  *d = (tni_detok){.t = t, .skip_special = skip_special};
  d->stages = calloc(t->n_decs ? t->n_decs : 1, sizeof *d->stages);
  return d->stages ? TN_OK : TN_E_NO_MEMORY;
}

static void end_all(tni_detok *d) {
  for (size_t k = 0; d->stages && k < d->t->n_decs; k++) {
    stage *g = &d->stages[k];
    tni_str_finish(&g->held);
    tni_str_finish(&g->out);
    tni_str_finish(&g->out2);
    tni_str_finish(&g->whole);
  }
  free(d->stages);
  tni_str_finish(&d->out);
  tni_match_memory_finish(&d->match);
}

static bool is_shown(const tni_detok *d, int32_t id) {
  for (size_t i = 0; i < d->n_shown; i++)
    if (d->shown[i] == id) return true;
  return false;
}

/* An id without a token gives no text: vocabularies of models are often padded. */
static void push_token(tni_detok *d, int32_t id) {
  if (id < 0 || (size_t)id >= d->t->n_tokens) return;
  const tni_token *k = &d->t->tokens[id];
  if (!k->v || (d->skip_special && k->skipped && !is_shown(d, id))) return;
  d->in += k->shown.n;
  feed_stage(d, 0, k->shown.v, k->shown.n, true);
}

static tn_status detok_result(tni_detok *d, tn_error *err) {
  bool lost = d->lost || d->out.failed;
  for (size_t k = 0; k < d->t->n_decs; k++) {
    const stage *g = &d->stages[k];
    lost |= g->held.failed || g->out.failed || g->out2.failed || g->whole.failed;
  }
  if (d->failed == TN_OK && lost) d->failed = tni_fail_memory(err, "decoder");
  return d->failed;
}

tni_detok *tni_detok_create(const tni_tokenizer *t, bool skip_special) {
  tni_detok *d = malloc(sizeof *d);
  if (d && begin_detok(d, t, skip_special) != TN_OK) {
    free(d);
    return NULL;
  }
  return d;
}

void tni_detok_show(tni_detok *d, const int32_t *ids, size_t n) {
  d->shown = ids;
  d->n_shown = n;
}

void tni_detok_destroy(tni_detok *d) {
  if (!d) return;
  end_all(d);
  free(d);
}

static tn_status give_ready_text(tni_detok *d, const char **text, size_t *len, tn_error *err) {
  tn_status st = detok_result(d, err);
  d->err = NULL;
  if (st != TN_OK) return st;
  *text = d->out.n ? d->out.v : "";
  *len = d->out.n;
  return TN_OK;
}

tn_status tni_detok_push(tni_detok *d, int32_t id, const char **text, size_t *len, tn_error *err) {
  if (d->failed != TN_OK) return tni_fail(err, d->failed, "decoder", "it has failed before");
  d->err = err;
  tni_str_clear(&d->out);
  push_token(d, id);
  return give_ready_text(d, text, len, err);
}

tn_status tni_detok_finish(tni_detok *d, const char **text, size_t *len, tn_error *err) {
  if (d->failed != TN_OK) return tni_fail(err, d->failed, "decoder", "it has failed before");
  d->err = err;
  tni_str_clear(&d->out);
  drain_stages(d);
  return give_ready_text(d, text, len, err);
}

tn_status tni_tokenizer_decode(const tni_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, char **text,
                               size_t *len, tn_error *err) {
  tni_detok d;
  if (begin_detok(&d, t, skip_special) != TN_OK) return tni_fail_memory(err, "decoder");
  d.err = err;
  for (size_t i = 0; i < n; i++) push_token(&d, ids[i]);
  drain_stages(&d);
  tni_str_add(&d.out, "", 1);
  tn_status st = detok_result(&d, err);
  if (st == TN_OK) {
    *text = d.out.v;
    *len = d.out.n - 1;
    d.out.v = NULL;
  }
  end_all(&d);
  return st;
}
