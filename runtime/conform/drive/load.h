/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin under test, step by step: file, entry, options, enumerate, open. And the kit's own host: the runtime's
 * services (runtime/plugin/services.h) with counters and faults in between.
 *
 * Memory of a tni_cf_plugin is the caller's; it must not move while the plugin lives. Any number may be open at once:
 * two of them are two hosts in one process.
 */
#ifndef TENON_CONFORM_DRIVE_LOAD_H
#define TENON_CONFORM_DRIVE_LOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/conform/case/case.h"
#include "runtime/plugin/plugin.h"

enum { TNI_CF_MAX_DEVICES = 16 };

/* The plugin's tn_host_ctx. */
typedef struct tni_cf_services {
  tn_host pub; /* what the plugin gets: may be changed before entry (size, versions, NULL functions) */
  tn_host_ctx *services;
  const tn_host *base;      /* of the services */
  atomic_llong live, total; /* blocks out now; allocations so far */
  atomic_llong fail_at;     /* the allocation of that number (1: the first) fails, once; 0: none */
  atomic_llong fail_from;   /* every allocation from that number on fails; 0: none */
  atomic_int failed;        /* how many did */
  atomic_int cancel;        /* what cancelled answers */
  bool exact;               /* blocks that fill whole pages lie between pages that may not be touched */
  bool huge;                /* blocks of 64 MiB and more are address space, without memory until they are touched */
  bool closed;              /* blocks lie between pages, and those that were given back may not be touched */
  pthread_mutex_t lock;
  struct tni_cf_exact *exacts;      /* those that are out */
  atomic_llong polls, cancel_after; /* cancelled: asked so often; yes from that poll on; 0: as `cancel` says */
} tni_cf_services;

typedef struct tni_cf_plugin {
  tni_cf_services host;
  tn_entry_v1 entry;
  tn_negotiate neg;
  uint16_t host_max; /* the latest minor that the host knows */
  tn_plugin *plugin;
  const tn_caps *caps[TNI_CF_MAX_DEVICES];
  uint32_t n_caps;
  tn_device *device;
  tn_error err;     /* of the step that failed */
  const char *step; /* its name */
} tni_cf_plugin;

/* The steps, each on what the one before left; p->err and p->step say what failed. */
TN_MUST_CHECK tn_status tni_cf_plugin_init(tni_cf_plugin *p, const tni_cf_subject *s);  /* file and host */
TN_MUST_CHECK tn_status tni_cf_plugin_enter(tni_cf_plugin *p);                          /* entry */
TN_MUST_CHECK tn_status tni_cf_plugin_check(tni_cf_plugin *p, const tni_cf_subject *s); /* its table; options */
TN_MUST_CHECK tn_status tni_cf_plugin_enumerate(tni_cf_plugin *p);
TN_MUST_CHECK tn_status tni_cf_plugin_open(tni_cf_plugin *p, uint32_t index);
/* What is open is closed, in order. */
void tni_cf_plugin_finish(tni_cf_plugin *p);

/* From here on calls of the host's services are counted, and number `at` fails, in whatever plugin of the process: of
 * DIMS eval and range, of FILES option, resource, cache_get, cache_put and offsets. */
enum { TNI_CF_FAULT_DIMS = 1, TNI_CF_FAULT_FILES = 2 };
void tni_cf_fault_begin(uint32_t which, long long at);
long long tni_cf_fault_count(void);
/* None fails any more; how many there were. */
long long tni_cf_fault_end(void);

/* Blobs that hosts of the process keep in memory, in place of the cache's folder. */
typedef struct tni_cf_blobs {
  struct tni_cf_kept *first, *lent;
  long long puts, hits, found; /* found: since hold */
  /* 0: none; of what is found 1: a bit in the middle is another, 2: half is missing, 3, 4: a bit at the ends, 5: the last byte
   * is missing, 6, 7: a bit in the first or last quarter. Of each `every` that are found the one that comes as number `turn` is
   * spoiled, so that not all is compiled anew; 0: each. */
  uint32_t spoil, every, turn;
} tni_cf_blobs;
/* From here on cache_put and cache_get are those of b; NULL: of the host again. */
void tni_cf_blobs_hold(tni_cf_blobs *b);
/* Once the plugins that were given of it are shut down. */
void tni_cf_blobs_free(tni_cf_blobs *b);

/* A tn_error of a later minor, which is longer. */
typedef struct tni_cf_long_error {
  tn_error error;
  uint8_t more[64];
} tni_cf_long_error;
void tni_cf_long_error_init(tni_cf_long_error *e);
/* Whether its header and what comes after the fields of today are as they were; a finding where they are not. */
void tni_cf_long_error_look(tni_cf *cf, const tni_cf_long_error *e, const char *call);

/* All steps for a case: true with a device open. false: the case has failed with the step's name and text, or is
 * skipped where the plugin says that it has no device here (enumerate gave none). */
bool tni_cf_start(tni_cf *cf, tni_cf_plugin *p);
/* Closes; blocks that the plugin did not give back are a finding. */
void tni_cf_stop(tni_cf *cf, tni_cf_plugin *p);

#endif
