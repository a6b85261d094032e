/* SPDX-License-Identifier: Apache-2.0
 *
 * The generation loop. A token is given to the caller once it is known whether it is the last, so that its text holds
 * everything that was waiting for more.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/llm/draft.h"
#include "runtime/llm/lm.h"
#include "runtime/llm/pick.h"
#include "runtime/llm/repeats.h"
#include "runtime/llm/stop.h"
#include "runtime/llm/text/text.h"

enum {
  LOOKUP_MOST = 64,
  LOOKUP_WAIT = 8,
  LOOKUP_FIRST = 3 /* guesses to begin with: with the last token so many rows as kernels for few take */
};

typedef struct tni_gen {
  tn_chat *c;
  const tn_gen_params *p;
  tn_token_fn fn;
  void *user;
  tn_error *err;
  tn_sampler *sampler;
  tni_stop *stop;
  tni_detok *detok; /* NULL: no tokenizer */
  size_t skip;      /* bytes of the stream that are still the conversation's own text */
  size_t ahead;     /* guesses of lookup in the next step; 0: not said yet */
  size_t waits;     /* steps without lookup, and */
  size_t wait_next; /* how many it will be when no guess came */
  bool looked;      /* the last guesses are those of lookup, after two tokens or more */
  bool single;      /* or after one */
  bool no_lookup;   /* the model's state cannot go back */
  uint64_t tried, came; /* guesses */
  tni_str text;     /* of this token */
  tn_gen_result res;
} gen;

/* The decoder has seen the conversation, so that the first new token is decoded as a continuation (its space stays).
 * What of that text is not out yet is passed over when it comes. */
static tn_status prime_prompt(gen *g) {
  const tn_lm *lm = g->c->lm;
  char *all = NULL;
  const char *t;
  size_t len, sum = 0;
  if (!lm->tok) return TN_OK;
  g->detok = tni_detok_create(lm->tok, true);
  if (!g->detok) return tni_fail_memory(g->err, "decoder");
  if (g->c->source && g->c->n == 1) return TN_OK; /* a text of its own, after a token that is none of it */
  tn_status st = tni_tokenizer_decode(lm->tok, g->c->history, g->c->n, true, &all, &sum, g->err);
  free(all);
  for (size_t i = 0; i < g->c->n && st == TN_OK; i++) {
    st = tni_detok_push(g->detok, g->c->history[i], &t, &len, g->err);
    if (st == TN_OK) sum -= len < sum ? len : sum;
  }
  g->skip = sum;
  return st;
}

static tn_status begin_text(gen *g) {
  tn_status st = tni_stop_create(g->p->stop, g->p->n_stop, &g->stop, g->err);
  if (st == TN_OK) st = prime_prompt(g);
  if (st == TN_OK && g->detok) tni_detok_show(g->detok, g->c->lm->marks, g->c->lm->n_marks);
  return st;
}

static void finish_text(gen *g) {
  tn_sampler_destroy(g->sampler);
  tni_stop_destroy(g->stop);
  tni_detok_destroy(g->detok);
  tni_str_finish(&g->text);
}

/* Appends text to g->text through the stop strings. */
static tn_status pass_text(gen *g, const char *t, size_t len, bool *hit) {
  size_t drop = g->skip < len ? g->skip : len;
  g->skip -= drop;
  while (drop < len && ((unsigned char)t[drop] & 0xc0) == 0x80) drop++; /* never half a character */
  const char *sure;
  size_t n;
  tn_status st = tni_stop_push(g->stop, t + drop, len - drop, &sure, &n, hit, g->err);
  if (st == TN_OK) tni_str_add(&g->text, sure, n);
  return st;
}

