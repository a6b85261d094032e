/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

void bench_test_name(const bench_test *t, char *out, size_t room) {
  const int n = snprintf(out, room, "%s%d", t->decode ? "tg" : "pp", t->n);
  if (t->depth && n > 0 && (size_t)n < room) snprintf(out + n, room - (size_t)n, " @ d%d", t->depth);
}

bool bench_row_add(bench_row *r, double rate) {
  double *grown = realloc(r->rate, (r->n + 1) * sizeof *grown);
  if (!grown) return false;
  r->rate = grown;
  r->least = r->n && r->least < rate ? r->least : rate;
  r->most = r->n && r->most > rate ? r->most : rate;
  grown[r->n++] = rate;
  return true;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_row_median(const bench_row *r) {
  double *sorted = malloc((r->n ? r->n : 1) * sizeof *sorted), v = 0;
  if (!sorted) return 0;
  memcpy(sorted, r->rate, r->n * sizeof *sorted);
  qsort(sorted, r->n, sizeof *sorted, by_value);
  if (r->n) v = (sorted[(r->n - 1) / 2] + sorted[r->n / 2]) / 2;
  free(sorted);
  return v;
}

static int peer_fails(cli *c, const char *command, const char *what) {
  return cli_fail(c, cli_error(&c->err, TN_E_IO, "--peer", "'%s' %s", command, what));
}

/* Of the object that measured this test: llama-bench writes one for each of prompt and generation. */
static json_t *object_of(json_t *list, const bench_test *t) {
  size_t i;
  json_t *o;
  json_array_foreach(list, i, o) {
    if (json_integer_value(json_object_get(o, t->decode ? "n_gen" : "n_prompt")) == t->n) return o;
  }
  return NULL;
}

int bench_peer(cli *c, const char *command, const bench_test *t, bench_row *r) {
  char depth[32] = "", *line = NULL;
  if (t->depth) snprintf(depth, sizeof depth, " -d %d", t->depth);
  if (asprintf(&line, "%s -p %d -n %d%s -r 1 -o json", command, t->decode ? 0 : t->n, t->decode ? t->n : 0, depth) < 0)
    return cli_fail(c, TN_E_NO_MEMORY);
  FILE *f = popen(line, "r");
  free(line);
  if (!f) return peer_fails(c, command, "could not be started");
  size_t n = 0;
  char *text = cli_read_stream(f, &n);
  const int status = pclose(f);
  if (!text) return cli_fail(c, TN_E_NO_MEMORY);
  json_t *list = json_loadb(text, n, JSON_DISABLE_EOF_CHECK, NULL);
  free(text);
  json_t *o = object_of(list, t), *samples = json_object_get(o, "samples_ts");
  const double rate =
      json_number_value(json_array_size(samples) ? json_array_get(samples, 0) : json_object_get(o, "avg_ts"));
  const char *label = json_string_value(json_object_get(o, "model_type"));
  if (label) snprintf(r->label, sizeof r->label, "%s", label);
  json_decref(list);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) return peer_fails(c, command, "ended with an error");
  if (rate <= 0) return peer_fails(c, command, "printed no JSON with the test's samples_ts or avg_ts");
  return bench_row_add(r, rate) ? 0 : cli_fail(c, TN_E_NO_MEMORY);
}

static void processor_name(char *out, size_t room) {
  static const char *const keys[] = {"model name", "Hardware", "CPU implementer"};
  char line[512];
  FILE *f = fopen("/proc/cpuinfo", "r");
  snprintf(out, room, "unknown");
  while (f && fgets(line, sizeof line, f))
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
      char *value = strchr(line, ':');
      if (strncmp(line, keys[i], strlen(keys[i])) != 0 || !value || strcmp(out, "unknown") != 0) continue;
      value[strcspn(value, "\n")] = 0;
      snprintf(out, room, "%s", value + 1 + strspn(value + 1, " "));
    }
  if (f) fclose(f);
}

json_t *bench_machine(void) {
  char cpu[256];
  struct utsname u;
  processor_name(cpu, sizeof cpu);
  const json_int_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (uname(&u) != 0) memset(&u, 0, sizeof u);
  return json_pack("{s:s, s:s, s:s, s:I, s:I}", "cpu", cpu, "arch", u.machine, "kernel", u.release, "processors",
                   (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "memory_bytes", pages * page);
}

void bench_progress(const char *fmt, ...) {
  if (!isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\r%*s\r", 60, "");
  if (!fmt) return;
  va_list ap;
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fflush(stderr);
}
