/* SPDX-License-Identifier: Apache-2.0
 *
 * What the packing tests share: a made-up weight format, a model of a few matrices in a file, and checks.
 */
#ifndef TENON_TEST_PACK_FIXTURE_H
#define TENON_TEST_PACK_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/pack/store.h"

enum { FX_ITEMS = 6, FX_PARTS = 7 };

/* The format: a 64-byte head with a checksum of the rows (written by end), then one byte per element, rounded up to 8
 * rows. params[0] is mixed into every byte. */
extern const tn_format fx_format;
/* The same, one version later. */
extern const tn_format fx_format2;
/* Counters of the format and of the weights' rows(), and faults to inject into the format. */
typedef struct fx_counts {
  _Atomic long begins, rows, ends, abandons, source_rows;
  _Atomic int fail_rows, fail_begin; /* a status, or TN_OK */
  _Atomic long cancel_after;         /* > 0: sets *cancel at that call of rows */
  volatile int32_t *cancel;
} fx_counts;
extern fx_counts fx_count;
void fx_reset_counts(void);

typedef struct fx_model {
  char dir[256]; /* holds weights.bin and cache/ */
  char cache[300];
  char file[300];
  int64_t ctime_ns; /* what the next fx_model_stat says: the real one cannot be set */
  uint8_t *bytes;   /* weights.bin, mapped */
  uint64_t n_bytes;
  tn_weight parts[FX_PARTS], joined, *whole[FX_ITEMS];
  const tn_weight *part_list[FX_PARTS];
  tni_pack_source sources[FX_PARTS];
  tni_pack_item items[FX_ITEMS];
  const tni_pack_item *list[FX_ITEMS];
  int64_t params[1];
} fx_model;

/* A fresh folder under the temporary one. */
void fx_temp_dir(char *buf, size_t n);
void fx_remove_dir(const char *dir);
/* Writes weights.bin (unless it is there) and maps it. */
void fx_model_init(fx_model *m, const char *dir);
void fx_model_finish(fx_model *m);
/* Takes the file's times again, after it was touched. */
void fx_model_stat(fx_model *m);
void fx_model_param(fx_model *m, int64_t p);

/* Opens all items (n: the first n) into m->cache. */
tn_status fx_open(const fx_model *m, uint32_t n, tni_pool *pool, tni_pack_store **out);
tni_pack_opts fx_opts(const fx_model *m, tni_pool *pool);
/* All blobs of the first n items hold exactly what the format gives on one thread. */
bool fx_right(const fx_model *m, uint32_t n, const tni_pack_store *s);
/* The one *.tnpack of a folder. false: not exactly one. */
bool fx_pack_file(const char *dir, char *path, size_t n);
/* How many names in dir contain this. */
int fx_names(const char *dir, const char *part);
/* Lines of the log that held this text since the last call to fx_log_clear. */
int fx_logged(const char *text);
void fx_log_clear(void);

void test_basic_suite(void);
void test_damage_suite(void);
void test_cache_suite(void);
void test_crash_suite(void);
void test_keep_suite(void);
int test_crash_child(int argc, char **argv);

#endif
