/* SPDX-License-Identifier: Apache-2.0
 *
 * A request from its first line to its answer: where it goes, who may ask, how much it may say.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/serve/inside.h"

static const srv_route routes[] = {
    {"GET", "/", srv_page, true},
    {"GET", "/page.js", srv_page, true},
    {"GET", "/page.css", srv_page, true},
    {"GET", "/health", srv_health, true},
    {"GET", "/ready", srv_ready, true},
    {"GET", "/metrics", srv_show_metrics, false},
    {"GET", "/v1/models", srv_models, false},
    {"GET", "/v1/models/", srv_model_one, false},
    {"POST", "/v1/chat/completions", srv_chat, false},
    {"POST", "/v1/completions", srv_complete, false},
    {"POST", "/v1/embeddings", srv_embeddings, false},
    {"POST", "/tokenize", srv_tokenize, false},
    {"POST", "/detokenize", srv_detokenize, false},
    {"POST", "/v1/responses", srv_no_responses, false},
};
enum { ROUTES = sizeof routes / sizeof *routes };

void srv_no_responses(srv_call *c) {
  srv_refuse(&c->refusal, 404, "not_found", NULL, "there is no /v1/responses: use /v1/chat/completions");
}

static void no_content(srv_call *c) { srv_send_text(c, 204, "text/plain", strdup("")); }
static const srv_route preflight = {"OPTIONS", "", no_content, true};

/* "/" is a path of its own; another that ends so is followed by a name. */
static bool is_path(const char *path, const char *url) {
  const size_t n = strlen(path);
  if (n == 1 || path[n - 1] != '/') return strcmp(path, url) == 0;
  return strncmp(path, url, n) == 0 && url[n];
}

static void find_route(srv_call *c, const char *method, const char *url) {
  const char *other = NULL;
  if (c->server->o->cors && strcmp(method, "OPTIONS") == 0) {
    c->route = &preflight;
    return;
  }
  for (size_t i = 0; i < ROUTES && !c->route; i++) {
    if (!is_path(routes[i].path, url)) continue;
    if (strcmp(routes[i].method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0))
      c->route = &routes[i];
    else
      other = routes[i].method;
  }
  if (!c->route && other)
    srv_refuse(&c->refusal, 405, "method_not_allowed", NULL, "%.16s %.200s: this path takes %s", method, url, other);
  else if (!c->route)
    srv_refuse(&c->refusal, 404, "not_found", NULL, "there is no %.16s %.200s", method, url);
}

/* --- who may ask -------------------------------------------------------------------------------------------------- */

/* In a time that does not tell how much of it is right. */
static bool same_key(const char *a, const char *b) {
  const size_t n = strlen(a), m = strlen(b);
  unsigned char differ = n != m;
  for (size_t i = 0; i < n; i++) differ |= (unsigned char)a[i] ^ (unsigned char)b[m ? i % m : 0];
  return !differ && m;
}

static const char *header(const srv_call *c, const char *name) {
  return c->server->mhd.value(c->connection, MHD_HEADER_KIND, name);
}

static void check_key(srv_call *c) {
  const serve_opts *o = c->server->o;
  const char *given = header(c, "Authorization");
  bool right = !o->n_keys;
  if (given && strncasecmp(given, "Bearer ", 7) == 0)
    for (size_t i = 0; i < o->n_keys; i++) right |= same_key(given + 7, o->keys[i]);
  if (!right)
    srv_refuse(&c->refusal, 401, "invalid_api_key", NULL, "%s: send 'Authorization: Bearer KEY'",
               given ? "the API key is not one of this server's" : "this server needs an API key");
}

/* A page that has its own name lead to this machine must not get at a server that only this machine can reach. */
static void check_host(srv_call *c) {
  const serve_opts *o = c->server->o;
  const char *host = header(c, "Host");
  if (!c->server->loopback || !host) return;
  const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
  const size_t n = end ? (size_t)(end - host) + (host[0] == '[') : strlen(host);
  if ((n == 9 && strncasecmp("localhost", host, n) == 0) || srv_is_loopback_host(host, n)) return;
  for (size_t i = 0; i < o->n_names; i++)
    if (strlen(o->names[i]) == n && strncasecmp(o->names[i], host, n) == 0) return;
  srv_refuse(&c->refusal, 403, "host_not_allowed", NULL,
             "Host is '%.100s': this server answers to localhost and loopback addresses only (--allow-host NAME allows "
             "another name)", host);
}

