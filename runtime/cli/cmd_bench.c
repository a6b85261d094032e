/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of a language model, in the manner of llama-bench: "ppN" computes a prompt of N tokens and the logits of its
 * last position, "tgN" generates N tokens greedily, sampling included; "@ dN" after N positions that are in the caches
 * already. Every round runs each test once, and then each peer once, so that what the machine does meanwhile falls on
 * all alike. A first round is not counted.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/cli/bench.h"
#include "runtime/cli/generate.h"

enum { MOST_LENGTHS = 16, MOST_TESTS = 3 * MOST_LENGTHS * MOST_LENGTHS };

typedef struct bench_opts {
  char *prompt, *predict, *depth, *draft, **peers;
  int rounds, cold, draft_tokens, lookup;
} bench_opts;

typedef struct lengths {
  int v[MOST_LENGTHS], n;
} lengths;

typedef struct bencher {
  cli *c;
  tn_lm *lm, *draft;
  uint32_t lookup;
  tn_chat *chat;
  bench_test tests[MOST_TESTS];
  size_t n_tests, n_peers, vocab;
  bench_row *rows; /* [1 + n_peers][n_tests] */
  int32_t *ids;
} bencher;

/* "512" or "128,512": whole numbers of at least `least`. */
static int read_lengths(cli *c, const char *option, const char *text, int least, lengths *out) {
  *out = (lengths){{0}, 0};
  for (const char *p = text; *p;) {
    char *end;
    const long v = strtol(p, &end, 10);
    if (end == p || (*end && *end != ',') || v < least || v > 10000000 || out->n == MOST_LENGTHS)
      return cli_usage(c, "%s takes up to %d whole numbers of at least %d, separated by commas, not '%s'", option,
                       MOST_LENGTHS, least, text);
    out->v[out->n++] = (int)v;
    p = *end ? end + 1 : end;
  }
  return 0;
}

static void add_tests(bencher *b, const lengths *n, bool decode, const lengths *depth) {
  for (int d = 0; d < depth->n; d++)
    for (int i = 0; i < n->n; i++)
      if (n->v[i]) b->tests[b->n_tests++] = (bench_test){.n = n->v[i], .depth = depth->v[d], .decode = decode};
}

/* Positions that are filled first: generating wants one token to go on from. */
static int64_t filled_positions(const bench_test *t) { return t->depth ? t->depth : t->decode; }

/* Positions that a test wants room for: a conversation ends one short of its context. */
static int64_t room_for_test(const bench_test *t) { return filled_positions(t) + t->n + (t->decode ? 2 : 0); }

static int64_t most_room(const bencher *b) {
  int64_t most = 0;
  for (size_t i = 0; i < b->n_tests; i++)
    if (room_for_test(&b->tests[i]) > most) most = room_for_test(&b->tests[i]);
  return most;
}

/* Ids that any vocabulary has, the same in every run. */
static int make_ids(bencher *b, int64_t n) {
  const float *logits;
  size_t rows;
  int32_t first = 0;
  uint64_t x = 1;
  const tn_status st = tn_chat_score(b->chat, &first, 1, &logits, &rows, &b->vocab, &b->c->err);
  if (st != TN_OK) return cli_fail(b->c, st);
  b->ids = malloc((size_t)n * sizeof *b->ids);
  if (!b->ids || !b->vocab) return cli_fail(b->c, TN_E_NO_MEMORY);
  for (int64_t i = 0; i < n; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    b->ids[i] = (int32_t)((x >> 33) % b->vocab);
  }
  return 0;
}

static tn_status bench_generate(bencher *b, const int32_t *ids, size_t n, uint32_t tokens, tn_gen_result *res) {
  tn_gen_params p;
  tn_gen_params_init(&p);
  p.temperature = 0;
  p.max_tokens = tokens;
  p.flags = TN_GEN_IGNORE_EOS;
  p.lookup = b->lookup;
  *res = (tn_gen_result){.h = {sizeof *res, 1, 0}};
  return tn_generate_ids(b->chat, ids, n, &p, NULL, NULL, res, &b->c->err);
}

/* Seconds of one test. The token that filling the caches ends with is computed by what follows. */
static tn_status run_test(bencher *b, const bench_test *t, double *seconds) {
  tn_gen_result res;
  const size_t first = (size_t)filled_positions(t), n = (size_t)t->n;
  tn_status st = TN_OK;
  tn_chat_reset(b->chat);
  if (first) st = bench_generate(b, b->ids, first, 1, &res);
  if (st == TN_OK)
    st = t->decode ? bench_generate(b, NULL, 0, (uint32_t)n + 1, &res)
                   : bench_generate(b, b->ids + first, n - (first ? 1 : 0), 1, &res);
  if (st != TN_OK) return st;
  *seconds = (double)(t->decode ? res.decode_ns : res.prefill_ns) / 1e9;
  const size_t made = t->decode ? res.new_tokens - 1 : res.prompt_tokens;
  if (made == n) return TN_OK;
  return cli_error(&b->c->err, TN_E_INTERNAL, NULL, "%zu tokens were computed, not %zu", made, n);
}

