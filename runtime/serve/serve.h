/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/serve: models behind HTTP, as OpenAI's API has them (docs/serve.md).
 */
#ifndef TENON_SERVE_SERVE_H
#define TENON_SERVE_SERVE_H

#include <stdbool.h>
#include <tenon/lm.h>
#include <tenon/tasks.h>

/* One of lm and embedder; with a budget neither. Of the caller, as all that the options point to. */
typedef struct serve_model {
  const char *name; /* what requests call it */
  const char *path; /* where serve_opts.load finds it */
  bool embeds;
  tn_lm *lm;
  tn_embedder *embedder;
} serve_model;
/* Makes one of *lm and *embedder. inspect: to tell its memory (TN_MODEL_INSPECT). One call at a time. */
typedef tn_status (*serve_load_fn)(void *user, const serve_model *m, bool inspect, tn_lm **lm, tn_embedder **embedder,
                                   tn_error *err);

typedef struct serve_opts {
  tn_runtime *rt;
  const serve_model *models;
  size_t n_models;
  uint64_t models_bytes;    /* of models in memory, which are then loaded when a request wants them; 0: all are there */
  serve_load_fn load;       /* with models_bytes */
  void *load_user;
  const char *host;         /* an address: "127.0.0.1", "::1", "0.0.0.0" */
  uint32_t port;            /* 0: one that is free */
  const char *const *keys;  /* API keys; none: everybody */
  size_t n_keys;
  const char *const *names; /* on a loopback address: what Host may say besides localhost and addresses */
  size_t n_names;
  const char *cors;         /* an origin whose pages may ask, or "*"; NULL: none */
  uint32_t slots;           /* conversations of a model at a time */
  bool exact;               /* each on steps of its own: the bits that it has alone, on every device */
  uint32_t waiting;         /* requests that wait for one, by model */
  uint64_t prefix_bytes;    /* of beginnings that no slot has any more, by model */
  uint32_t lookup;          /* tokens that followed before and are tried at once; 0: none */
  tn_lm *draft;             /* whose guesses models that generate try, or NULL */
  uint32_t draft_tokens;    /* at most so many at once */
  uint32_t connections;
  uint32_t max_tokens;      /* of an answer; 0: as far as the context goes */
  uint32_t timeout_s;       /* a connection on which nothing happens */
  uint32_t drain_s;         /* what is under way has so long after SIGTERM */
  size_t max_body;          /* bytes of a request */
  void (*note)(const char *fmt, ...) TN_PRINTF(1, 2); /* a line for people; any thread */
} serve_opts;

/* Until SIGTERM or SIGINT: then no new requests, and what is under way is answered. A second signal ends the process.
 * TN_E_UNAVAILABLE: this machine has no libmicrohttpd; TN_E_IO: the address cannot be had. */
TN_MUST_CHECK tn_status serve_run(const serve_opts *o, tn_error *err);

#endif
