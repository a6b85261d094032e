/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/process/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/base.h"

typedef struct frame {
  uint32_t magic;
  uint16_t version, kind;
  uint32_t seq, n_fds;
  uint64_t bytes;
} frame;
_Static_assert(sizeof(frame) == 24, "no padding");

/* --- writing ----------------------------------------------------------------------------------------------------- */

void tni_wire_finish(tni_wire *w) {
  free(w->p);
  *w = (tni_wire){.n = 0};
}

void tni_w_bytes(tni_wire *w, const void *p, size_t n) {
  if (w->bad || n > TNI_WIRE_MAX || w->n + n > TNI_WIRE_MAX) {
    w->bad = true;
    return;
  }
  if (w->n + n > w->cap) {
    size_t cap = w->cap ? w->cap * 2 : 256;
    while (cap < w->n + n) cap *= 2;
    uint8_t *grown = realloc(w->p, cap);
    if (!grown) {
      w->bad = true;
      return;
    }
    w->p = grown;
    w->cap = cap;
  }
  if (n) memcpy(w->p + w->n, p, n);
  w->n += n;
}

void tni_w_u32(tni_wire *w, uint32_t v) { tni_w_bytes(w, &v, sizeof v); }
void tni_w_u64(tni_wire *w, uint64_t v) { tni_w_bytes(w, &v, sizeof v); }
void tni_w_i64(tni_wire *w, int64_t v) { tni_w_bytes(w, &v, sizeof v); }
void tni_w_f64(tni_wire *w, double v) { tni_w_bytes(w, &v, sizeof v); }

void tni_w_str(tni_wire *w, const char *s) {
  const size_t n = s ? strlen(s) : 0;
  tni_w_u32(w, s ? (uint32_t)n : UINT32_MAX);
  tni_w_bytes(w, s, n);
}

void tni_w_array(tni_wire *w, const void *p, uint32_t n, size_t each) {
  tni_w_u32(w, n);
  tni_w_bytes(w, p, n * each);
}

void tni_w_error(tni_wire *w, const tn_error *e) {
  tni_w_u32(w, (uint32_t)e->code);
  tni_w_u32(w, (uint32_t)e->vendor_code);
  tni_w_u32(w, e->node);
  tni_w_u32(w, e->task);
  tni_w_bytes(w, e->message, sizeof e->message);
  tni_w_bytes(w, e->where, sizeof e->where);
}

uint32_t tni_w_fd(tni_wire *w, int fd) {
  if (w->n_fds == TNI_WIRE_FDS || fd < 0) {
    w->bad = true;
    return 0;
  }
  w->fds[w->n_fds] = fd;
  return w->n_fds++;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

void tni_rd_finish(tni_rd *r) {
  for (uint32_t i = 0; i < r->n_fds; i++)
    if (r->fds[i] >= 0) close(r->fds[i]);
  free(r->owned);
  *r = (tni_rd){.n = 0};
}

const void *tni_r_bytes(tni_rd *r, size_t n) {
  static const uint8_t nothing[1];
  if (r->bad || n > r->n - r->at) {
    r->bad = true;
    return NULL;
  }
  const void *p = n ? r->p + r->at : nothing;
  r->at += n;
  return p;
}

#define GET(type)                           \
  type v = 0;                               \
  const void *p = tni_r_bytes(r, sizeof v); \
  if (p) memcpy(&v, p, sizeof v);           \
  return v
uint32_t tni_r_u32(tni_rd *r) { GET(uint32_t); }
uint64_t tni_r_u64(tni_rd *r) { GET(uint64_t); }
int64_t tni_r_i64(tni_rd *r) { GET(int64_t); }
double tni_r_f64(tni_rd *r) { GET(double); }
#undef GET

static void tidy_string(char *s) {
  for (; *s; s++)
    if ((unsigned char)*s < 0x20 || *s == 0x7f) *s = '?';
}

const char *tni_r_str(tni_rd *r, tni_arena *a, size_t max) {
  const uint32_t n = tni_r_u32(r);
  if (r->bad || n == UINT32_MAX) return NULL;
  const char *s = n <= max ? tni_r_bytes(r, n) : NULL;
  char *copy = s ? tni_arena_strndup(a, s, n) : NULL;
  if (!copy)
    r->bad = true;
  else
    tidy_string(copy);
  return copy;
}

uint32_t tni_r_count(tni_rd *r, size_t least, uint32_t max) {
  const uint32_t n = tni_r_u32(r);
  if (r->bad || n > max || (least && n > (r->n - r->at) / least)) {
    r->bad = true;
    return 0;
  }
  return n;
}

void *tni_r_array(tni_rd *r, tni_arena *a, uint32_t *n, size_t each, uint32_t max) {
  const uint32_t count = tni_r_count(r, each, max);
  const void *p = tni_r_bytes(r, count * each);
  void *copy = p ? tni_arena_alloc(a, count * each + 1, 16) : NULL;
  *n = 0;
  if (!copy) {
    r->bad = true;
    return NULL;
  }
  if (count) memcpy(copy, p, count * each);
  *n = count;
  return copy;
}

void tni_r_error(tni_rd *r, tn_error *e) {
  tni_error_init(e);
  e->code = (int32_t)tni_r_u32(r);
  e->vendor_code = (int32_t)tni_r_u32(r);
  e->node = tni_r_u32(r);
  e->task = tni_r_u32(r);
  const char *m = tni_r_bytes(r, sizeof e->message), *at = tni_r_bytes(r, sizeof e->where);
  if (!m || !at) return;
  memcpy(e->message, m, sizeof e->message - 1);
  memcpy(e->where, at, sizeof e->where - 1);
  tidy_string(e->message);
  tidy_string(e->where);
}

int tni_r_fd(tni_rd *r) {
  for (uint32_t i = 0; i < r->n_fds; i++) {
    const int fd = r->fds[i];
    if (fd < 0) continue;
    r->fds[i] = -1;
    return fd;
  }
  r->bad = true;
  return -1;
}

bool tni_rd_whole(const tni_rd *r) { return !r->bad && r->at == r->n; }

/* --- sockets ----------------------------------------------------------------------------------------------------- */

static tn_status wait_for(int s, short what, int64_t deadline) {
  for (;;) {
    int ms = -1;
    if (deadline >= 0) {
      const int64_t left = deadline - tni_now_ns();
      if (left <= 0) return TN_E_CANCELLED;
      ms = left / 1000000 >= 60000 ? 60000 : (int)(left / 1000000) + 1;
    }
    struct pollfd p = {.fd = s, .events = what};
    const int k = poll(&p, 1, ms);
    if (k > 0) return TN_OK;
    if (k < 0 && errno != EINTR) return TN_E_DEVICE_LOST;
  }
}

/* What is left of header and body goes out as the peer takes it. */
static tn_status send_some(int s, struct msghdr *m, int64_t deadline, size_t *sent) {
  for (;;) {
    const ssize_t k = sendmsg(s, m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k > 0) {
      *sent = (size_t)k;
      return TN_OK;
    }
    if (k < 0 && errno == EINTR) continue;
    if (k == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return TN_E_DEVICE_LOST;
    if (wait_for(s, POLLOUT, deadline) != TN_OK) return TN_E_DEVICE_LOST;
  }
}

tn_status tni_wire_send(int socket, uint32_t kind, uint32_t seq, const tni_wire *w, int64_t deadline) {
  if (w->bad) return TN_E_NO_MEMORY;
  frame f = {TNI_WIRE_MAGIC, TNI_WIRE_VERSION, (uint16_t)kind, seq, w->n_fds, w->n};
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int[TNI_WIRE_FDS]))];
  } control = {.room = {0}};
  struct msghdr m = {.msg_iovlen = 2};
  if (w->n_fds) {
    m.msg_control = control.room;
    m.msg_controllen = CMSG_SPACE(w->n_fds * sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(w->n_fds * sizeof(int));
    memcpy(CMSG_DATA(c), w->fds, w->n_fds * sizeof(int));
  }
  for (size_t at = 0, k = 0; at < sizeof f + w->n; at += k) {
    const size_t head = at < sizeof f ? at : sizeof f, body = at - head;
    struct iovec io[2] = {{(uint8_t *)&f + head, sizeof f - head}, {w->p ? w->p + body : NULL, w->n - body}};
    m.msg_iov = io;
    tn_status st = send_some(socket, &m, deadline, &k);
    if (st != TN_OK) return st;
    m.msg_control = NULL; /* descriptors went with the first byte */
    m.msg_controllen = 0;
  }
  return TN_OK;
}

