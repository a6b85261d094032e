/* SPDX-License-Identifier: Apache-2.0
 *
 * The process dies while text is generated: the text goes on with the ids that the next plugin gives.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "isolate_test.h"

enum { TOKENS = 10, PROMPT = 12 };

static const char isolated[] = "isolation: process\ntimeout_ms: 5000\nplugins: [cpu-avx2-lut, host]\n";

typedef struct shot {
  lab *l;
  int signal;
  long delay_us;
} shot;

/* Whether every thread of a process is stopped. */
static bool all_stopped(int pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *d = opendir(path);
  bool all = d != NULL;
  for (struct dirent *e; all && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", pid, e->d_name);
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *state = strrchr(text, ')');
    all = state && strncmp(state, ") T", 3) == 0;
  }
  if (d) closedir(d);
  return all;
}

/* SIGSTOP takes hold when a thread of the process next runs; until then others may compute what is asked for. */
static void fire(void *user) {
  const shot *s = user;
  const int pid = lab_child(s->l, "cpu-avx2-lut");
  if (pid <= 0) return;
  kill(pid, s->signal);
  for (int i = 0; s->signal == SIGSTOP && i < 10000 && !all_stopped(pid); i++) {
    const struct timespec t = {0, 1000000};
    nanosleep(&t, NULL);
  }
}

static void *fire_later(void *user) {
  const shot *s = user;
  const struct timespec t = {0, s->delay_us * 1000};
  nanosleep(&t, NULL);
  fire(user);
  return NULL;
}

static void prompt(int32_t ids[PROMPT]) {
  for (int i = 0; i < PROMPT; i++) ids[i] = 11 + i * 173 % 3900;
}

/* want[k]: ids when the process dies before token k is asked for; k == TOKENS: it never does. */
static bool expectations(int32_t want[TOKENS + 1][TOKENS]) {
  int32_t ids[PROMPT];
  lab a, b;
  prompt(ids);
  tn_status st = lab_open(&a, "plugins: [cpu-avx2-lut, host]\n", NULL, NULL);
  if (st == TN_OK) st = lab_load(&a);
  tn_status other = lab_open(&b, "plugins: [host]\n", NULL, NULL);
  if (other == TN_OK) other = lab_load(&b);
  for (uint32_t k = 0; st == TN_OK && other == TN_OK && k <= TOKENS; k++)
    st = lab_expect(tn_lm_model(a.lm), tn_lm_model(b.lm), ids, PROMPT, TOKENS, k, want[k], &a.err);
  if (st != TN_OK || other != TN_OK) printf("\n    %s %s\n", a.err.message, b.err.message);
  lab_close(&a);
  lab_close(&b);
  return st == TN_OK && other == TN_OK;
}

static int32_t want[TOKENS + 1][TOKENS];

static void kill_at(int at, int with) {
  int32_t ids[PROMPT], got[TOKENS] = {0};
  lab l;
  const char *line = NULL;
  prompt(ids);
  tn_status st = lab_open(&l, isolated, NULL, NULL);
  if (st == TN_OK) st = lab_load(&l);
  shot s = {&l, with, 0};
  if (st == TN_OK) st = lab_generate(&l, ids, PROMPT, TOKENS, at, fire, &s, got);
  CU_ASSERT_EQUAL(st, TN_OK);
  if (st != TN_OK) printf("\n    at %d: %s\n", at, l.err.message);
  CU_ASSERT_EQUAL(memcmp(got, want[at], sizeof got), 0);
  CU_ASSERT_EQUAL(tn_runtime_losses(l.rt, &line), 1);
  CU_ASSERT(line && strstr(line, "cpu-avx2-lut") && strstr(line, with == SIGKILL ? "SIGKILL" : "5000 ms"));
  CU_ASSERT(line && strstr(l.log, line));
  CU_ASSERT_EQUAL(lab_child(&l, "cpu-avx2-lut"), 0);
  /* And what is begun after that works too. */
  tn_chat_reset(l.chat);
  CU_ASSERT_EQUAL(lab_generate(&l, ids, PROMPT, TOKENS, -1, NULL, NULL, got), TN_OK);
  CU_ASSERT_EQUAL(memcmp(got, want[0], sizeof got), 0);
  lab_close(&l);
}

static void test_prefill(void) {
  if (has_avx2()) kill_at(0, SIGKILL);
}

