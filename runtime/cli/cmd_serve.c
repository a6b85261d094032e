/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of tenon serve, and its models.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"
#ifdef TENON_HAS_SERVER
#include "runtime/cli/generate.h"
#include "runtime/serve/serve.h"

enum { MAX_MODELS = 64, MAX_KEYS = 256 };

typedef struct serve_args {
  char *host, *key_file, *cors, *draft;
  char **embedding, **names;
  int port, slots, queue, connections, predict, timeout, drain, max_body_mb, prefix_mb, models_mb, lookup, draft_tokens, exact;
  tn_lm *draft_lm;
  serve_model models[MAX_MODELS];
  char *owned[MAX_MODELS]; /* names */
  size_t n;
  char *key_text;
  const char *keys[MAX_KEYS];
  size_t n_keys;
} serve_args;

/* NAME=PATH, or a path that is called by its last part. */
static int name_model(cli *c, serve_args *a, const char *spec, const char **path) {
  const char *eq = strchr(spec, '='), *end;
  char *name;
  *path = eq ? eq + 1 : spec;
  if (eq) {
    name = strndup(spec, (size_t)(eq - spec));
  } else {
    for (end = spec + strlen(spec); end > spec + 1 && end[-1] == '/';) end--;
    const char *from = end;
    while (from > spec && from[-1] != '/') from--;
    name = strndup(from, (size_t)(end - from));
  }
  if (!name) return cli_fail(c, TN_E_NO_MEMORY);
  a->owned[a->n] = name;
  for (size_t i = 0; i < a->n; i++)
    if (strcmp(a->models[i].name, name) == 0) return cli_usage(c, "two models are called '%s': NAME=MODEL gives one a name", name);
  a->models[a->n].name = name;
  return 0;
}

static int load_embedder(cli *c, const char *path, bool inspect, tn_embedder **out) {
  const tn_embed_opts o = {.h = {sizeof o, 1, 0}, .model_flags = inspect ? TN_MODEL_INSPECT : 0};
  if (!c->unwatched) cli_cancel_load(c->rt);
  const tn_status st = tn_embedder_load(c->rt, path, &o, out, &c->err);
  if (!c->unwatched) cli_cancel_load(NULL);
  return st == TN_OK ? 0 : cli_fail_load(c, path, st);
}

static int load_text(cli *c, const char *path, bool inspect, tn_lm **out) {
  const int rc = gen_load_fit(c, path, inspect ? TN_MODEL_INSPECT : 0, out);
  if (!rc && !inspect) cli_note_weights(c, tn_lm_model(*out));
  return rc;
}

/* A model of the command line; loaded, or with a budget looked at. */
static int add_model(cli *c, serve_args *a, const char *spec, bool embeds) {
  const char *path;
  if (a->n == MAX_MODELS) return cli_usage(c, "more than %d models", MAX_MODELS);
  serve_model *m = &a->models[a->n];
  int rc = name_model(c, a, spec, &path);
  a->n++;
  if (rc) return rc;
  m->path = c->found && !embeds ? c->found : path;
  m->embeds = embeds;
  if (!a->models_mb) return embeds ? load_embedder(c, m->path, false, &m->embedder) : load_text(c, m->path, false, &m->lm);
  char *file = NULL;
  const tn_status st = tn_model_find(m->path, NULL, &file, &c->err);
  tn_free(file);
  return st == TN_OK ? 0 : cli_fail(c, st);
}

/* serve_load_fn: a thread of the server's; the main one waits for its end. */
static tn_status load_one(void *user, const serve_model *m, bool inspect, tn_lm **lm, tn_embedder **embedder, tn_error *err) {
  cli *c = user;
  tn_error_init(&c->err);
  const int rc = m->embeds ? load_embedder(c, m->path, inspect, embedder) : load_text(c, m->path, inspect, lm);
  if (!rc) return TN_OK;
  return cli_error(err, c->err.code ? (tn_status)c->err.code : TN_E_UNSUPPORTED, c->err.where, "%s", c->err.message);
}

