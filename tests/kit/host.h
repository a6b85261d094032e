/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake host of tests that call a plugin's functions themselves: every service of tn_host, memory that is counted
 * and may fail, a cache, a pool, tickets. A suite that needs another service puts it over kit_host.host after
 * kit_host_init; graphs bring their own expressions (exprs.h has a table of them).
 */
#ifndef TENON_TESTS_KIT_HOST_H
#define TENON_TESTS_KIT_HOST_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* A submitted item: what done() said, and how often. */
struct tn_ticket {
  tn_status st;
  uint32_t done;
  tn_times times;
  tn_error err;
};

/* The host's cache of blobs; the test owns it. It keeps the first KIT_CACHED keys. */
enum { KIT_CACHED = 8 };
typedef struct kit_cache {
  struct {
    uint8_t *key, *data;
    uint64_t n_key, n_data;
  } entry[KIT_CACHED];
  uint32_t n, puts;
} kit_cache;
void kit_cache_free(kit_cache *c);
/* to: empty, or what is freed. */
void kit_cache_copy(kit_cache *to, const kit_cache *from);

typedef struct kit_host {
  tn_host host;                 /* first: host.ctx points here */
  int64_t live, total, fail_at; /* blocks outstanding and asked for; the n-th from now fails (1-based), 0: none */
  char line[512];               /* the last one logged */
  kit_cache *cache;             /* NULL: keeps nothing */
  int threads;                  /* of parallel_for; 0: inline */
  bool backwards;               /* parallel_for inline in three pieces, the last first, as if by three workers */
  int32_t cancel_after;         /* polls of a run until it is cancelled; 0: never */
  int64_t polls;
} kit_host;

/* Zeroes h but for what a caller sets before: cache, threads, backwards, cancel_after. */
void kit_host_init(kit_host *h, uint32_t max_workers);
/* A run lent by h. */
tn_run kit_host_run(kit_host *h);
/* Loads (the file stays loaded), enters, enumerates: one device. False: err, or what the loader said is printed. */
bool kit_host_load(kit_host *h, const char *so, tn_plugin **plugin, tn_error *err);

#endif
