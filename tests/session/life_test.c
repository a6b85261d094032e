/* SPDX-License-Identifier: Apache-2.0
 *
 * session-life PLUGIN FOLDER [CYCLES [OPTIONS]]: runtime, model, session, a prompt, two steps, and everything closed
 * again, so many times (100). Run it with GLIBC_TUNABLES=glibc.malloc.tcache_count=0: what threads keep for themselves
 * counts as used. Fails when the heap has grown between the middle and the end, or when file descriptors,
 * mappings or threads have. For any plugin: FOLDER holds its .so and manifest. Exit 77: the plugin is not available
 * here.
 */
#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include "session_test.h"
#include "tests/kit/proc.h"

enum { CHUNK = 8, MAX_IN = 64 };

/* What a process holds. */
typedef struct held {
  size_t heap;
  int files, threads, maps;
} held;

static int count_lines(const char *path) {
  int n = 0;
  FILE *f = fopen(path, "re");
  for (int c; f && (c = fgetc(f)) != EOF;) n += c == '\n';
  if (f) fclose(f);
  return n;
}

static held measure(void) {
  malloc_trim(0);
  const struct mallinfo2 m = mallinfo2();
  return (held){m.uordblks + m.hblkhd, kit_count_entries("/proc/self/fd"), kit_count_entries("/proc/self/task"),
                count_lines("/proc/self/maps")};
}

static tn_status step(rig *r, int64_t n) {
  int64_t ids[CHUNK], pos[CHUNK];
  const tn_tensor *in[MAX_IN] = {NULL};
  tn_tensor t[MAX_IN], logits = {.h = {sizeof logits, 1, 0}}, *out[MAX_IN] = {&logits};
  for (int64_t i = 0; i < n; i++) {
    pos[i] = tn_session_length(r->s) + i;
    ids[i] = 3 + pos[i];
  }
  for (uint32_t i = 0; i < tn_model_n_inputs(r->m) && i < MAX_IN; i++) {
    const char *name = tn_model_input(r->m, i)->name;
    const int64_t *v = strcmp(name, "input_ids") == 0 ? ids : strcmp(name, "position_ids") == 0 ? pos : NULL;
    t[i] = i64_tensor(name, v, 2, 1, n);
    if (v) in[i] = &t[i];
  }
  return tn_session_step(r->s, n > 1 ? TN_PHASE_PREFILL : TN_PHASE_DECODE, in, out, 1, &r->err);
}

static tn_status cycle(rig *r, const char *profile) {
  char path[1024];
  const tn_keep_opts keep = {.h = {sizeof keep, 1, 0}, .capacity = 64, .max_step = CHUNK};
  snprintf(path, sizeof path, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
  tn_status st = rig_init(r, profile);
  if (st == TN_OK) st = rig_open(r, path, 0);
  if (st == TN_OK) st = tn_session_create(r->m, &r->s, &r->err);
  if (st == TN_OK) st = tn_session_keep(r->s, &keep, &r->err);
  if (st == TN_OK) st = step(r, CHUNK);
  for (int i = 0; st == TN_OK && i < 2; i++) st = step(r, 1);
  return st;
}

/* Nodes that the plugin takes; -1: it is not there. */
static int taken(rig *r, const char *plugin) {
  char *json = NULL, key[80];
  int n = -1;
  snprintf(key, sizeof key, "\"%s\"", plugin);
  if (r->m && tn_model_report(r->m, TN_REPORT_CHECK, &json, &r->err) == TN_OK) n = strstr(json, key) != NULL;
  tn_free(json);
  return n;
}

static void empty(const char *dir) {
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (e->d_name[0] != '.') unlink(path);
  }
  if (d) closedir(d);
  rmdir(dir);
}

/* 0, 1 or 77. */
static int cycles_of(const char *plugin, const char *profile, int cycles) {
  held middle = {0}, end = {0};
  for (int i = 0; i < cycles; i++) {
    rig r;
    tn_status st = cycle(&r, profile);
    if (i == 0 && st == TN_E_UNAVAILABLE) {
      printf("%s: %s\n", plugin, r.err.message);
      rig_finish(&r);
      return 77;
    }
    if (st != TN_OK || (i == 0 && taken(&r, plugin) != 1)) {
      printf("%s, cycle %d: %s (%d) %s\n", plugin, i, tn_status_name(st), st,
             st == TN_OK ? "it takes no node" : r.err.message);
      rig_finish(&r);
      return 1;
    }
    rig_finish(&r);
    if (i == cycles / 2 - 1) middle = measure();
    if (i == cycles - 1) end = measure();
  }
  printf("%s: after %d and %d times: heap %zu, %zu bytes; files %d, %d; threads %d, %d; mappings %d, %d\n", plugin,
         cycles / 2, cycles, middle.heap, end.heap, middle.files, end.files, middle.threads, end.threads, middle.maps,
         end.maps);
  return end.heap > middle.heap || end.files > middle.files || end.threads > middle.threads || end.maps > middle.maps;
}

int main(int argc, char **argv) {
  char profile[1024];
  if (argc < 3) return 2;
  const int cycles = argc > 3 ? atoi(argv[3]) : 100;
  char dir[] = "/tmp/tenon-life-XXXXXX"; /* packed once */
  if (!mkdtemp(dir)) return 2;
  const bool is_host = strcmp(argv[1], "host") == 0;
  snprintf(profile, sizeof profile,
           "plugins:\n  - name: %s\n    options: {%s}\n%sthreads: 1\nmax_seq: 64\ncache: {dir: %s}\n", argv[1],
           argc > 4 ? argv[4] : "", is_host ? "" : "  - name: host\n", dir);
  if (setenv("TENON_TEST_PLUGINS", argv[2], 1) != 0) return 2;
  const int rc = cycles_of(argv[1], profile, cycles);
  empty(dir);
  return rc;
}
