/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "layer.h"

static void line(FILE *f, const char *name, uint64_t value, char end) {
  fprintf(f, "%s %" PRIu64 "%c", name, value, end);
}

FILE *layer_open(const char *path) {
  FILE *f = fopen(path, "we");
  if (f || errno == EACCES) return f;
  fprintf(stderr, "TENON_CL_LAYER: cannot write %s\n", path);
  _Exit(97);
}

void layer_report(FILE *f) {
#define LINE(name) line(f, #name, atomic_load(&L.count.name), '\n');
  TN_LAYER_COUNTERS(LINE)
#undef LINE
}

void layer_at_exit(void) {
  if (L.log) fflush(L.log);
  if (!L.set.report[0]) return;
  FILE *f = layer_open(L.set.report);
  if (!f) return;
  layer_report(f);
  fclose(f);
}

void layer_waited(void) {
  uint64_t n = atomic_exchange(&L.since_wait, 0);
  if (!n) return;
  COUNT(waits, 1);
  if (!L.log) return;
  pthread_mutex_lock(&L.lock);
  fprintf(L.log, "commands %" PRIu64 " ", n);
#define LINE(name) line(L.log, #name, atomic_load(&L.count.name), ' ');
  TN_LAYER_COUNTERS(LINE)
#undef LINE
  fputc('\n', L.log);
  pthread_mutex_unlock(&L.lock);
}