/* One a line; TENON_API_KEY adds one. */
static int read_keys(cli *c, serve_args *a) {
  const char *one = cli_env("TENON_API_KEY");
  size_t n = 0;
  char *save = NULL;
  if (one) a->keys[a->n_keys++] = one;
  if (!a->key_file) return 0;
  const tn_status st = cli_read(a->key_file, &a->key_text, &n, &c->err);
  if (st != TN_OK) return cli_fail(c, st);
  for (char *p = strtok_r(a->key_text, " \t\r\n", &save); p; p = strtok_r(NULL, " \t\r\n", &save)) {
    if (a->n_keys == MAX_KEYS) return cli_usage(c, "more than %d API keys", MAX_KEYS);
    a->keys[a->n_keys++] = p;
  }
  return a->n_keys ? 0 : cli_fail(c, cli_error(&c->err, TN_E_INVALID, a->key_file, "'%s' has no key", a->key_file));
}

static int serve(cli *c, const serve_args *a) {
  size_t names = 0;
  while (a->names && a->names[names]) names++;
  const serve_opts o = {.rt = c->rt,
                        .models = a->models,
                        .n_models = a->n,
                        .models_bytes = (uint64_t)a->models_mb << 20,
                        .load = load_one,
                        .load_user = c,
                        .host = a->host,
                        .port = (uint32_t)a->port,
                        .keys = a->keys,
                        .n_keys = a->n_keys,
                        .names = (const char *const *)a->names,
                        .n_names = names,
                        .cors = a->cors,
                        .slots = (uint32_t)a->slots,
                        .exact = a->exact,
                        .waiting = (uint32_t)a->queue,
                        .prefix_bytes = (uint64_t)a->prefix_mb << 20,
                        .lookup = (uint32_t)a->lookup,
                        .draft = a->draft_lm,
                        .draft_tokens = (uint32_t)a->draft_tokens,
                        .connections = (uint32_t)a->connections,
                        .max_tokens = (uint32_t)a->predict,
                        .timeout_s = (uint32_t)a->timeout,
                        .drain_s = (uint32_t)a->drain,
                        .max_body = (size_t)a->max_body_mb << 20,
                        .note = cli_note};
  cli_lose_unread(); /* who started it and does not read what it says must not stop it */
  c->unwatched = true; /* the server looks at signals */
  const tn_status st = serve_run(&o, &c->err);
  return st == TN_OK ? EXIT_DONE : cli_fail(c, st);
}

/* --model-file is about the one model there is. */
static int find_file(cli *c) {
  if (!c->model_file) return 0;
  if (c->opts.n_rest != 1) return cli_usage(c, "--model-file is for one MODEL");
  const char *eq = strchr(c->operand, '=');
  const tn_status st = tn_model_find(eq ? eq + 1 : c->operand, c->model_file, &c->found, &c->err);
  return st == TN_OK ? 0 : cli_fail(c, st);
}

static int load_draft(cli *c, serve_args *a) {
  if (c->opts.n_rest != 1 || a->models_mb) return cli_usage(c, "--draft is for one MODEL, and not with --models-mb");
  const tn_lm_opts o = {.h = {sizeof o, 1, 0}, .default_max_seq = tn_lm_context(a->models[0].lm)};
  const tn_status st = tn_lm_load(c->rt, a->draft, &o, &a->draft_lm, &c->err);
  return st == TN_OK ? 0 : cli_fail_load(c, a->draft, st);
}

static int load_all(cli *c, serve_args *a) {
  int rc = find_file(c);
  for (size_t i = 0; !rc && c->opts.rest[i]; i++) rc = add_model(c, a, c->opts.rest[i], false);
  for (size_t i = 0; !rc && a->embedding && a->embedding[i]; i++) rc = add_model(c, a, a->embedding[i], true);
  if (!rc && !a->n) rc = cli_usage(c, "a MODEL is needed, or --embedding MODEL");
  if (!rc && a->draft) rc = load_draft(c, a);
  return rc;
}