static bench_row *row_of(bencher *b, size_t who, size_t test) { return &b->rows[who * b->n_tests + test]; }

static int one_round(bencher *b, const bench_opts *o, bool counts) {
  for (size_t i = 0; i < b->n_tests; i++) {
    double seconds = 0;
    cli_cancel_chat(b->chat);
    const tn_status st = run_test(b, &b->tests[i], &seconds);
    cli_cancel_chat(NULL);
    if (st != TN_OK) return cli_fail(b->c, st);
    if (counts && !bench_row_add(row_of(b, 0, i), b->tests[i].n / fmax(seconds, 1e-9)))
      return cli_fail(b->c, TN_E_NO_MEMORY);
  }
  for (size_t k = 0; counts && k < b->n_peers; k++)
    for (size_t i = 0; i < b->n_tests; i++) {
      const int rc = bench_peer(b->c, o->peers[k], &b->tests[i], row_of(b, k + 1, i));
      if (rc) return cli_interrupted() ? EXIT_INT : rc;
    }
  return cli_interrupted() ? EXIT_INT : 0;
}

static int all_rounds(bencher *b, const bench_opts *o) {
  for (int r = o->cold ? 1 : 0; r <= o->rounds; r++) {
    if (r)
      bench_progress("round %d of %d", r, o->rounds);
    else
      bench_progress("a round that is not counted");
    const int rc = one_round(b, o, r > 0);
    if (rc) {
      bench_progress(NULL);
      return rc;
    }
  }
  bench_progress(NULL);
  return 0;
}

/* Weight formats that the model's products run in, "host" devices have none: "w4g" or "w4g, e0m4". */
static void list_weight_formats(json_t *nodes, char *out, size_t room_out) {
  size_t i;
  json_t *node;
  out[0] = 0;
  json_array_foreach(nodes, i, node) {
    const char *f = json_string_value(json_object_get(node, "format"));
    const size_t at = strlen(out);
    if (f && *f && !strstr(out, f)) snprintf(out + at, room_out - at, "%s%s", at ? ", " : "", f);
  }
  if (!out[0]) snprintf(out, room_out, "f32");
}

static json_t *row_json(const bencher *b, const bench_opts *o, size_t who, size_t i) {
  const bench_row *r = &b->rows[who * b->n_tests + i];
  char name[64];
  bench_test_name(&b->tests[i], name, sizeof name);
  json_t *j =
      json_pack("{s:s, s:i, s:i, s:{s:f, s:f, s:f}}", "test", name, "n", b->tests[i].n, "depth", b->tests[i].depth,
                "tokens_per_s", "median", bench_row_median(r), "min", r->least, "max", r->most);
  json_t *all = json_array();
  for (size_t k = 0; k < r->n; k++) json_array_append_new(all, json_real(r->rate[k]));
  json_object_set_new(j, "samples", all);
  if (who) json_object_set_new(j, "peer", json_string(o->peers[who - 1]));
  if (who && r->label[0]) json_object_set_new(j, "peer_model", json_string(r->label));
  return j;
}

static uint64_t peak_bytes(void) {
  struct rusage u;
  return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss << 10 : 0;
}

static void print_json(const bencher *b, const bench_opts *o, const char *model, const char *format, json_t *check) {
  json_t *rows = json_array();
  for (size_t who = 0; who <= b->n_peers; who++)
    for (size_t i = 0; i < b->n_tests; i++) json_array_append_new(rows, row_json(b, o, who, i));
  json_t *j = json_pack("{s:o, s:s, s:s, s:s, s:o, s:i, s:I}", "machine", bench_machine(), "model", model, "profile",
                        b->c->profile ? b->c->profile : "default", "format", format, "rows", rows, "rounds", o->rounds,
                        "peak_rss_bytes", (json_int_t)peak_bytes());
  if (b->c->threads) json_object_set_new(j, "threads", json_integer(b->c->threads));
  json_object_set(j, "placement", json_object_get(check, "placement"));
  cli_print_json(j, JSON_INDENT(1));
}

static void print_table(bencher *b, const bench_opts *o, const char *model, const char *format) {
  static const char *const header[] = {"model", "who", "format", "test", "tokens/s", "min", "max"};
  cli_table t;
  cli_table_init(&t, header, sizeof header / sizeof *header);
  for (size_t i = 0; i < b->n_tests; i++)
    for (size_t who = 0; who <= b->n_peers; who++) {
      const bench_row *r = row_of(b, who, i);
      char name[64], v[3][32];
      bench_test_name(&b->tests[i], name, sizeof name);
      const double x[] = {bench_row_median(r), r->least, r->most};
      for (int k = 0; k < 3; k++) snprintf(v[k], sizeof v[k], "%.2f", x[k]);
      cli_table_add(&t, who ? r->label : model, who ? o->peers[who - 1] : "tenon", who ? "" : format, name, v[0], v[1],
                    v[2]);
    }
  cli_table_print(&t, b->c->format);
  cli_table_finish(&t);
}

