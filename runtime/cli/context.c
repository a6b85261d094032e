/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a context a command takes where --max-seq does not say: as config.json says, as far as memory goes. The
 * statement of `inspect` tells what n positions take; what grows with them is taken to be all of the caches and the
 * arena, so that a cut leaves a little more than is needed.
 */
#include "runtime/cli/cli.h"

enum { STEP = 256 };

typedef struct wanted_context {
  uint64_t grows; /* caches, activations, inputs and outputs: all private memory */
  uint64_t stays; /* weights that are read where they lie */
} wanted_context;

static uint64_t bytes_of(const json_t *memory, const char *key) {
  return (uint64_t)json_integer_value(json_object_get(memory, key));
}

/* False: the model has no statement. */
static bool read_wanted(cli *c, tn_model *m, wanted_context *w) {
  static const char *const growing[] = {"kv_bytes", "arena_bytes", "outputs_bytes", "buffers_bytes"};
  json_t *report = cli_report(c, m, TN_REPORT_INSPECT), *memory = json_object_get(report, "memory");
  const bool known = memory && !json_object_get(memory, "unknown");
  *w = (wanted_context){0};
  for (size_t i = 0; known && i < sizeof growing / sizeof *growing; i++) w->grows += bytes_of(memory, growing[i]);
  const uint64_t packed = bytes_of(memory, "packed_bytes") - bytes_of(memory, "on_disk_bytes");
  w->stays = bytes_of(memory, "weights_bytes") + packed;
  /* Weights that were packed into private memory are not free any more. */
  if (bytes_of(memory, "file_bytes") < w->stays) w->stays -= packed;
  json_decref(report);
  return known;
}

int cli_said_context(cli *c, const char *path, int64_t *positions) {
  const tn_status st = tn_lm_longest(path, positions, &c->err);
  return st == TN_OK ? 0 : cli_fail(c, st);
}

/* Of n, as many as what they take may grow to `room` bytes. */
static int64_t scale(int64_t n, uint64_t grows, uint64_t room) {
  return grows > room ? (int64_t)((double)n * ((double)room / (double)grows)) : n;
}

int64_t cli_fit_context(cli *c, tn_model *m, int64_t n) {
  wanted_context w;
  if (c->max_seq || n <= TN_DEFAULT_MAX_SEQ || !read_wanted(c, m, &w)) return n;
  cli_free f = cli_free_memory("");
  const uint64_t all = f.all - f.all / 16; /* others want some too */
  const int64_t by_own = scale(n, w.grows, f.own - f.own / 16),
                by_all = scale(n, w.grows, all > w.stays ? all - w.stays : 0);
  int64_t fit = by_own < by_all ? by_own : by_all;
  if (fit == n) return n;
  fit -= fit % STEP;
  if (fit < TN_DEFAULT_MAX_SEQ) fit = TN_DEFAULT_MAX_SEQ;
  cli_note(
      "context: cut from %lld positions to %lld: they would take %.1f GB, and %.1f GB are free (--max-seq N "
      "overrides)",
      (long long)n, (long long)fit, (double)(w.grows + w.stays) / 1e9, (double)(f.own < f.all ? f.own : f.all) / 1e9);
  return fit;
}
