/* SPDX-License-Identifier: Apache-2.0
 *
 * Perplexity of texts (runtime/cli/score), and beside it what another model or the same one elsewhere gives.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/generate.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/score/score.h"
#include "runtime/cli/texts/texts.h"

typedef struct eval_opts {
  char *text, *against, *original;
  int max_tokens, decode, window, stride;
} eval_opts;

static int print_score(const cli *c, const cli_scorer *sc, const char *against) {
  const cli_score *s = &sc->s;
  double n = s->predicted ? (double)s->predicted : 1, texts = s->texts ? (double)s->texts : 1;
  json_t *j = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "texts", (json_int_t)s->texts, "tokens",
                        (json_int_t)s->predicted, "windows", (json_int_t)s->windows, "window", (json_int_t)sc->window,
                        "stride", (json_int_t)sc->stride, "bytes", (json_int_t)s->bytes, "mean_nll", s->nll / n,
                        "mean_nll_of_texts", s->text_means / texts, "perplexity", exp(s->nll / n), "bits_per_byte",
                        s->bytes ? s->nll / log(2) / (double)s->bytes : 0);
  if (against) {
    json_object_set_new(j, "against", json_string(against));
    json_object_set_new(j, "other_mean_nll", json_real(s->nll_other / n));
    json_object_set_new(j, "other_mean_nll_of_texts", json_real(s->text_means_other / texts));
    json_object_set_new(j, "kl_divergence", json_real(s->kl / n));
    json_object_set_new(j, "top1_agreement", json_real((double)s->agree / n));
    json_object_set_new(j, "largest_logit_difference", json_real(s->off));
  }
  if (c->format == FMT_JSON) {
    cli_print_json(json_incref(j), JSON_INDENT(1) | JSON_REAL_PRECISION(10));
  } else {
    static const char *const header[] = {"figure", "value"};
    const char *key;
    json_t *v;
    cli_table t;
    cli_table_init(&t, header, 2);
    json_object_foreach(j, key, v) {
      char buf[64];
      if (json_is_integer(v))
        snprintf(buf, sizeof buf, "%lld", (long long)json_integer_value(v));
      else if (json_is_real(v))
        snprintf(buf, sizeof buf, "%.6f", json_real_value(v));
      cli_table_add(&t, key, json_is_string(v) ? json_string_value(v) : buf);
    }
    cli_table_print(&t, c->format);
    cli_table_finish(&t);
  }
  json_decref(j);
  return EXIT_DONE;
}

/* The other side: the format reference in the same profile, or plain f32 on the host profile, there of another model
 * that may be given. */
static int open_other(cli *c, cli *host, const char *path, const eval_opts *o, tn_lm **other) {
  if (strcmp(o->against, "reference") == 0) return gen_load(c, path, TN_MODEL_REFERENCE, other);
  *host = (cli){
      .command = c->command, .profile = (char *)"host", .format = c->format, .threads = c->threads, .cpus = c->cpus};
  int rc = cli_open(host, 0);
  return rc ? rc : gen_load(host, o->original ? o->original : path, 0, other);
}

/* A window is the context, and begins half of one after the one before, where the options say nothing else. */
static int choose_windows(cli *c, cli_scorer *sc, const eval_opts *o) {
  const int64_t context = tn_lm_context(sc->lm);
  if (o->window > context)
    return cli_usage(c, "--window %d: the context is %lld tokens; -c N asks for more", o->window,
                     (long long)context);
  sc->window = (size_t)(o->window ? o->window : context);
  if (sc->window < 2) return cli_usage(c, "a window of %zu tokens scores nothing: -c N asks for more", sc->window);
  if ((size_t)o->stride > sc->window)
    return cli_usage(c, "--stride %d: at most the window of %zu tokens", o->stride, sc->window);
  sc->stride = (size_t)(o->stride ? o->stride : (int)(sc->window / 2));
  return 0;
}

static int evaluate_model(cli *c, const char *path, const eval_opts *o) {
  cli_scorer sc = {.err = &c->err, .decode = (size_t)o->decode, .max_tokens = (size_t)o->max_tokens};
  cli host = {0};
  tn_lm *other = NULL;
  char *text = NULL;
  size_t n = 0;
  tn_status st = cli_read(o->text, &text, &n, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  int rc = gen_load(c, path, 0, &sc.lm);
  if (!rc && o->against) rc = open_other(c, &host, path, o, &other);
  if (!rc) st = tn_chat_create(sc.lm, &sc.chat, &c->err);
  if (!rc && st == TN_OK && other) st = tn_chat_create(other, &sc.other, &c->err);
  if (!rc && st == TN_OK) rc = choose_windows(c, &sc, o);
  if (!rc && st == TN_OK) {
    cli_cancel_chat(sc.chat);
    st = cli_texts_each(sc.lm, o->text, text, n, cli_score_text, &sc, &c->err);
    cli_cancel_chat(NULL);
  }
  if (!rc && st == TN_OK && !sc.s.predicted)
    st = cli_error(&c->err, TN_E_INVALID, o->text, "'%s' has no text of two tokens, so that there is nothing to score", o->text);
  if (!rc && st == TN_OK) cli_note_weights(c, tn_lm_model(sc.lm));
  if (!rc) rc = st == TN_OK ? print_score(c, &sc, o->against) : cli_fail(c, st);
  tn_chat_destroy(sc.chat);
  tn_chat_destroy(sc.other);
  tn_lm_destroy(sc.lm);
  tn_lm_destroy(other);
  tn_runtime_destroy(host.rt);
  free(sc.p);
  free(sc.q);
  free(text);
  return rc;
}

int cmd_eval(int argc, const char **argv) {
  cli c = {.command = "eval"};
  eval_opts o = {0};
  const opt_row own[] = {
      {"text", 0, OPT_TEXT, &o.text, "FILE", NULL, "a text, or a .json list or .jsonl lines of texts or chats, scored one by one",
       NULL},
      {"against", 0, OPT_TEXT, &o.against, NULL, "reference|host", "adds KL divergence and top-1 agreement", NULL},
      {"original", 0, OPT_TEXT, &o.original, "MODEL", NULL, "with --against host: what MODEL was quantized from", NULL},
      {"max-tokens", 0, OPT_INT, &o.max_tokens, "N", "0..", "first N tokens of each text; 0: all", NULL},
      {"window", 0, OPT_INT, &o.window, "N", "2..", "tokens that are run at once", "the context"},
      {"stride", 0, OPT_INT, &o.stride, "N", "1..", "tokens from one window's begin to the next's", "half a window"},
      {"decode", 0, OPT_INT, &o.decode, "N", "0..", "compute the last N positions of each window one by one", NULL},
      OPT_ROWS_END};
  int rc =
      cli_parse(&c, argc, argv,
                &(cli_use){.usage = "MODEL --text FILE [options]", .operand = "MODEL", .own = own, .context = true});
  if (!rc && !o.text) rc = cli_usage(&c, "--text FILE is needed");
  if (!rc && o.original && (!o.against || strcmp(o.against, "host") != 0))
    rc = cli_usage(&c, "--original goes with --against host");
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = evaluate_model(&c, c.operand, &o);
  cli_finish(&c);
  return rc;
}