static tn_status add_text(gen *g, int32_t id, bool last, bool *hit) {
  const char *t = "";
  size_t len = 0;
  *hit = false;
  tni_str_clear(&g->text);
  if (!g->detok) return TN_OK;
  tn_status st = tni_detok_push(g->detok, id, &t, &len, g->err);
  if (st == TN_OK) st = pass_text(g, t, len, hit);
  if (st != TN_OK || !last || *hit) return st;
  st = tni_detok_finish(g->detok, &t, &len, g->err);
  if (st == TN_OK) st = pass_text(g, t, len, hit);
  if (st == TN_OK && !*hit) {
    tni_stop_finish(g->stop, &t, &len);
    tni_str_add(&g->text, t, len);
  }
  return st;
}

/* Why this token is the last, 0 if it is not (yet). */
static uint32_t ends_at_token(const gen *g, int32_t id) {
  if (!(g->p->flags & TN_GEN_IGNORE_EOS) && tn_lm_is_eos(g->c->lm, id)) return TN_STOP_EOS;
  if (g->p->max_tokens && g->res.new_tokens + 1 >= g->p->max_tokens) return TN_STOP_LENGTH;
  return g->c->n + 1 >= (size_t)g->c->context ? TN_STOP_CONTEXT : 0;
}

/* Tokens that may still come. */
static uint32_t tokens_left(const gen *g) {
  const uint64_t room = (uint64_t)g->c->context - g->c->n;
  const uint64_t left = g->p->max_tokens ? g->p->max_tokens - g->res.new_tokens : UINT32_MAX;
  return (uint32_t)(room < left ? room : left);
}

static tn_status one_token(gen *g, const float *logits, size_t vocab) {
  bool hit;
  const uint32_t most = g->p->max_tokens;
  int32_t id = tni_source_forced(g->c, (most && g->res.new_tokens + 1 >= most));
  tn_status st = id < 0 ? tn_sampler_pick(g->sampler, logits, vocab, tokens_left(g), &id, g->err)
                        : tni_pick_forced(g->sampler, id, g->err);
  if (st != TN_OK) return st;
  uint32_t why = ends_at_token(g, id);
  if (tn_sampler_whole(g->sampler) == 2) why = TN_STOP_EOS; /* the grammar's text ends here */
  st = tni_chat_append(g->c, &id, 1, g->err);
  if (st == TN_OK) st = add_text(g, id, why != 0, &hit);
  if (st == TN_OK && g->text.failed) st = tni_fail_memory(g->err, "text");
  if (st != TN_OK) return st;
  g->res.new_tokens++;
  if (hit && why != TN_STOP_EOS) why = TN_STOP_STRING;
  int asked = g->fn ? g->fn(g->user, id, g->text.n ? g->text.v : "", g->text.n) : 0;
  g->res.reason = why ? why : asked ? TN_STOP_CALLBACK : 0;
  return TN_OK;
}

/* More where all of them came, fewer where none or few did, and none for some steps: rows that are thrown away cost
 * time. */
static void learn_ahead(gen *g, size_t n, size_t came) {
  const size_t most = g->p->lookup < LOOKUP_MOST ? g->p->lookup : LOOKUP_MOST;
  if (came == n && n == g->ahead) g->ahead *= 2;
  if (2 * came < n) g->ahead = g->ahead > 1 ? g->ahead / 2 : 1;
  if (g->ahead > most) g->ahead = most;
  g->waits = came ? 0 : g->wait_next;
  g->wait_next = came ? 1 : g->wait_next < LOOKUP_WAIT ? 2 * g->wait_next + !g->wait_next : LOOKUP_WAIT;
}

static size_t less(size_t a, size_t b) { return a < b ? a : b; }

bool tni_gen_single(const tni_gen *g) { return g->single; }

tn_status tni_gen_guess(tni_gen *g, size_t most, bool draft, int32_t *ids, size_t *n, tn_error *err) {
  tn_chat *c = g->c;
  const size_t left = tokens_left(g), lookup = less(g->p->lookup, LOOKUP_MOST);
  size_t same = 0;
  draft = draft && c->draft;
  *n = 0;
  if (left < 2 || !most) return TN_OK;
  most = tni_chat_may_guess(c, less(most, left - 1));
  if (!most) return TN_OK;
  if (!g->ahead) g->ahead = less(lookup, LOOKUP_FIRST);
  if (g->waits)
    g->waits--;
  else if (lookup)
    *n = tni_repeat_guess(c->history, c->n, draft ? 2 : 1, less(g->ahead, most), ids, &same);
  g->looked = same > 1;
  g->single = same == 1;
  return *n || !draft ? TN_OK : tni_draft_guess(c, most, ids, n, err);
}

