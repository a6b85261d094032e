/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs conformance cases one way and says for each: passed, skipped with the reason, or failed.
 *
 *   conformance [--way run|kernels] [--skips FILE] [--junit FILE] [--shard I/N] [--passed FILE] [-v] --root ROOT
 *               [--atol A] [FILTER]
 *
 * ROOT has folders of kinds with folders of cases. A case that the list of skips does not name fails where it does not
 * pass; one that the list names is run too, and fails where it passes: the line is to go. A line that names no case
 * fails as well; so does one that brings the process down, listed or not. --passed writes the names of the cases that
 * passed. FILTER: a part of "KIND/NAME".
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/conformance/case.h"
#include "tests/conformance/junit.h"
#include "tests/conformance/skips.h"

enum { MAX_CASES = 20000, CRASHED = FAILED + 1 };

typedef struct listing {
  char *name[MAX_CASES]; /* "KIND/NAME" */
  uint32_t n;
} listing;

typedef struct suite {
  const way *way;
  const char *root, *skip_file, *junit_file, *passed_file, *filter;
  uint32_t shard, shards, passed, skipped, failed;
  bool verbose;
  double atol;
  skips list;
  FILE *junit, *names;
} suite;

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void list_kind(listing *l, const char *root, const char *kind) {
  char path[CASE_PATH], name[512];
  snprintf(path, sizeof path, "%s/%s", root, kind);
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d)) && l->n < MAX_CASES;) {
    char model[CASE_PATH + 300];
    snprintf(model, sizeof model, "%s/%s/model.onnx", path, e->d_name);
    if (e->d_name[0] == '.' || access(model, R_OK)) continue;
    snprintf(name, sizeof name, "%s/%s", kind, e->d_name);
    l->name[l->n] = strdup(name);
    l->n += l->name[l->n] != NULL;
  }
  if (d) closedir(d);
}

