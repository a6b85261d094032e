/* SPDX-License-Identifier: Apache-2.0
 *
 * All misbehaving plugins, one after another, each under the protection of its class, in one process that generates
 * text meanwhile: `corpus [--table] [NAME...]`. At the end the text is still what it was. --table prints
 * docs/security.md's table.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "runtime/plugin/procstate.h"

static bool judge(const kind *k, const outcome *o) {
  if (k->by == BY_NOTHING) return true;
  if (strcmp(k->name, "good") == 0) return o->right && o->taken && !o->message[0];
  if (!*k->says) return o->right;
  if (k->by == BY_PROCESS && !o->right) return false; /* the text goes on with the next plugin */
  if (k->by == BY_MANIFEST && strcmp(o->stage, "manifest") != 0) return false;
  if (k->by == BY_PROBE && strcmp(o->stage, "probe") != 0) return false;
  return strstr(o->message, k->says) != NULL;
}

static void print_row(const kind *k, const outcome *o) {
  char text[200];
  size_t n = 0;
  const char *m = o->message;
  /* Addresses of this run do not belong into a page. */
  for (; *m && n < sizeof text - 1; m++) {
    if (strncmp(m, "0x", 2) == 0) {
      memcpy(text + n, "0x...", sizeof "0x..." - 1 < sizeof text - 1 - n ? sizeof "0x..." - 1 : 0);
      n += sizeof "0x..." - 1 < sizeof text - 1 - n ? sizeof "0x..." - 1 : 0;
      m += 1 + strspn(m + 2, "0123456789abcdef");
    } else if (*m != '|') {
      text[n++] = *m;
    }
  }
  text[n] = '\0';
  printf("| %s | %s | %s | %s |\n", k->name, k->what, protection_name(k->by),
         text[0]    ? text
         : o->right ? "the result is right all the same"
                    : "nothing");
}

static int try_all(const places *p, int argc, char **argv, bool table) {
  int bad = 0;
  if (table) printf("| kind | what it does | stopped by | what is reported |\n|---|---|---|---|\n");
  for (size_t i = 0; i < n_kinds; i++) {
    const kind *k = &kinds[i];
    outcome o;
    bool wanted = argc == 0;
    for (int a = 0; a < argc; a++) wanted = wanted || strcmp(argv[a], k->name) == 0;
    if (!wanted) continue;
    try_kind(p, k, k->by, &o);
    const bool ok = judge(k, &o);
    if (table) print_row(k, &o);
    fprintf(table ? stderr : stdout, "%-6s %-26s %6.0f ms  %s: %s%s\n", ok ? "ok" : "FAILED", k->name, o.ms, o.stage,
            o.message, o.right ? " [right]" : "");
    bad += !ok;
  }
  return bad;
}

int main(int argc, char **argv) {
  places p = {.plugins = getenv("TENON_FAULT_CORPUS"),
              .engine = getenv("TENON_TEST_PLUGINS"),
              .helper = getenv("TENON_FAULT_HELPER")};
  const char *source = getenv("TENON_TEST_SOURCE");
  char work[] = "/tmp/tenon-corpus-XXXXXX", demo[600], what[160], path[600];
  const bool table = argc > 1 && strcmp(argv[1], "--table") == 0;
  if (!p.plugins || !p.engine || !p.helper || !source || !mkdtemp(work)) return 2;
  p.work = work;
  setlocale(LC_ALL, "C");
  setvbuf(stdout, NULL, _IOLBF, 0);
  snprintf(demo, sizeof demo, "%s/models/demo", source);
  tn_error err;
  tn_error_init(&err);
  tni_procstate *before = tni_procstate_take();
  writer *w = writer_start(demo, &err);
  if (!w || !write_model(&p)) {
    fprintf(stderr, "corpus: %s\n", err.message);
    return 1;
  }
  int bad = try_all(&p, argc - 1 - table, argv + 1 + table, table), rounds, wrong;
  writer_stop(w, &rounds, &wrong);
  tni_procstate *now = tni_procstate_take();
  if (tni_procstate_differs(before, now, NULL, true, what, sizeof what)) {
    fprintf(stderr, "FAILED: the host %s\n", what);
    bad++;
  }
  tni_procstate_destroy(before);
  tni_procstate_destroy(now);
  fprintf(stderr, "%d rounds of text meanwhile, %d wrong\n", rounds, wrong);
  snprintf(path, sizeof path, "rm -rf %s", work);
  if (system(path) != 0) bad++;
  return bad || wrong || !rounds;
}