tn_status tni_gen_take_rows(tni_gen *g, const int32_t *guess, size_t n, const float *logits, size_t vocab, tn_error *err) {
  const tn_chat *c = g->c;
  size_t came = 0;
  tn_status st = TN_OK;
  for (; st == TN_OK; came++) {
    st = tni_gen_token(g, logits + came * vocab, vocab, err);
    if (st != TN_OK || g->res.reason || came == n || c->history[c->n - 1] != guess[came]) break;
  }
  if (g->looked && n) learn_ahead(g, n, came);
  g->tried += n;
  g->came += came;
  return st;
}

void tni_gen_guesses(const tni_gen *g, uint64_t *tried, uint64_t *came) {
  *tried = g->tried;
  *came = g->came;
}

/* Guesses that the next step may run beside the last token: what followed before, else what a draft finds likely. */
static tn_status guess_tokens(gen *g, int32_t *ids, size_t *n) {
  *n = 0;
  if (g->no_lookup || !g->c->kept || g->c->source) return TN_OK;
  return tni_gen_guess(g, LOOKUP_MOST, true, ids, n, g->err);
}

/* Fewer where fewer pay (pace.h). */
static void pay_guesses(gen *g, size_t *n) {
  tni_pace *p = &g->c->pace;
  const tni_pace_text alone = {*n, p->odds, g->single};
  if (*n) *n = tni_pace_worth(p, &alone, 1, *n);
  if (alone.guesses && !*n) tni_pace_forget(&p->odds, g->single);
}

/* The last token and n guesses in one step. What is in the caches after the first guess that did not come is
 * forgotten. */
static tn_status try_guesses(gen *g, const int32_t *guess, size_t n) {
  tn_chat *c = g->c;
  const size_t base = c->n;
  const float *logits;
  size_t rows, vocab;
  tn_status st = tni_chat_append(c, guess, n, g->err);
  const int64_t began = tni_now_ns();
  if (st == TN_OK) st = tni_chat_step(c, false, &logits, &rows, &vocab, g->err);
  if (st == TN_OK) tni_pace_took(&c->pace, n + 1, tni_now_ns() - began);
  c->n = base;
  if (st == TN_OK) st = tni_gen_take_rows(g, guess, n, logits, vocab, g->err);
  if (st == TN_OK && !g->res.reason)
    tni_pace_learn(&c->pace.odds, g->single, n, tni_pace_came(n, c->n - base));
  if (st != TN_OK || c->fed <= c->n - 1) return st;
  c->fed = c->n - 1;
  if (tn_session_truncate(c->session, (int64_t)c->fed, NULL) == TN_OK) return TN_OK;
  g->no_lookup = true; /* a state that cannot go back: all once more, and no guesses from here on */
  c->fed = 0;
  return tn_session_truncate(c->session, 0, g->err);
}

static tn_status generation_loop(gen *g) {
  const float *logits;
  size_t rows, vocab, n;
  int32_t guess[LOOKUP_MOST];
  int64_t t0 = tni_now_ns();
  tn_status st = tni_draft_follow(g->c, g->err);
  if (st == TN_OK) st = tni_chat_step(g->c, true, &logits, &rows, &vocab, g->err);
  int64_t t1 = tni_now_ns();
  g->res.prefill_ns = t1 - t0;
  if (st == TN_OK) st = tni_gen_token(g, logits, vocab, g->err);
  while (st == TN_OK && !g->res.reason) {
    st = guess_tokens(g, guess, &n);
    pay_guesses(g, &n);
    if (st == TN_OK && n) st = try_guesses(g, guess, n);
    if (st != TN_OK || n) continue;
    const int64_t began = tni_now_ns();
    st = tni_chat_step(g->c, true, &logits, &rows, &vocab, g->err);
    if (st == TN_OK) tni_pace_took(&g->c->pace, 1, tni_now_ns() - began);
    if (st == TN_OK) st = one_token(g, logits, vocab);
  }
  g->res.decode_ns = tni_now_ns() - t1;
  return st;
}