static void list_all(listing *l, const char *root) {
  DIR *d = opendir(root);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') list_kind(l, root, e->d_name);
  if (d) closedir(d);
  if (l->n) qsort(l->name, l->n, sizeof *l->name, by_name);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void report(suite *s, const char *name, double time, junit_result r, const char *why) {
  static const char *const words[] = {"pass", "skip", "FAIL"};
  char kind[CASE_PATH];
  const char *slash = strchr(name, '/');
  *(r == JUNIT_PASSED ? &s->passed : r == JUNIT_SKIPPED ? &s->skipped : &s->failed) += 1;
  if (r == JUNIT_FAILED || s->verbose) printf("%s %s%s%s\n", words[r], name, why[0] ? ": " : "", why);
  snprintf(kind, sizeof kind, "%.*s", (int)(slash ? slash - name : 0), name);
  junit_case(s->junit, kind, slash ? slash + 1 : name, time, r, why);
  if (s->names && r == JUNIT_PASSED) fprintf(s->names, "%s\n", name);
}

/* What the runs are told: a process runs one case after the other until it is through or dies. */
typedef struct result {
  uint32_t index, verdict;
  double time;
  char why[320];
} result;

static result run_case(const suite *s, void *state, const char *name, uint32_t index) {
  test_case c = {.rtol = 1e-3, .atol = s->atol, .arena = tni_arena_create()};
  result r = {.index = index, .verdict = FAILED};
  tni_error_init(&c.err);
  snprintf(c.dir, sizeof c.dir, "%s/%s", s->root, name);
  case_read_tolerance(&c);
  const double start = seconds();
  if (c.arena) r.verdict = s->way->run(state, &c);
  r.time = seconds() - start;
  memcpy(r.why, c.why, sizeof r.why);
  tni_arena_destroy(c.arena);
  return r;
}

static void judge(suite *s, const char *name, const result *r) {
  const skip *k = skips_find(&s->list, name, s->way->name);
  char why[700];
  if (r->verdict == PASSED && k) {
    snprintf(why, sizeof why, "it passes: take it out of line %u of the skips", k->line);
    report(s, name, r->time, JUNIT_FAILED, why);
    if (s->names) fprintf(s->names, "%s\n", name);
  } else if (r->verdict == PASSED) {
    report(s, name, r->time, JUNIT_PASSED, "");
  } else if (k && r->verdict != CRASHED) {
    snprintf(why, sizeof why, "%s (%s)", k->reason, r->why);
    report(s, name, r->time, JUNIT_SKIPPED, why);
  } else {
    snprintf(why, sizeof why, "%s%s", r->verdict == REFUSED ? "not run, and not among the skips: " : "", r->why);
    report(s, name, r->time, JUNIT_FAILED, why);
  }
}

static bool chosen(const suite *s, const listing *l, uint32_t i) {
  return i % s->shards == s->shard && (!s->filter || strstr(l->name[i], s->filter));
}

/* The child: exits 0 when all cases from `first` on are told. */
static void child(const suite *s, const listing *l, uint32_t first, int to) {
  void *state = s->way->open();
  bool ok = state != NULL;
  for (uint32_t i = first; ok && i < l->n; i++) {
    if (!chosen(s, l, i)) continue;
    const result r = run_case(s, state, l->name[i], i);
    ok = write(to, &r, sizeof r) == sizeof r;
  }
  if (state) s->way->close(state);
  exit(ok ? 0 : 2);
}

static uint32_t next_case(const suite *s, const listing *l, uint32_t i) {
  while (i < l->n && !chosen(s, l, i)) i++;
  return i;
}

/* Runs the cases from `first` on in a process of their own; returns the first one that is still to be run. A case that
 * brings the process down failed. */
static uint32_t run_from(suite *s, const listing *l, uint32_t first) {
  int fd[2], status = 0;
  result r;
  if (pipe(fd)) return UINT32_MAX;
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    close(fd[0]);
    child(s, l, first, fd[1]);
  }
  close(fd[1]);
  while (pid > 0 && read(fd[0], &r, sizeof r) == sizeof r) {
    judge(s, l->name[r.index], &r);
    first = next_case(s, l, r.index + 1);
  }
  close(fd[0]);
  if (pid < 0 || waitpid(pid, &status, 0) < 0) return UINT32_MAX;
  if (first < l->n) {
    r = (result){.verdict = CRASHED};
    snprintf(r.why, sizeof r.why, "it brought the process down (%s %d)", WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    judge(s, l->name[first], &r);
    return next_case(s, l, first + 1);
  }
  if (status) {
    printf("FAIL the process that ran the cases ended with status %x\n", (unsigned)status);
    s->failed++;
  }
  return first;
}

/* A line that names no case of the listing says nothing: only a whole run can tell. */
static void check_lines(suite *s, const listing *l) {
  for (uint32_t i = 0; i < l->n; i++) {
    skip *k = skips_find(&s->list, l->name[i], s->way->name);
    if (k) k->matched++;
  }
  for (uint32_t i = 0; i < s->list.n; i++) {
    const skip *k = &s->list.at[i];
    if (k->matched || (strcmp(k->way, "all") && strcmp(k->way, s->way->name))) continue;
    printf("FAIL line %u of the skips (%s) names no case that a line above does not\n", k->line, k->pattern);
    s->failed++;
  }
}

static void print_reasons(const suite *s) {
  for (uint32_t i = 0; i < s->list.n; i++) {
    uint32_t n = 0;
    bool first = true;
    for (uint32_t k = 0; k < s->list.n; k++)
      if (!strcmp(s->list.at[k].reason, s->list.at[i].reason)) {
        n += s->list.at[k].matched;
        first = first && k >= i;
      }
    if (first && n) printf("listed %4u: %s\n", n, s->list.at[i].reason);
  }
}

static bool parse(suite *s, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(a, "-v")) {
      s->verbose = true;
      continue;
    }
    if (a[0] != '-') {
      s->filter = a;
      continue;
    }
    if (!value) return false;
    i++;
    if (!strcmp(a, "--way"))
      s->way = !strcmp(value, "kernels") ? &way_kernels : !strcmp(value, "run") ? &way_run : NULL;
    else if (!strcmp(a, "--root"))
      s->root = value;
    else if (!strcmp(a, "--atol"))
      s->atol = strtod(value, NULL);
    else if (!strcmp(a, "--skips"))
      s->skip_file = value;
    else if (!strcmp(a, "--junit"))
      s->junit_file = value;
    else if (!strcmp(a, "--passed"))
      s->passed_file = value;
    else if (strcmp(a, "--shard") || sscanf(value, "%u/%u", &s->shard, &s->shards) != 2 || !s->shards)
      return false;
  }
  return s->root && s->way && s->shard < s->shards;
}

int main(int argc, char **argv) {
  static suite s;
  static listing l;
  s.way = &way_run;
  s.shards = 1;
  s.atol = 1e-7;
  if (!parse(&s, argc, argv)) {
    fprintf(stderr,
            "usage: conformance [--way run|kernels] [--skips FILE] [--junit FILE] [--shard I/N] [--passed FILE] "
            "[--atol A] [-v] --root ROOT [FILTER]\n");
    return 2;
  }
  if (s.skip_file && !skips_read(&s.list, s.skip_file)) return 2;
  list_all(&l, s.root);
  if (!l.n) {
    printf("skipped: no cases under %s\n", s.root);
    return 77;
  }
  s.junit = junit_open(s.junit_file, s.way->name);
  s.names = s.passed_file ? fopen(s.passed_file, "w") : NULL;
  if ((s.junit_file && !s.junit) || (s.passed_file && !s.names)) return 2;
  check_lines(&s, &l);
  for (uint32_t i = next_case(&s, &l, 0); i < l.n;) i = run_from(&s, &l, i);
  if (s.shard == 0) print_reasons(&s);
  printf("conformance (%s, part %u of %u): %u passed, %u skipped, %u failed\n", s.way->name, s.shard + 1, s.shards,
         s.passed, s.skipped, s.failed);
  skips_free(&s.list);
  for (uint32_t i = 0; i < l.n; i++) free(l.name[i]);
  if (s.names && fclose(s.names)) return 2;
  return !junit_close(s.junit) || s.failed != 0;
}
