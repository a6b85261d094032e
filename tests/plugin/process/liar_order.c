/* SPDX-License-Identifier: Apache-2.0
 *
 * One true message at the wrong time, as TENON_LIAR_ORDER says; nothing else is wrong with this helper.
 */
#include "liar.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/plugin/helper/serve.h"

typedef struct frame {
  uint32_t magic;
  uint16_t version, kind;
  uint32_t seq, n_fds;
  uint64_t bytes;
} frame;

typedef struct question {
  uint32_t id;
  int64_t from, to;
} __attribute__((packed)) question;

static uint32_t last_id; /* what was asked about last */

static void pause_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

static void send_raw(int fd, const void *p, size_t n, int attached) {
  char room[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec io = {(void *)(uintptr_t)p, n};
  struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
  if (attached >= 0) {
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &attached, sizeof attached);
  }
  (void)!__real_sendmsg(fd, &m, MSG_NOSIGNAL);
}

static void send_frame(int fd, uint32_t kind, uint32_t seq, const void *body, size_t n, int attached) {
  uint8_t all[4096];
  const frame f = {TNI_WIRE_MAGIC, TNI_WIRE_VERSION, (uint16_t)kind, seq, attached >= 0, n};
  memcpy(all, &f, sizeof f);
  if (n) memcpy(all + sizeof f, body, n);
  send_raw(fd, all, sizeof f + n, attached);
}

static void ask(uint32_t kind, uint32_t id) {
  const question q = {id, 0, 1};
  send_frame(TNI_CHILD_CHANNEL, kind, 0, &q, sizeof q, -1);
}

static void say_log(int fd, int attached) {
  static const uint8_t body[] = {4, 0, 0, 0, 2, 0, 0, 0, 'h', 'i'};
  send_frame(fd, TNI_ISO_LOG, 0, body, sizeof body, attached);
}

static void say_done(void) {
  uint8_t body[8 + sizeof(tn_times) + 16 + sizeof((tn_error *)0)->message + sizeof((tn_error *)0)->where] = {5};
  send_frame(TNI_CHILD_CHANNEL, TNI_ISO_DONE, 0, body, sizeof body, -1);
}

/* An answer that says OK. */
static void say_answer(int fd, uint32_t kind, uint32_t seq) {
  const uint8_t body[12] = {0};
  send_frame(fd, kind, seq, body, sizeof body, -1);
}

static void say_walls(void) {
  const uint32_t body[4] = {1, 0, 63, 6};
  send_frame(TNI_CHILD_CHANNEL, TNI_ISO_WALLS, 0, body, sizeof body, -1);
}

/* Byte by byte. */
static void dribble(int fd, const uint8_t *p, size_t n) {
  for (size_t i = 0; i < n; i++) {
    send_raw(fd, p + i, 1, -1);
    pause_ms(100);
  }
}

/* Each run is answered by a number that was not asked for, for 20 s: the host ends this process before. */
static void *misnumber(void *arg) {
  tni_iso_page *g = arg;
  const time_t end = time(NULL) + 20;
  while (time(NULL) < end)
    for (int i = 0; i < 10000; i++) atomic_store(&g->answered, atomic_load(&g->asked) + 7);
  return NULL;
}

static void start_misnumbering(void) {
  pthread_t t;
  if (pthread_create(&t, NULL, misnumber, tni_srv_self()->page) == 0) pthread_detach(t);
}

/* Instead of an answer, or beside it. True: it has been sent. */
static bool at_end(const char *order, int fd, const frame *f, uint8_t *p, size_t n) {
  (void)f;
  if (strcmp(order, "rows-before-end") == 0) {
    ask(TNI_ISO_ROWS, last_id);
    pause_ms(50); /* the host is reading them now */
  }
  if (strcmp(order, "dribble") == 0) return dribble(fd, p, n), true;
  if (strcmp(order, "rows-after-end") != 0) return false;
  send_raw(fd, p, n, -1);
  pause_ms(50);
  ask(TNI_ISO_ROWS, last_id);
  return true;
}

static bool at_lower(const char *order, int fd, const frame *f, uint8_t *p, size_t n) {
  uint64_t count = strcmp(order, "count-huge") == 0 ? UINT64_MAX : 0;
  if (strncmp(order, "count-", 6) == 0) memcpy(p + sizeof *f + 4, &count, sizeof count);
  if (strcmp(order, "start-again") == 0) return say_answer(fd, TNI_ISO_START, f->seq), true;
  if (strcmp(order, "answer-twice") != 0 && strcmp(order, "answer-before-call") != 0) return false;
  send_raw(fd, p, n, -1);
  if (strcmp(order, "answer-twice") == 0)
    send_raw(fd, p, n, -1);
  else
    say_answer(fd, TNI_ISO_DESTROY, f->seq + 1);
  return true;
}

static bool at_args(const char *order, int fd, const frame *f, uint8_t *p, size_t n) {
  (void)f, (void)p, (void)n;
  if (strcmp(order, "rows-after-args") == 0) ask(TNI_ISO_ROWS, last_id);
  if (strcmp(order, "grid-after-args") == 0) ask(TNI_ISO_GRID, last_id);
  if (strcmp(order, "rows-of-value") == 0) ask(TNI_ISO_ROWS, TNI_ISO_VALUE);
  if (strcmp(order, "done-of-none") == 0) say_done();
  if (strcmp(order, "walls-again") == 0) say_walls();
  if (strcmp(order, "unknown-event") == 0) send_frame(TNI_CHILD_CHANNEL, 90, 0, NULL, 0, -1);
  if (strcmp(order, "answer-on-channel") == 0) say_answer(TNI_CHILD_CHANNEL, TNI_ISO_MAP, 0);
  if (strcmp(order, "event-on-control") == 0) say_log(fd, -1);
  if (strcmp(order, "descriptor") == 0) say_log(TNI_CHILD_CHANNEL, 0);
  if (strcmp(order, "run-number") == 0) start_misnumbering();
  if (strcmp(order, "true") != 0) pause_ms(150); /* the host has seen it before the last call of all is answered */
  return false;
}

static bool at_start(const char *order) {
  if (strcmp(order, "rows-at-start") == 0) ask(TNI_ISO_ROWS, 1);
  return false;
}

ssize_t liar_send_in_order(const char *order, int fd, const struct msghdr *m, int flags) {
  uint8_t all[65536];
  size_t n = 0;
  frame f;
  for (size_t i = 0; i < m->msg_iovlen; i++) {
    if (m->msg_iov[i].iov_len > sizeof all - n) return __real_sendmsg(fd, m, flags);
    if (m->msg_iov[i].iov_len) memcpy(all + n, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
    n += m->msg_iov[i].iov_len;
  }
  if (n < sizeof f) return __real_sendmsg(fd, m, flags);
  memcpy(&f, all, sizeof f);
  if (fd == TNI_CHILD_CHANNEL && f.kind == TNI_ISO_ROWS) memcpy(&last_id, all + sizeof f, sizeof last_id);
  if (fd != tni_srv_self()->control || f.magic != TNI_WIRE_MAGIC) return __real_sendmsg(fd, m, flags);
  const bool sent = f.kind == TNI_ISO_PACK_END ? at_end(order, fd, &f, all, n)
                    : f.kind == TNI_ISO_LOWER  ? at_lower(order, fd, &f, all, n)
                    : f.kind == TNI_ISO_ARGS   ? at_args(order, fd, &f, all, n)
                    : f.kind == TNI_ISO_START  ? at_start(order)
                                               : false;
  if (!sent) send_raw(fd, all, n, -1);
  return (ssize_t)n;
}