/* Parameters are looked at before anything runs. */
static tn_status check_gen_params(const tn_gen_params *p, tn_error *err) {
  if (p->n_stop && !p->stop) return tni_fail(err, TN_E_INVALID, "stop", "n_stop is %u and stop is NULL", p->n_stop);
  return tni_pick_check(p, err);
}

/* A conversation with another source, whose first token is the decoder's. */
static tn_status begin_source(tn_chat *c, const int32_t *ids, size_t n, tn_error *err) {
  const tni_lm_config *cfg = &c->lm->config;
  const int32_t start = cfg->decoder_start >= 0 ? cfg->decoder_start : c->lm->bos;
  tn_chat_reset(c);
  const tn_status st = tni_source_run(c, ids, n, err);
  return st == TN_OK ? tni_chat_append(c, &start, 1, err) : st;
}

static tn_status run_generation(gen *g, const int32_t *ids, size_t n, tn_error *err) {
  tn_chat *c = g->c;
  const bool begins = c->source && (n || c->n == c->fed);
  const int64_t began = tni_now_ns();
  tn_status st = begins ? begin_source(c, ids, n, err) : TN_OK;
  size_t before = c->n, fed = c->fed;
  const int64_t encoder_ns = tni_now_ns() - began;
  if (st == TN_OK && !begins) st = tni_chat_append(c, ids, n, err);
  if (st == TN_OK && c->n == c->fed)
    st = tni_fail(err, TN_E_INVALID, "prompt", "it is empty and the model has no BOS token");
  g->res.prompt_tokens = (uint32_t)(begins ? n : c->n - c->fed);
  if (st == TN_OK) st = begin_text(g);
  if (st == TN_OK) st = generation_loop(g);
  g->res.prefill_ns += begins ? encoder_ns : 0;
  if (st != TN_OK && begins) tn_chat_reset(c);
  if (st != TN_OK && !begins && c->fed <= fed) c->n = before; /* the prompt never ran */
  finish_text(g);
  return st;
}

tn_status tn_generate_ids(tn_chat *c, const int32_t *ids, size_t n, const tn_gen_params *p, tn_token_fn fn, void *user,
                          tn_gen_result *res, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(c);
  tn_gen_params defaults, mine;
  const tn_status sized = res ? tni_sized(&res->h, sizeof res->h, "tn_gen_result", err) : TN_OK;
  if (sized != TN_OK) return sized;
  if (n && !ids) return tni_fail(err, TN_E_INVALID, "ids", "NULL");
  tn_lm_gen_defaults(c->lm, &defaults);
  gen g = {.c = c, .p = p ? &mine : &defaults, .fn = fn, .user = user, .err = err};
  tn_status st = tni_take(&mine, sizeof mine, p, "tn_gen_params", err);
  if (st == TN_OK) st = check_gen_params(g.p, err);
  if (st != TN_OK) return st;
  atomic_store(&c->cancelled, false);
  st = run_generation(&g, ids, n, err);
  if (st != TN_OK) return st;
  const size_t room = res ? res->h.size : 0; /* the caller's, of whatever version */
  if (room > sizeof(tn_hdr))
    memcpy((char *)res + sizeof(tn_hdr), (char *)&g.res + sizeof(tn_hdr),
           (room < sizeof g.res ? room : sizeof g.res) - sizeof(tn_hdr));
  return TN_OK;
}

