/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the server share. A request has a thread of its own (libmicrohttpd's), which waits for what slots
 * compute; the request's memory is a srv_call, which lives until its answer is sent or its client is gone.
 */
#ifndef TENON_SERVE_INSIDE_H
#define TENON_SERVE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/serve/fields.h"
#include "runtime/serve/mhd.h"
#include "runtime/serve/serve.h"
#include "runtime/serve/slots/slots.h"
#include "runtime/serve/speech/speech.h"

/* --- metrics (metrics.c) --- */

enum { SRV_TIMES = 12 };
/* Of a histogram: how many took at most so long. */
typedef struct srv_times {
  atomic_ullong at_most[SRV_TIMES], count, sum_us;
} srv_times;
typedef struct srv_metrics {
  atomic_ullong ok, refused, failed, gone; /* requests, by how they ended */
  atomic_ullong prompt_tokens, kept_tokens, new_tokens, embedded_texts;
  atomic_ullong loads, unloads; /* of models, under a budget */
  srv_times first_token, whole;
} srv_metrics;
void srv_time_add(srv_times *t, int64_t ns);

/* --- the server (server.c) --- */

typedef struct srv_form srv_form;
typedef struct srv_forms srv_forms;

typedef struct srv_model {
  const serve_model *is;
  /* While it is there, which it is while somebody uses it (loaded.c). */
  tn_lm *lm;
  tn_embedder *embedder;
  slots *slots;      /* of a language model */
  json_t *placement; /* nodes by device, or NULL */
  srv_shape shape;           /* how its template writes calls; and whether thoughts */
  bool may_think;
  int64_t since;
  bool there;     /* this and what follows under models_lock */
  uint32_t users; /* requests */
  uint64_t used;  /* when the last of them began */
  uint64_t bytes; /* 0: not known yet, or there is no budget */
  pthread_mutex_t forming;
  struct srv_forms *forms; /* under the lock above; form.c */
} srv_model;

typedef struct srv_waiter {
  struct srv_waiter *next;
} srv_waiter;

typedef struct srv_server {
  const serve_opts *o;
  srv_mhd mhd;
  struct MHD_Daemon *daemon;
  srv_model *model;
  slots_turn *turn;
  pthread_mutex_t models_lock;
  pthread_cond_t models_news; /* a model came, went, or has a user less */
  uint64_t models_bytes, models_clock;
  struct srv_waiter *waiters; /* requests whose models are not there, the first to have come first */
  bool wants_room;            /* the first of them waits until a model is idle */
  bool loading, ends;         /* loading: one model at a time; ends: none comes any more */
  srv_metrics metrics;
  bool loopback;
  uint32_t port;
  atomic_bool draining;
  pthread_mutex_t lock;
  pthread_cond_t idle;
  uint32_t busy; /* requests that are not answered yet; under the lock */
  int64_t began_ns;
  _Atomic int64_t said_ns; /* when a line of the HTTP library was last passed on */
  atomic_ullong unsaid;    /* of its lines that were not, since */
} srv_server;

/* --- addresses that only this machine can reach (address.c) --- */

bool srv_is_loopback(const struct sockaddr *a);
/* The n letters of a Host, without its port. */
bool srv_is_loopback_host(const char *host, size_t n);

/* --- a request (call.c) --- */

typedef struct srv_route srv_route;
typedef struct srv_stream srv_stream;

typedef struct srv_call {
  srv_server *server;
  struct MHD_Connection *connection;
  int fd;
  const srv_route *route; /* NULL: refused before */
  srv_model *model;       /* that the request uses, or NULL */
  const char *url;        /* while it is answered */
  char *body;
  size_t n_body, cap_body, dropped;
  srv_refusal refusal;
  int64_t began_ns;
  bool sent, busy, gone, cut;
  srv_stream *stream; /* or NULL */
} srv_call;

struct srv_route {
  const char *method, *path;
  void (*answer)(srv_call *c); /* sends something, or leaves a refusal in c */
  bool open;                   /* nobody needs a key, and a server that ends answers too */
};

/* The body as a JSON object; NULL: refused. */
json_t *srv_body(srv_call *c);
/* The client is not there any more. */
bool srv_gone(const srv_call *c);

/* --- answers (reply.c) --- */

/* Takes j over. */
void srv_send_json(srv_call *c, int status, json_t *j);
/* Of static memory. policy: a Content-Security-Policy, or NULL. */
void srv_send_static(srv_call *c, const char *type, const char *text, const char *policy);
/* text is malloc'd; taken over. */
void srv_send_text(srv_call *c, int status, const char *type, char *text);
void srv_send_refusal(srv_call *c);

/* Events of text/event-stream. `more` is called when everything was sent: it adds to out, waiting for something, and is
 * false after the last. finish frees user. */
struct srv_stream {
  bool (*more)(void *user, FILE *out);
  void (*finish)(void *user);
  void *user;
  char *pending;
  size_t n_pending, at;
  bool last;
};
void srv_send_stream(srv_call *c, bool (*more)(void *user, FILE *out), void (*finish)(void *user), void *user);
void srv_stream_finish(srv_stream *s);

/* --- models (models.c) --- */

/* The model that body names, which generates, or embeds; there until the call ends. A server of one needs no name.
 * NULL: refused. */
srv_model *srv_lm_of(srv_call *c, const json_t *body);
srv_model *srv_embedder_of(srv_call *c, const json_t *body);
void srv_models(srv_call *c);
void srv_model_one(srv_call *c);

/* --- which of them are in memory (loaded.c) --- */

TN_MUST_CHECK tn_status srv_models_start(srv_server *s, tn_error *err);
/* Every text ends soon, and no model comes any more. */
void srv_models_stop(srv_server *s);
/* It did; refused then. */
bool srv_models_end(srv_refusal *r, srv_server *s);
void srv_models_finish(srv_server *s);
/* m is there until srv_model_give; waits for it. False: refused. */
bool srv_model_take(srv_call *c, srv_model *m);
void srv_model_give(srv_call *c);

/* --- what paths answer --- */

void srv_chat(srv_call *c);       /* chat.c */
void srv_complete(srv_call *c);   /* complete.c */
void srv_embeddings(srv_call *c); /* embed.c */
void srv_tokenize(srv_call *c);   /* tokens.c */
void srv_detokenize(srv_call *c);
void srv_health(srv_call *c); /* metrics.c */
void srv_ready(srv_call *c);
void srv_show_metrics(srv_call *c);
void srv_page(srv_call *c); /* page.c */
void srv_no_responses(srv_call *c);

/* The handlers of libmicrohttpd (routes.c). */
enum MHD_Result srv_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                           const char *version, const char *data, size_t *n, void **call);
void srv_completed(void *server, struct MHD_Connection *connection, void **call, enum MHD_RequestTerminationCode why);

#endif