/* A page of anywhere may send plain text without asking the browser; JSON it may not. */
static void check_type(srv_call *c) {
  const char *type = header(c, "Content-Type");
  if (strcmp(c->route->method, "POST") != 0) return;
  if (type && strncasecmp(type, "application/json", 16) == 0 && (!type[16] || type[16] == ';' || type[16] == ' ')) return;
  srv_refuse(&c->refusal, 415, "unsupported_media_type", NULL, "Content-Type is '%.100s': it must be application/json",
             type ? type : "");
}

/* --- the body ----------------------------------------------------------------------------------------------------- */

static void too_large(srv_call *c) {
  srv_refuse(&c->refusal, 413, "too_large", NULL, "a request may have %zu bytes (--max-body)", c->server->o->max_body);
}

static bool keep_body(srv_call *c, const char *data, size_t n) {
  if (n > c->server->o->max_body - c->n_body) {
    too_large(c);
    return false;
  }
  if (n > c->cap_body - c->n_body) {
    const size_t cap = (c->n_body + n) * 2 + 1024;
    char *grown = realloc(c->body, cap);
    if (!grown) return srv_refuse(&c->refusal, 503, "no_memory", NULL, "out of memory");
    c->body = grown;
    c->cap_body = cap;
  }
  memcpy(c->body + c->n_body, data, n);
  c->n_body += n;
  return true;
}

/* --- libmicrohttpd's side ----------------------------------------------------------------------------------------- */

/* The first line and the headers are there. False: refused. */
static bool begin(srv_call *c, const char *method, const char *url) {
  const char *length = header(c, "Content-Length");
  check_host(c);
  if (!c->refusal.status) find_route(c, method, url);
  if (!c->refusal.status && !c->route->open) check_key(c);
  if (!c->refusal.status && !c->route->open && atomic_load(&c->server->draining))
    srv_refuse(&c->refusal, 503, "shutting_down", NULL, "the server is shutting down");
  if (!c->refusal.status) check_type(c);
  if (length && strtoull(length, NULL, 10) > c->server->o->max_body) too_large(c);
  return !c->refusal.status;
}

static void count_busy(srv_call *c, bool more) {
  srv_server *s = c->server;
  if (c->busy == more) return;
  c->busy = more;
  pthread_mutex_lock(&s->lock);
  s->busy += more ? 1 : -1u;
  if (!s->busy) pthread_cond_broadcast(&s->idle);
  pthread_mutex_unlock(&s->lock);
}

static srv_call *new_call(srv_server *s, struct MHD_Connection *connection) {
  srv_call *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  const union MHD_ConnectionInfo *fd = s->mhd.connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  *c = (srv_call){.server = s, .connection = connection, .fd = fd ? fd->connect_fd : -1, .began_ns = tni_now_ns()};
  return c;
}

enum MHD_Result srv_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                           const char *version, const char *data, size_t *n, void **call) {
  enum { DROPPED = 1 << 20 };
  srv_server *s = server;
  srv_call *c = *call;
  (void)version;
  if (!c) {
    c = new_call(s, connection);
    if (!c) return MHD_NO;
    *call = c;
    if (begin(c, method, url)) count_busy(c, true);
    /* One that still sends may not see an answer: a body of no use is read and dropped first, and only one that is longer
     * than that is refused before it comes; the connection ends then. */
    const char *length = header(c, "Content-Length");
    if (c->refusal.status && length && strtoull(length, NULL, 10) > DROPPED + s->o->max_body) srv_send_refusal(c);
    return c->cut ? MHD_NO : MHD_YES;
  }
  if (*n) {
    if (c->refusal.status || !keep_body(c, data, *n)) c->dropped += *n;
    *n = 0;
    return c->dropped > DROPPED + s->o->max_body ? MHD_NO : MHD_YES;
  }
  if (c->sent) return MHD_YES;
  c->server->mhd.set_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
  c->url = url;
  if (!c->refusal.status) c->route->answer(c);
  if (!c->sent && !c->gone && c->refusal.status) srv_send_refusal(c);
  return c->sent && !c->cut ? MHD_YES : MHD_NO;
}

void srv_completed(void *server, struct MHD_Connection *connection, void **call, enum MHD_RequestTerminationCode why) {
  srv_call *c = *call;
  srv_server *s = server;
  (void)connection;
  if (!c) return;
  if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK) atomic_fetch_add(&s->metrics.gone, 1);
  srv_stream_finish(c->stream);
  srv_model_give(c);
  count_busy(c, false);
  free(c->body);
  free(c);
  *call = NULL;
}
