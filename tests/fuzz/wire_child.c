/* SPDX-License-Identifier: Apache-2.0
 *
 * A child for target_wire.c, started in the place of tenon-helper. With TENON_WIRE_RECORD it is the helper, and writes
 * down what it answers. With TENON_WIRE_SCRIPT it gives those answers (TENON_WIRE_ANSWERS) with what the script does to
 * them:
 *
 *   before each answer, while the next byte is 128 or more: one deed (that byte's lower bits), which reads its own
 * bytes then, where the next byte is less: the answer
 *
 * Where the script has ended all is as it was written down.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/plugin/helper/serve.h"

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);

enum { MOST_ANSWERS = 256, MOST_BODY = 1 << 20, MOST_SCRIPT = 1 << 16 };

/* --- writing down ------------------------------------------------------------------------------------------------ */

static FILE *record;

typedef struct noted {
  uint32_t kind, n;
} noted;

static void note_answer(const struct msghdr *m) {
  static uint8_t all[MOST_BODY];
  size_t n = 0;
  for (size_t i = 0; i < m->msg_iovlen && m->msg_iov[i].iov_len <= sizeof all - n; i++) {
    if (m->msg_iov[i].iov_len) memcpy(all + n, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
    n += m->msg_iov[i].iov_len;
  }
  uint16_t kind;
  if (n < 24) return;
  memcpy(&kind, all + 6, sizeof kind);
  const noted h = {kind, (uint32_t)(n - 24)};
  if (kind >= TNI_ISO_CALLS) return;
  fwrite(&h, sizeof h, 1, record);
  fwrite(all + 24, 1, h.n, record);
  fflush(record);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags) {
  if (record) note_answer(m);
  return __real_sendmsg(fd, m, flags);
}

/* --- what was written down --------------------------------------------------------------------------------------- */

static struct {
  uint32_t kind, n;
  uint8_t *p;
} answers[MOST_ANSWERS];
static uint32_t n_answers, at_kind[TNI_ISO_CALLS];

static void read_answers(const char *path) {
  FILE *f = fopen(path, "rb");
  noted h;
  while (f && n_answers < MOST_ANSWERS && fread(&h, sizeof h, 1, f) == 1 && h.n <= MOST_BODY) {
    uint8_t *p = malloc(h.n + 1);
    if (!p || fread(p, 1, h.n, f) != h.n) break;
    answers[n_answers].kind = h.kind;
    answers[n_answers].n = h.n;
    answers[n_answers++].p = p;
  }
  if (f) fclose(f);
}

/* The k-th answer to calls of that kind, or the last there is. */
static uint32_t copy_answer(uint32_t kind, uint8_t *to) {
  uint32_t seen = 0, last = UINT32_MAX;
  for (uint32_t i = 0; i < n_answers; i++) {
    if (answers[i].kind != kind) continue;
    last = i;
    if (seen++ == at_kind[kind]) break;
  }
  at_kind[kind]++;
  if (last == UINT32_MAX) return memset(to, 0, 12), 12;
  memcpy(to, answers[last].p, answers[last].n);
  return answers[last].n;
}

/* --- the script -------------------------------------------------------------------------------------------------- */

static uint8_t script[MOST_SCRIPT];
static size_t n_script, at_script;

static int next_byte(void) { return at_script < n_script ? script[at_script++] : -1; }
static uint32_t next_small(void) {
  static const uint32_t odd[] = {
      0, 1, 2, 3, 4, 8, 16, 63, 64, 255, 1024, 65535, 1u << 30, (1u << 30) + 1, INT32_MAX, UINT32_MAX};
  const int b = next_byte();
  return b < 0 ? 0 : b < 16 ? odd[b] : (uint32_t)b;
}

/* --- the child --------------------------------------------------------------------------------------------------- */

static int control, engines[8], n_engines;
static tni_iso_page *page;
static uint64_t events;
static uint32_t ran;

static void send_all(int fd, uint32_t kind, uint32_t seq, const void *p, size_t n) {
  tni_wire w = {.n = 0};
  tni_w_bytes(&w, p, n);
  if (tni_wire_send(fd, kind, seq, &w, -1) != TN_OK) _exit(0);
  tni_wire_finish(&w);
}

static void send_event(uint32_t kind, const void *p, size_t n) {
  events++;
  send_all(TNI_CHILD_CHANNEL, kind, 0, p, n);
}

static void ask(uint32_t kind) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, next_small());
  tni_w_i64(&w, (int32_t)next_small());
  tni_w_i64(&w, (int32_t)next_small());
  send_event(kind, w.p, w.n);
  tni_wire_finish(&w);
}