static void take_fds(struct msghdr *m, tni_rd *r) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (r->n_fds < TNI_WIRE_FDS)
        r->fds[r->n_fds++] = fd;
      else
        close(fd);
    }
  }
}

static tn_status receive_some(int s, uint8_t *p, size_t n, size_t *got, tni_rd *r) {
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int[TNI_WIRE_FDS]))];
  } control;
  struct iovec io = {p, n};
  struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control};
  ssize_t k;
  do k = recvmsg(s, &m, MSG_CMSG_CLOEXEC);
  while (k < 0 && errno == EINTR);
  if (k <= 0) return TN_E_DEVICE_LOST;
  take_fds(&m, r);
  *got = (size_t)k;
  return m.msg_flags & MSG_CTRUNC ? TN_E_CORRUPT : TN_OK;
}

static tn_status receive_all(int s, int64_t deadline, uint8_t *p, size_t n, tni_rd *r) {
  for (size_t at = 0, got = 0; at < n; at += got) {
    tn_status st = wait_for(s, POLLIN, deadline);
    if (st == TN_OK) st = receive_some(s, p + at, n - at, &got, r);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

tn_status tni_wire_receive(int socket, int64_t first, int64_t whole, tni_rd *r) {
  frame f;
  *r = (tni_rd){.n = 0};
  tn_status st = wait_for(socket, POLLIN, first);
  if (st != TN_OK) return st;
  st = receive_all(socket, whole, (uint8_t *)&f, sizeof f, r);
  if (st == TN_OK &&
      (f.magic != TNI_WIRE_MAGIC || f.version != TNI_WIRE_VERSION || f.bytes > TNI_WIRE_MAX || f.n_fds != r->n_fds))
    st = TN_E_CORRUPT;
  if (st == TN_OK && f.bytes) {
    r->owned = malloc((size_t)f.bytes);
    st = r->owned ? receive_all(socket, whole, r->owned, (size_t)f.bytes, r) : TN_E_NO_MEMORY;
  }
  if (st == TN_E_CANCELLED) st = TN_E_DEVICE_LOST;
  if (st == TN_OK && f.n_fds != r->n_fds) st = TN_E_CORRUPT;
  if (st != TN_OK) {
    tni_rd_finish(r);
    return st;
  }
  r->p = r->owned;
  r->n = (size_t)f.bytes;
  r->kind = f.kind;
  r->seq = f.seq;
  return TN_OK;
}
