/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's life: its socket, its threads, and its end.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/serve/form.h"

/* --- signals: the first asks for the end, the second does not wait for it ------------------------------------------- */

static int asked_fd = -1;
static volatile sig_atomic_t asked;

static void on_signal(int sig) {
  const int kept = errno;
  const uint64_t one = 1;
  if (asked++) _exit(128 + sig);
  if (write(asked_fd, &one, sizeof one) < 0) _exit(128 + sig);
  errno = kept;
}

static bool catch_signals(void) {
  const struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, none = {.sa_handler = SIG_IGN};
  asked_fd = eventfd(0, EFD_CLOEXEC);
  return asked_fd >= 0 && sigaction(SIGTERM, &ours, NULL) == 0 && sigaction(SIGINT, &ours, NULL) == 0 &&
         sigaction(SIGPIPE, &none, NULL) == 0;
}

/* --- the socket --------------------------------------------------------------------------------------------------- */

static uint32_t bound_port(int fd) {
  struct sockaddr_storage a;
  socklen_t n = sizeof a;
  if (getsockname(fd, (struct sockaddr *)&a, &n) != 0) return 0;
  return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
}

static tn_status open_socket(srv_server *s, int *out, tn_error *err) {
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_PASSIVE};
  struct addrinfo *a = NULL;
  char port[16];
  const char *host = s->o->host;
  snprintf(port, sizeof port, "%u", s->o->port);
  const int rc = getaddrinfo(host, port, &hints, &a);
  if (rc) return tni_fail(err, TN_E_INVALID, host, "'%s' is no address: %s", host, gai_strerror(rc));
  s->loopback = srv_is_loopback(a->ai_addr);
  const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  tn_status st = TN_OK;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(fd, a->ai_addr, a->ai_addrlen) != 0 ||
      listen(fd, SOMAXCONN) != 0)
    st = tni_fail(err, TN_E_IO, host, "%s port %u: %s", host, s->o->port, strerror(errno));
  freeaddrinfo(a);
  if (st == TN_OK && !s->loopback && !s->o->n_keys)
    st = tni_fail(err, TN_E_INVALID, host, "%s can be reached from other machines: an API key is needed (--api-key-file)", host);
  if (st != TN_OK) {
    if (fd >= 0) close(fd);
    return st;
  }
  s->port = bound_port(fd);
  *out = fd;
  return TN_OK;
}

/* --- start and end ------------------------------------------------------------------------------------------------ */

/* Each client that hangs up makes lines: one a second is enough to know. */
static void on_log(void *user, const char *fmt, va_list ap) {
  enum { APART_NS = 1000000000 };
  srv_server *s = user;
  char text[512];
  const int64_t now = tni_now_ns();
  int64_t last = atomic_load(&s->said_ns);
  if (now - last < APART_NS || !atomic_compare_exchange_strong(&s->said_ns, &last, now)) {
    atomic_fetch_add(&s->unsaid, 1);
    return;
  }
  vsnprintf(text, sizeof text, fmt, ap);
  text[strcspn(text, "\n")] = 0;
  const unsigned long long unsaid = atomic_exchange(&s->unsaid, 0);
  if (unsaid)
    s->o->note("http: %s (and %llu lines before it)", text, unsaid);
  else
    s->o->note("http: %s", text);
}

static tn_status listen_at(srv_server *s, int fd, tn_error *err) {
  const serve_opts *o = s->o;
  s->daemon = s->mhd.start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0, NULL,
      NULL, srv_handle, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
      srv_completed, s, MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections, MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)o->timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(64 << 10), MHD_OPTION_END);
  return s->daemon ? TN_OK : tni_fail(err, TN_E_IO, o->host, "the server does not start: %s", strerror(errno));
}

static void wait_for_signal(void) {
  struct pollfd p = {.fd = asked_fd, .events = POLLIN};
  while (poll(&p, 1, -1) < 0 && errno == EINTR) {
  }
}

/* Until nothing is under way, or the time is over. */
static void drain(srv_server *s) {
  struct timespec end;
  const int fd = s->mhd.quiesce_daemon(s->daemon);
  if (fd >= 0) close(fd);
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += s->o->drain_s;
  pthread_mutex_lock(&s->lock);
  while (s->busy && pthread_cond_timedwait(&s->idle, &s->lock, &end) == 0) {
  }
  const uint32_t left = s->busy;
  pthread_mutex_unlock(&s->lock);
  if (left) s->o->note("%u requests are cut off: they took over %u s", left, s->o->drain_s);
}

static tn_status serve(srv_server *s, tn_error *err) {
  int fd = -1;
  tn_status st = open_socket(s, &fd, err);
  if (st == TN_OK) st = srv_models_start(s, err);
  if (st == TN_OK && !catch_signals()) st = tni_fail(err, TN_E_IO, "signals", "%s", strerror(errno));
  if (st == TN_OK) st = listen_at(s, fd, err);
  if (st != TN_OK) {
    if (fd >= 0) close(fd);
    srv_models_finish(s);
    return st;
  }
  const bool v6 = strchr(s->o->host, ':') != NULL;
  s->o->note("listening on http://%s%s%s:%u", v6 ? "[" : "", s->o->host, v6 ? "]" : "", s->port);
  wait_for_signal();
  s->o->note("shutting down");
  atomic_store(&s->draining, true);
  drain(s);
  srv_models_stop(s);
  s->mhd.stop_daemon(s->daemon);
  srv_models_finish(s);
  return TN_OK;
}

tn_status serve_run(const serve_opts *o, tn_error *err) {
  srv_server *s = calloc(1, sizeof *s);
  pthread_condattr_t attr;
  tni_error_begin(err);
  if (!s) return tni_fail_memory(err, "server");
  s->o = o;
  s->began_ns = tni_now_ns();
  pthread_mutex_init(&s->lock, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&s->idle, &attr);
  pthread_mutex_init(&s->models_lock, NULL);
  pthread_cond_init(&s->models_news, &attr);
  pthread_condattr_destroy(&attr);
  tn_status st = srv_mhd_open(&s->mhd, err);
  if (st == TN_OK) st = serve(s, err);
  srv_mhd_close(&s->mhd);
  pthread_cond_destroy(&s->models_news);
  pthread_mutex_destroy(&s->models_lock);
  pthread_cond_destroy(&s->idle);
  pthread_mutex_destroy(&s->lock);
  free(s);
  return st;
}