static void say_done(uint32_t ticket, uint32_t status) {
  const tn_times times = {.h = TN_HDR(tn_times)};
  tn_error none = {.code = 0};
  tni_wire w = {.n = 0};
  tni_w_u32(&w, ticket);
  tni_w_u32(&w, status);
  tni_w_bytes(&w, &times, sizeof times);
  tni_w_error(&w, &none);
  send_event(TNI_ISO_DONE, w.p, w.n);
  tni_wire_finish(&w);
}

static void say_walls(void) {
  const uint32_t w[4] = {(uint32_t)getpid(), 0, 63, 6};
  send_event(TNI_ISO_WALLS, w, sizeof w);
}

static void say_log(void) {
  tni_wire w = {.n = 0};
  tni_w_u32(&w, next_small());
  tni_w_str(&w, "a line");
  send_event(TNI_ISO_LOG, w.p, w.n);
  tni_wire_finish(&w);
}

static void send_noise(int fd) {
  uint8_t raw[32];
  const uint32_t n = next_small() % sizeof raw;
  for (uint32_t i = 0; i < n; i++) raw[i] = (uint8_t)next_byte();
  (void)!write(fd, raw, n);
}

static void scribble(void) {
  const uint32_t v = next_small();
  switch (next_small() % 6) {
    case 0:
      atomic_store(&page->answered, atomic_load(&page->asked) + v);
      break;
    case 1:
      page->status = (int32_t)v;
      break;
    case 2:
      page->events = v;
      break;
    case 3:
      memset((void *)&page->error, (int)v, sizeof page->error);
      break;
    case 4:
      atomic_store(&page->host_sleeps, v);
      break;
    default:
      atomic_store(v & 1 ? &page->stop_call : &page->stop_run, (int32_t)v);
  }
}

typedef struct draft {
  int fd;
  uint32_t kind, seq, n, times;
  uint8_t body[MOST_BODY];
} draft;

static void change_word(draft *d) {
  const uint32_t at = d->n >= 4 ? next_small() * 4 % (d->n - 3) : 0, v = next_small();
  if (d->n >= 4) memcpy(d->body + at, &v, sizeof v);
}

/* One deed. */
static void misbehave(draft *d, uint32_t deed) {
  static const uint32_t questions[] = {TNI_ISO_ROWS, TNI_ISO_GRID, TNI_ISO_READ};
  switch (deed) {
    case 0:
      if (d->n) d->body[next_small() % d->n] ^= (uint8_t)next_byte();
      break;
    case 1:
      change_word(d);
      break;
    case 2:
      d->n -= next_small() % (d->n + 1);
      break;
    case 3:
      for (uint32_t k = next_small() % 64; k; k--) d->body[d->n++] = (uint8_t)next_byte();
      break;
    case 4:
      say_log();
      break;
    case 5:
    case 6:
    case 7:
      ask(questions[deed - 5]);
      break;
    case 8:
      say_done(next_small(), next_small());
      break;
    case 9:
      say_walls();
      break;
    case 10:
      send_noise(TNI_CHILD_CHANNEL);
      break;
    case 11:
      send_noise(d->fd);
      break;
    case 12:
      d->times = next_small() % 4;
      break;
    case 13:
      d->kind = next_small() % (TNI_ISO_EVENTS + 2);
      break;
    case 14:
      d->seq += next_small();
      break;
    case 15:
      scribble();
      break;
    case 16:
      events = next_small();
      break;
    case 17:
      send_event(next_small() % 128, d->body, d->n > 256 ? 256 : d->n);
      break;
    case 18:
      _exit((int)next_small());
    case 19:
      usleep(1000 * (next_small() % 4));
      break;
    default:
      events -= deed & 1; /* one that the host does not wait for */
  }
}