static void test_decode(void) {
  if (!has_avx2()) return;
  kill_at(1, SIGKILL);
  kill_at(4, SIGKILL);
  kill_at(TOKENS - 1, SIGKILL);
}

static void test_hang(void) {
  if (has_avx2()) kill_at(3, SIGSTOP);
}

/* At a moment that nobody chose: the ids are those of one of the moments. */
static void test_any_time(void) {
  if (!has_avx2()) return;
  for (int i = 0; i < 6; i++) {
    int32_t ids[PROMPT], got[TOKENS] = {0};
    lab l;
    bool found = false;
    pthread_t t;
    prompt(ids);
    tn_status st = lab_open(&l, isolated, NULL, NULL);
    if (st == TN_OK) st = lab_load(&l);
    shot s = {&l, SIGKILL, 500 + i * 2500};
    const bool started = st == TN_OK && pthread_create(&t, NULL, fire_later, &s) == 0;
    if (started) {
      st = lab_generate(&l, ids, PROMPT, TOKENS, -1, NULL, NULL, got);
      pthread_join(t, NULL);
    }
    CU_ASSERT_EQUAL(st, TN_OK);
    if (st != TN_OK) printf("\n    after %ld us: %s\n", s.delay_us, l.err.message);
    for (int k = 0; k <= TOKENS; k++) found = found || memcmp(got, want[k], sizeof got) == 0;
    CU_ASSERT(found);
    lab_close(&l);
  }
}

/* What the profile requires is not done without. */
static void test_required(void) {
  if (!has_avx2()) return;
  int32_t ids[PROMPT], got[TOKENS] = {0};
  char profile[256];
  lab l;
  prompt(ids);
  snprintf(profile, sizeof profile, "%srequire: [cpu-avx2-lut]\n", isolated);
  tn_status st = lab_open(&l, profile, NULL, NULL);
  if (st == TN_OK) st = lab_load(&l);
  shot s = {&l, SIGKILL, 0};
  CU_ASSERT_EQUAL(st, TN_OK);
  if (st == TN_OK) CU_ASSERT_EQUAL(lab_generate(&l, ids, PROMPT, TOKENS, 3, fire, &s, got), TN_E_DEVICE_LOST);
  CU_ASSERT_PTR_NOT_NULL(strstr(l.err.message, "SIGKILL"));
  CU_ASSERT_PTR_NOT_NULL(strstr(l.err.message, "requires 'cpu-avx2-lut'"));
  lab_close(&l);
}

/* The profile keeps caches as float16 for one placement, or the next one wants its own: rows are converted. */
static void one_cache(const char *kv) {
  if (!has_avx2()) return;
  int32_t ids[PROMPT], got[TOKENS] = {0};
  char profile[256];
  lab l;
  prompt(ids);
  snprintf(profile, sizeof profile, "%skv: %s\n", isolated, kv);
  tn_status st = lab_open(&l, profile, NULL, NULL);
  if (st == TN_OK) st = lab_load(&l);
  shot s = {&l, SIGKILL, 0};
  CU_ASSERT_EQUAL(st, TN_OK);
  if (st == TN_OK) CU_ASSERT_EQUAL(lab_generate(&l, ids, PROMPT, TOKENS, 3, fire, &s, got), TN_OK);
  CU_ASSERT_EQUAL(tn_runtime_losses(l.rt, NULL), 1);
  lab_close(&l);
}

static void test_int8_caches(void) { one_cache("int8"); }
static void test_int4_caches(void) { one_cache("int4"); }

static int init(void) {
  const char *dir = getenv("TENON_TEST_AVX2");
  return !dir || !*dir || expectations(want) ? 0 : 1;
}

void suite_kill(void) {
  CU_pSuite s = CU_add_suite("isolate: its death", init, NULL);
  CU_add_test(s, "kill -9 before the prompt is computed", test_prefill);
  CU_add_test(s, "kill -9 between tokens", test_decode);
  CU_add_test(s, "SIGSTOP: it hangs", test_hang);
  CU_add_test(s, "kill -9 at any time", test_any_time);
  CU_add_test(s, "a plugin that is required", test_required);
  CU_add_test(s, "caches in int8", test_int8_caches);
  CU_add_test(s, "caches in int4", test_int4_caches);
}
