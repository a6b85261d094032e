/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of texts, one per line of a file; with --query the lines by their cosine to it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tasks.h>

#include "runtime/cli/cli.h"

enum { SHOWN = 60 };

typedef struct embed_opts {
  char *file, *query, *pool, *out;
  char **texts;
  int no_normalize, normalize, max_tokens, batch, top;
} embed_opts;

typedef struct lines {
  const char **v;
  size_t *len, *number; /* of the line of its file, or which -p it was: from 1; 0: the query */
  size_t n, cap;
} lines;

static const char *const pool_names[] = {"auto", "mean", "cls", "max", "last", "mean_sqrt_len", "none"};

static int add_line(lines *l, const char *text, size_t n, size_t number) {
  if (l->n == l->cap) {
    const size_t cap = l->cap ? l->cap * 2 : 64;
    const char **v = realloc(l->v, cap * sizeof *v);
    if (v) l->v = v;
    size_t *len = v ? realloc(l->len, cap * sizeof *len) : NULL;
    if (len) l->len = len;
    size_t *numbers = len ? realloc(l->number, cap * sizeof *numbers) : NULL;
    if (!numbers) return -1;
    l->number = numbers;
    l->cap = cap;
  }
  l->v[l->n] = text;
  l->number[l->n] = number;
  l->len[l->n++] = n;
  return 0;
}

/* Lines without their ends; empty ones are left out. */
static int split_lines(lines *l, const char *text, size_t n) {
  size_t number = 1;
  for (size_t at = 0, end; at < n; at = end + 1, number++) {
    const char *nl = memchr(text + at, '\n', n - at);
    end = nl ? (size_t)(nl - text) : n;
    const size_t len = end - at - (end > at && text[end - 1] == '\r');
    if (len && add_line(l, text + at, len, number) != 0) return -1;
  }
  return 0;
}

static tn_status collect_texts(cli *c, const embed_opts *o, lines *l, char **text) {
  size_t n = 0;
  tn_status st = o->file ? cli_read(o->file, text, &n, &c->err) : TN_OK;
  int bad = o->query ? add_line(l, o->query, strlen(o->query), 0) : 0;
  for (size_t i = 0; !bad && o->texts && o->texts[i]; i++) bad = add_line(l, o->texts[i], strlen(o->texts[i]), i + 1);
  if (st == TN_OK && !bad) bad = split_lines(l, *text, *text ? n : 0);
  if (bad) {
    return cli_error(&c->err, TN_E_NO_MEMORY, NULL, "out of memory");
  }
  if (st == TN_OK && l->n <= (o->query ? 1u : 0u)) {
    return cli_error(&c->err, TN_E_INVALID, NULL, "%s: no text", o->file ? o->file : "-p");
  }
  return st;
}

/* --- output ---------------------------------------------------------------------------------------------------------
 */

static void print_json(const tn_embedder *e, const lines *l, const float *v, size_t size) {
  json_t *root = json_object(), *list = json_array();
  json_object_set_new(root, "pool", json_string(pool_names[tn_embedder_pool(e)]));
  json_object_set_new(root, "normalized", json_boolean(tn_embedder_normalize(e) == TN_NORMALIZE_YES));
  json_object_set_new(root, "size", json_integer((json_int_t)size));
  for (size_t i = 0; i < l->n; i++) {
    json_t *x = json_array();
    for (size_t k = 0; k < size; k++) json_array_append_new(x, json_real(v[i * size + k]));
    json_array_append_new(list, x);
  }
  json_object_set_new(root, "vectors", list);
  cli_print_json(root, JSON_REAL_PRECISION(9));
}

static void print_vectors(const lines *l, const float *v, size_t size, cli_format f) {
  for (size_t i = 0; i < l->n; i++)
    for (size_t k = 0; k < size; k++)
      printf("%.9g%s", v[i * size + k], k + 1 == size ? "\n" : f == FMT_CSV ? "," : " ");
}

static double cosine_of(const float *a, const float *b, size_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t k = 0; k < n; k++) {
    ab += (double)a[k] * b[k];
    aa += (double)a[k] * a[k];
    bb += (double)b[k] * b[k];
  }
  return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

typedef struct hit {
  double score;
  size_t line;
} hit;

static int best_first(const void *a, const void *b) {
  const hit *x = a, *y = b;
  return x->score != y->score ? (x->score < y->score ? 1 : -1) : x->line < y->line ? -1 : x->line > y->line;
}

/* Text 0 is the query. */
static tn_status print_ranking(cli *c, const lines *l, const float *v, size_t size, size_t top) {
  static const char *const header[] = {"cosine", "line", "text"};
  hit *hits = malloc(l->n * sizeof *hits);
  cli_table t;
  if (!hits) return TN_E_NO_MEMORY;
  for (size_t i = 1; i < l->n; i++) hits[i - 1] = (hit){cosine_of(v, v + i * size, size), i};
  qsort(hits, l->n - 1, sizeof *hits, best_first);
  cli_table_init(&t, header, 3);
  for (size_t i = 0; i < l->n - 1 && (!top || i < top); i++) {
    const size_t len = l->len[hits[i].line];
    char score[32], line[32], *text = NULL;
    snprintf(score, sizeof score, "%.6f", hits[i].score);
    snprintf(line, sizeof line, "%zu", l->number[hits[i].line]);
    const int cut = c->format == FMT_TEXT && len > SHOWN ? SHOWN : (int)len;
    if (asprintf(&text, "%.*s%s", cut, l->v[hits[i].line], (size_t)cut < len ? "..." : "") < 0) break;
    cli_table_add(&t, score, line, text);
    free(text);
  }
  cli_table_print(&t, c->format);
  cli_table_finish(&t);
  free(hits);
  return TN_OK;
}