static int report_bench(bencher *b, const bench_opts *o, const char *model) {
  char format[256];
  json_t *check = cli_report(b->c, tn_lm_model(b->lm), TN_REPORT_CHECK);
  if (!check) return cli_fail(b->c, b->c->err.code ? b->c->err.code : TN_E_INTERNAL);
  list_weight_formats(json_object_get(check, "nodes"), format, sizeof format);
  if (b->c->format == FMT_JSON) {
    print_json(b, o, model, format, check);
  } else {
    print_table(b, o, model, format);
    cli_note_phases(check, false);
    cli_note_weights(b->c, tn_lm_model(b->lm));
    cli_note("medians of %d; peak resident memory %.1f MB", o->rounds, (double)peak_bytes() / 1e6);
  }
  json_decref(check);
  return EXIT_DONE;
}

static int prepare_bench(bencher *b, const bench_opts *o, const char *path) {
  const int64_t need = most_room(b);
  int rc = gen_load_for(b->c, path, 0, need, &b->lm);
  if (rc) return rc;
  if (tn_lm_context(b->lm) < need)
    return cli_usage(b->c, "these lengths want %lld positions, and the model has %lld", (long long)need,
                     (long long)tn_lm_context(b->lm));
  while (o->peers && o->peers[b->n_peers]) b->n_peers++;
  b->rows = calloc((b->n_peers + 1) * b->n_tests, sizeof *b->rows);
  if (!b->rows) return cli_fail(b->c, TN_E_NO_MEMORY);
  tn_status st = tn_chat_create(b->lm, &b->chat, &b->c->err);
  if (o->draft && (rc = gen_load_for(b->c, o->draft, 0, need, &b->draft))) return rc;
  if (st == TN_OK) st = tn_chat_draft(b->chat, b->draft, (uint32_t)o->draft_tokens, &b->c->err);
  return st == TN_OK ? make_ids(b, need) : cli_fail(b->c, st);
}

static int read_tests(cli *c, const bench_opts *o, bencher *b) {
  lengths p, n, d;
  int rc = read_lengths(c, "-p", o->prompt ? o->prompt : "512", 0, &p);
  if (!rc) rc = read_lengths(c, "-n", o->predict ? o->predict : "128", 0, &n);
  if (!rc) rc = read_lengths(c, "-d", o->depth ? o->depth : "0", 0, &d);
  if (rc) return rc;
  add_tests(b, &p, false, &d);
  add_tests(b, &n, true, &d);
  return b->n_tests ? 0 : cli_usage(c, "nothing to measure: both -p and -n are 0");
}

static void bencher_finish(bencher *b) {
  for (size_t i = 0; b->rows && i < (b->n_peers + 1) * b->n_tests; i++) free(b->rows[i].rate);
  free(b->rows);
  free(b->ids);
  tn_chat_destroy(b->chat);
  tn_lm_destroy(b->lm);
  tn_lm_destroy(b->draft);
}

int cmd_bench(int argc, const char **argv) {
  cli c = {.command = "bench"};
  bench_opts o = {.rounds = 5};
  const opt_row own[] = {
      {"n-prompt", 'p', OPT_TEXT, &o.prompt, "N,...", NULL, "tokens of a prompt, or several", "512; 0: none"},
      {"n-gen", 'n', OPT_TEXT, &o.predict, "N,...", NULL, "tokens to generate, or several", "128; 0: none"},
      {"n-depth", 'd', OPT_TEXT, &o.depth, "N,...", NULL, "positions in the caches before, or several", "0"},
      {"repetitions", 'r', OPT_INT, &o.rounds, "N", "1..10000", "rounds; medians are shown", NULL},
      {"no-warmup", 0, OPT_FLAG, &o.cold, NULL, NULL, "count the first round too", NULL},
      {"lookup", 0, OPT_INT, &o.lookup, "N", "0..64", "generate with guesses of what followed before", NULL},
      {"draft", 0, OPT_TEXT, &o.draft, "MODEL", NULL, "generate with guesses of this smaller model", NULL},
      {"draft-tokens", 0, OPT_INT, &o.draft_tokens, "N", "1..64", "at most N of them at once", "8"},
      {"peer", 0, OPT_LIST, &o.peers, "CMD", NULL,
       "a command in the manner of llama-bench to run in turns with this: it is given -p, -n, -d, -r 1 and -o json "
       "(repeatable)",
       NULL},
      OPT_ROWS_END};
  bencher b = {.c = &c};
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL [options]", .operand = "MODEL", .own = own, .context = true});
  if (!rc && o.draft_tokens && !o.draft) rc = cli_usage(&c, "--draft-tokens goes with --draft MODEL");
  if (!o.draft_tokens) o.draft_tokens = 8;
  b.lookup = (uint32_t)o.lookup;
  if (!rc) rc = read_tests(&c, &o, &b);
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = prepare_bench(&b, &o, c.operand);
  if (!rc) rc = all_rounds(&b, &o);
  if (!rc) rc = report_bench(&b, &o, c.operand);
  bencher_finish(&b);
  cli_finish(&c);
  return rc;
}