static int start(cli *c, int argc, const char **argv, serve_args *a) {
  const opt_row rows[] = {
      {"host", 0, OPT_TEXT, &a->host, "ADDRESS", NULL, "address to listen on; beyond loopback an API key is needed", NULL},
      {"port", 0, OPT_INT, &a->port, "N", "0..65535", "port; 0: a free one", NULL},
      {"embedding", 'e', OPT_LIST, &a->embedding, "MODEL", NULL, "a model for /v1/embeddings", NULL},
      {"slots", 'j', OPT_INT, &a->slots, "N", "1..64", "conversations of a model at a time, each with caches", NULL},
      {"exact", 0, OPT_FLAG, &a->exact, NULL, NULL, "each conversation on steps of its own: the bits that it has alone, on any device", NULL},
      {"queue", 0, OPT_INT, &a->queue, "N", "0..100000", "requests that wait for a slot; more are refused", NULL},
      {"models-mb", 0, OPT_INT, &a->models_mb, "MB", "0..16777216",
       "memory of models, MiB: each is loaded when a request wants it, and idle ones go for it; 0: all are loaded", NULL},
      {"prefix-mb", 0, OPT_INT, &a->prefix_mb, "MB", "0..1048576", "most memory of a model's beginnings beyond its slots, MiB", NULL},
      {"lookup", 0, OPT_INT, &a->lookup, "N", "0..15", "try N tokens at once that followed before, while few texts run", NULL},
      {"draft", 0, OPT_TEXT, &a->draft, "MODEL", NULL, "try tokens that this smaller model finds likely", NULL},
      {"draft-tokens", 0, OPT_INT, &a->draft_tokens, "N", "1..15", "at most N of them at once", "8"},
      {"predict", 'n', OPT_INT, &a->predict, "N", "0..", "tokens of an answer at most; 0: the context", NULL},
      {"api-key-file", 0, OPT_TEXT, &a->key_file, "FILE", NULL, "API keys, one a line; TENON_API_KEY is one too", "none"},
      {"allow-host", 0, OPT_LIST, &a->names, "NAME", NULL, "a name that requests may call this server by, on loopback", NULL},
      {"cors", 0, OPT_TEXT, &a->cors, "ORIGIN", NULL, "an origin whose pages may ask; '*' is all", "none"},
      {"connections", 0, OPT_INT, &a->connections, "N", "1..10000", "connections at a time", NULL},
      {"max-body", 0, OPT_INT, &a->max_body_mb, "MB", "1..1024", "size of a request, MiB", NULL},
      {"timeout", 0, OPT_INT, &a->timeout, "S", "1..86400", "seconds that a connection may be silent", NULL},
      {"drain", 0, OPT_INT, &a->drain, "S", "0..86400", "seconds that requests have to end after SIGTERM", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(c, argc, argv,
                     &(cli_use){"[NAME=]MODEL... [options]", "[MODEL...]", rows, .formats = "text", .context = true});
  if (!rc && a->draft_tokens && !a->draft) rc = cli_usage(c, "--draft-tokens goes with --draft MODEL");
  if (!a->draft_tokens) a->draft_tokens = 8;
  if (!rc) rc = read_keys(c, a);
  if (!rc) rc = cli_open(c, 0);
  if (!rc) rc = load_all(c, a);
  return rc ? rc : serve(c, a);
}

int cmd_serve(int argc, const char **argv) {
  static char loopback[] = "127.0.0.1";
  cli c = {.command = "serve"};
  serve_args *a = calloc(1, sizeof *a);
  if (!a) return EXIT_DEVICE;
  a->host = loopback;
  a->port = 8080;
  a->slots = 4;
  a->queue = 64;
  a->prefix_mb = 256;
  a->connections = 256;
  a->timeout = 60;
  a->drain = 30;
  a->max_body_mb = 8;
  const int rc = start(&c, argc, argv, a);
  for (size_t i = 0; i < a->n; i++) {
    tn_lm_destroy(a->models[i].lm);
    tn_embedder_destroy(a->models[i].embedder);
  }
  tn_lm_destroy(a->draft_lm);
  for (size_t i = 0; i < MAX_MODELS; i++) free(a->owned[i]);
  free(a->key_text);
  free(a);
  cli_finish(&c);
  return rc;
}
#else
int cmd_serve(int argc, const char **argv) {
  cli c = {.command = "serve"};
  const int rc = cli_parse(&c, argc, argv, &(cli_use){"", NULL, NULL, .formats = "text"});
  cli_finish(&c);
  return rc ? rc : cli_usage(&c, "this build of Tenon has no server: it was made without libmicrohttpd");
}
#endif