tn_status tn_generate(tn_chat *c, const char *prompt, size_t n, const tn_gen_params *p, tn_token_fn fn, void *user,
                      tn_gen_result *res, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(c);
  tni_ids ids = {0};
  bool more = n == 0 && c->n > c->fed; /* an empty prompt goes on where the last call ended */
  tn_status st = tni_counted(prompt, n, "prompt", err);
  if (st == TN_OK && p) st = tni_sized(&p->h, sizeof p->h, "tn_gen_params", err);
  if (st != TN_OK) return st;
  bool special = c->n == 0 && !(p && TN_HAS(p, tn_gen_params, flags) && p->flags & TN_GEN_NO_SPECIAL);
  st = more ? TN_OK : tni_lm_prompt(c->lm, prompt, n, special, &ids, err);
  if (st == TN_OK) st = tn_generate_ids(c, ids.v, ids.n, p, fn, user, res, err);
  tni_ids_free(&ids);
  return st;
}

/* --- in pieces --------------------------------------------------------------------------------------------------- */

/* What tni_gen_create copies of the parameters. */
typedef struct own_gen {
  gen g; /* first: a tni_gen is one */
  tn_gen_params p;
  const char **stop; /* and their text after them */
} own_gen;

static bool copy_stops(own_gen *o) {
  size_t bytes = o->p.n_stop * sizeof *o->stop;
  for (uint32_t i = 0; i < o->p.n_stop; i++) bytes += strlen(o->p.stop[i]) + 1;
  o->stop = malloc(bytes + 1);
  if (!o->stop) return false;
  char *at = (char *)(o->stop + o->p.n_stop);
  for (uint32_t i = 0; i < o->p.n_stop; i++) {
    const size_t n = strlen(o->p.stop[i]) + 1;
    o->stop[i] = memcpy(at, o->p.stop[i], n);
    at += n;
  }
  o->p.stop = o->stop;
  return true;
}

tn_status tni_gen_create(tn_chat *c, const tn_gen_params *p, tn_token_fn fn, void *user, tni_gen **out, tn_error *err) {
  own_gen *o = calloc(1, sizeof *o);
  if (!o) return tni_fail_memory(err, "generation");
  tn_status st = TN_OK;
  if (p)
    st = tni_take(&o->p, sizeof o->p, p, "tn_gen_params", err);
  else
    tn_lm_gen_defaults(c->lm, &o->p);
  if (st == TN_OK) st = check_gen_params(&o->p, err);
  o->g = (gen){.c = c, .p = &o->p, .fn = fn, .user = user, .err = err};
  for (uint32_t i = 0; st == TN_OK && i < o->p.n_stop; i++)
    if (!o->p.stop[i]) st = tni_fail(err, TN_E_INVALID, "stop", "stop string %u is NULL", i);
  if (st == TN_OK && !copy_stops(o)) st = tni_fail_memory(err, "stop");
  if (st == TN_OK) st = begin_text(&o->g);
  if (st != TN_OK) {
    tni_gen_destroy(&o->g);
    return st;
  }
  o->g.res.prompt_tokens = (uint32_t)c->n;
  *out = &o->g;
  return TN_OK;
}

void tni_gen_destroy(tni_gen *g) {
  if (!g) return;
  finish_text(g);
  free(((own_gen *)g)->stop);
  free(g);
}

tn_status tni_gen_token(tni_gen *g, const float *logits, size_t vocab, tn_error *err) {
  g->err = err;
  tn_status st = g->sampler ? TN_OK : tn_sampler_create(g->c->lm, g->p, g->c->history, g->c->n, &g->sampler, err);
  if (st == TN_OK && g->c->n >= (size_t)g->c->context) {
    g->res.reason = TN_STOP_CONTEXT;
    return TN_OK;
  }
  return st == TN_OK ? one_token(g, logits, vocab) : st;
}

void tni_gen_belongs(tni_gen *g, tn_chat *c) { g->c = c; }

const tn_gen_result *tni_gen_result(const tni_gen *g) { return &g->res; }