static void answer(int fd, uint32_t kind, uint32_t seq) {
  static draft d;
  d.fd = fd;
  d.kind = kind;
  d.seq = seq;
  d.times = 1;
  d.n = copy_answer(kind, d.body);
  for (int b; (b = next_byte()) >= 128;) misbehave(&d, (uint32_t)b & 31);
  if (d.n >= 12) memcpy(d.body + 4, &events, sizeof events);
  for (uint32_t i = 0; i < d.times; i++) send_all(fd, d.kind, d.seq, d.body, d.n);
}

/* Completes what was submitted: step, count, and args, ticket and ready of each. */
static void take_submission(int fd) {
  tni_rd r;
  if (tni_wire_receive(fd, -1, -1, &r) != TN_OK) _exit(0);
  (void)tni_r_u32(&r);
  for (uint32_t n = tni_r_count(&r, 16, 64); n; n--) {
    (void)tni_r_u32(&r);
    say_done(tni_r_u32(&r), 0);
    (void)tni_r_i64(&r);
  }
  answer(fd, TNI_ISO_SUBMIT, r.seq);
  tni_rd_finish(&r);
}

static void take_call(void) {
  tni_rd r;
  if (tni_wire_receive(control, -1, -1, &r) != TN_OK) _exit(0);
  if (r.kind == TNI_ISO_ENGINE && n_engines < 8) engines[n_engines++] = tni_r_fd(&r);
  answer(control, r.kind, r.seq);
  if (r.kind == TNI_ISO_STOP) _exit(0);
  tni_rd_finish(&r);
}

static void take_run(void) {
  const uint32_t asked = atomic_load(&page->asked);
  if (asked == ran) return;
  ran = asked;
  page->status = 0;
  page->events = events;
  for (int b; (b = next_byte()) >= 128;)
    if ((b & 31) == 15) scribble();
  tni_futex_post(&page->answered, asked, &page->host_sleeps);
}

static void play(void) {
  for (;;) {
    struct pollfd p[10] = {{.fd = control, .events = POLLIN}, {.fd = TNI_CHILD_CHANNEL, .events = POLLIN}};
    for (int i = 0; i < n_engines; i++) p[2 + i] = (struct pollfd){.fd = engines[i], .events = POLLIN};
    poll(p, 2 + (nfds_t)n_engines, 1);
    take_run();
    uint8_t heard[4096]; /* answers to what was asked: nobody needs them */
    if (p[1].revents && recv(TNI_CHILD_CHANNEL, heard, sizeof heard, MSG_DONTWAIT) <= 0) _exit(0);
    for (int i = 0; i < n_engines; i++)
      if (p[2 + i].revents) take_submission(engines[i]);
    if (p[0].revents) take_call();
  }
}

static int start_playing(const char *path) {
  tni_rd r;
  FILE *f = fopen(path, "rb");
  n_script = f ? fread(script, 1, sizeof script, f) : 0;
  if (f) fclose(f);
  read_answers(getenv("TENON_WIRE_ANSWERS"));
  if (tni_wire_receive(TNI_CHILD_CHANNEL, -1, -1, &r) != TN_OK) return 1;
  control = tni_r_fd(&r);
  page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, tni_r_fd(&r), 0);
  if (control < 0 || page == MAP_FAILED) return 1;
  alarm(10);
  say_walls();
  answer(control, TNI_ISO_START, r.seq);
  tni_rd_finish(&r);
  play();
  return 0;
}

int main(int argc, char **argv) {
  const char *to = getenv("TENON_WIRE_RECORD"), *path = getenv("TENON_WIRE_SCRIPT");
  (void)argc, (void)argv;
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  if (path) return start_playing(path);
  record = to ? fopen(to, "wbe") : NULL;
  return tni_isolate_serve(TNI_CHILD_CHANNEL);
}
