/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes out: JSON, texts, and streams of events.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/inside.h"

/* What a browser asks before a page may send JSON, or a key: all headers that it names, which "*" would not say of
 * Authorization. */
static void put_preflight(srv_call *c, struct MHD_Response *r) {
  const srv_mhd *m = &c->server->mhd;
  const char *headers = m->value(c->connection, MHD_HEADER_KIND, "Access-Control-Request-Headers");
  m->add_header(r, "Access-Control-Allow-Methods", "GET, POST");
  if (headers) m->add_header(r, "Access-Control-Allow-Headers", headers);
  m->add_header(r, "Access-Control-Max-Age", "600");
}

static void queue(srv_call *c, int status, struct MHD_Response *r, const char *type) {
  const srv_mhd *m = &c->server->mhd;
  if (!r) {
    c->cut = true;
    return;
  }
  m->add_header(r, "Content-Type", type);
  m->add_header(r, "Cache-Control", "no-store");
  m->add_header(r, "X-Content-Type-Options", "nosniff");
  if (c->server->o->cors) {
    m->add_header(r, "Access-Control-Allow-Origin", c->server->o->cors);
    m->add_header(r, "Vary", "Origin");
    if (status == 204) put_preflight(c, r);
  }
  if (status == 401) m->add_header(r, "WWW-Authenticate", "Bearer");
  if (status == 429 || status == 503) m->add_header(r, "Retry-After", "1");
  /* The time that the answer took does not count as silence. */
  m->set_option(c->connection, MHD_CONNECTION_OPTION_TIMEOUT, c->server->o->timeout_s);
  c->cut = m->queue_response(c->connection, (unsigned)status, r) != MHD_YES;
  m->destroy_response(r);
  c->sent = true;
  atomic_fetch_add(status < 400   ? &c->server->metrics.ok
                   : status < 500 ? &c->server->metrics.refused
                                  : &c->server->metrics.failed,
                   1);
}

void srv_send_text(srv_call *c, int status, const char *type, char *text) {
  if (!text) {
    c->cut = true;
    return;
  }
  queue(c, status, c->server->mhd.response_of_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE), type);
}

void srv_send_json(srv_call *c, int status, json_t *j) {
  char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(j);
  srv_send_text(c, status, "application/json", text); /* without memory the connection ends */
}

void srv_send_static(srv_call *c, const char *type, const char *text, const char *policy) {
  const srv_mhd *m = &c->server->mhd;
  struct MHD_Response *r = m->response_of_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
  if (r && policy) {
    m->add_header(r, "Content-Security-Policy", policy);
    m->add_header(r, "Referrer-Policy", "no-referrer");
    m->add_header(r, "X-Frame-Options", "DENY");
  }
  queue(c, 200, r, type);
}

void srv_send_refusal(srv_call *c) { srv_send_json(c, c->refusal.status, srv_refusal_json(&c->refusal)); }

/* --- streams ------------------------------------------------------------------------------------------------------ */

static bool fill(srv_stream *s) {
  free(s->pending);
  s->pending = NULL;
  s->at = s->n_pending = 0;
  FILE *out = open_memstream(&s->pending, &s->n_pending);
  if (!out) return false;
  s->last = !s->more(s->user, out);
  return fclose(out) == 0;
}

static ssize_t read_stream(void *user, uint64_t pos, char *to, size_t most) {
  srv_stream *s = user;
  (void)pos;
  while (s->at == s->n_pending) {
    if (s->last) return MHD_CONTENT_READER_END_OF_STREAM;
    if (!fill(s)) return MHD_CONTENT_READER_END_WITH_ERROR;
  }
  const size_t n = s->n_pending - s->at < most ? s->n_pending - s->at : most;
  memcpy(to, s->pending + s->at, n);
  s->at += n;
  return (ssize_t)n;
}

void srv_send_stream(srv_call *c, bool (*more)(void *user, FILE *out), void (*finish)(void *user), void *user) {
  const srv_mhd *m = &c->server->mhd;
  enum { BLOCK = 4096 };
  srv_stream *s = calloc(1, sizeof *s);
  if (!s) {
    finish(user);
    c->cut = true;
    return;
  }
  *s = (srv_stream){.more = more, .finish = finish, .user = user};
  c->stream = s;
  struct MHD_Response *r = m->response_of_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, s, NULL);
  if (r) m->add_header(r, "X-Accel-Buffering", "no"); /* nginx sends events as they come */
  queue(c, 200, r, "text/event-stream");
}

void srv_stream_finish(srv_stream *s) {
  if (!s) return;
  s->finish(s->user);
  free(s->pending);
  free(s);
}