/* --- the command ----------------------------------------------------------------------------------------------------
 */

static int pool_of(const char *name) {
  for (uint32_t i = 0; i < sizeof pool_names / sizeof *pool_names; i++)
    if (strcmp(pool_names[i], name) == 0) return (int)i;
  return -1;
}

static void stop_embedder(void *e) { tn_embedder_cancel(e); }

static int embed_lines(cli *c, const char *model, const embed_opts *o, const lines *l) {
  const tn_embed_opts eo = {.h = {sizeof eo, 1, 0},
                            .pool = o->pool ? (uint32_t)pool_of(o->pool) : TN_POOL_AUTO,
                            .normalize = o->no_normalize ? TN_NORMALIZE_NO
                                         : o->normalize  ? TN_NORMALIZE_YES
                                                         : TN_NORMALIZE_AUTO,
                            .max_tokens = (uint32_t)(o->max_tokens ? o->max_tokens : c->max_seq),
                            .batch = (uint32_t)o->batch};
  tn_embedder *e = NULL;
  float *v = NULL;
  size_t size = 0;
  cli_cancel_load(c->rt);
  tn_status st = tn_embedder_load(c->rt, model, &eo, &e, &c->err);
  cli_cancel_load(NULL);
  cli_cancel_by(stop_embedder, e);
  if (st == TN_OK) st = tn_embed(e, l->v, l->len, l->n, &v, &size, &c->err);
  cli_cancel_by(stop_embedder, NULL);
  if (st == TN_OK) cli_note_placement(c, tn_embedder_model(e));
  const tn_tensor t = {.h = {sizeof t, 1, 0},
                       .dtype = TN_DT_F32,
                       .rank = 2,
                       .dims = {(int64_t)l->n, (int64_t)size},
                       .data = v,
                       .bytes = l->n * size * sizeof *v};
  if (st == TN_OK && o->out) st = cli_saved(c, tn_tensor_save(&t, o->out, &c->err));
  if (st == TN_OK && o->query)
    st = print_ranking(c, l, v, size, (size_t)o->top);
  else if (st == TN_OK && !o->out && c->format == FMT_JSON)
    print_json(e, l, v, size);
  else if (st == TN_OK && !o->out)
    print_vectors(l, v, size, c->format);
  if (st == TN_OK)
    cli_note("%zu texts, vectors of %zu, pool %s%s", l->n, size, pool_names[tn_embedder_pool(e)],
             tn_embedder_normalize(e) == TN_NORMALIZE_YES ? ", length 1" : "");
  tn_free(v);
  tn_embedder_destroy(e);
  return st == TN_OK ? EXIT_DONE : cli_fail(c, st);
}

static int check_embed_opts(cli *c, const embed_opts *o) {
  if (!o->file && !o->texts) return cli_usage(c, "what is to be embedded? -f FILE or -p TEXT");
  if (o->top && !o->query) return cli_usage(c, "--top goes with --query TEXT");
  if (o->normalize && o->no_normalize) return cli_usage(c, "--normalize and --no-normalize");
  return 0;
}

int cmd_embed(int argc, const char **argv) {
  cli c = {.command = "embed"};
  embed_opts o = {0};
  lines l = {0};
  char *text = NULL;
  const opt_row own[] = {
      {"file", 'f', OPT_TEXT, &o.file, "FILE", NULL, "texts, one per line; - is standard input", NULL},
      {"text", 'p', OPT_LIST, &o.texts, "TEXT", NULL, "a text", NULL},
      {"query", 0, OPT_TEXT, &o.query, "TEXT", NULL, "rank the texts by their cosine to this one", NULL},
      {"top", 0, OPT_INT, &o.top, "N", "0..", "with --query: only the best N", "all"},
      {"pool", 0, OPT_TEXT, &o.pool, NULL, "auto|mean|cls|max|last|mean_sqrt_len|none", "how tokens become one vector",
       "what the folder says"},
      {"normalize", 0, OPT_FLAG, &o.normalize, NULL, NULL, "scale vectors to length 1", NULL},
      {"no-normalize", 0, OPT_FLAG, &o.no_normalize, NULL, NULL, "do not, whatever the folder says", NULL},
      {"max-tokens", 0, OPT_INT, &o.max_tokens, "N", "0..", "cut texts to N tokens", "what the folder says"},
      {"batch", 0, OPT_INT, &o.batch, "N", "0..", "texts of one run", "32"},
      {"out", 'o', OPT_TEXT, &o.out, "FILE", NULL, "write the vectors as .npy or .pb", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(
      &c, argc, argv,
      &(cli_use){.usage = "MODEL -f FILE|-p TEXT [--query TEXT]", .operand = "MODEL", .own = own, .context = true});
  if (!rc) rc = check_embed_opts(&c, &o);
  if (!rc) {
    const tn_status st = collect_texts(&c, &o, &l, &text);
    if (st != TN_OK) rc = cli_fail(&c, st);
  }
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = embed_lines(&c, c.operand, &o, &l);
  free(text), free(l.v), free(l.len), free(l.number);
  cli_finish(&c);
  return rc;
}
