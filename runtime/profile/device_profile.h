/* SPDX-License-Identifier: Apache-2.0
 *
 * Device profiles: YAML -> struct. An unknown key, a wrong type or a value out of range is TN_E_INVALID with
 * file:line:column in err->where. Keys and their defaults: docs/profiles.md.
 *
 * Paths are relative to the profile's folder and come out absolute. A phase that `phases` leaves out gets `plugins` in
 * their order. Limits: 64 plugins, 64 options each, 64 folders; threads 0..1024; max_seq, prefill_chunk 0..2^31-1;
 * chunks_in_flight 0..64; bucket 0..65536; watch 0..1000000; timeout_ms and probe_timeout_ms 1..3600000. Sizes: 512M,
 * 8G. A profile is immutable; any thread.
 */
#ifndef TENON_PROFILE_DEVICE_PROFILE_H
#define TENON_PROFILE_DEVICE_PROFILE_H

#include <sched.h>
#include <stdbool.h>

#include "runtime/base/base.h"

/* One scalar option of a plugin's section, typed later against the plugin's own table. */
#define TNI_BESIDE_MODEL "${model}/"

typedef struct tni_profile_option {
  const char *key, *value; /* YAML scalar text */
  uint32_t line, column;   /* of the key */
  uint32_t value_line, value_column;
  bool quoted;
} tni_profile_option;

enum { TNI_PROBE_UNSAID = 0, TNI_PROBE_ISOLATED = 1, TNI_PROBE_INPROCESS = 2 };

typedef struct tni_profile_plugin {
  const char *name; /* [a-z0-9-], at most 63 */
  const tni_profile_option *options;
  uint32_t n_options, line, column;
  uint32_t probe; /* TNI_PROBE_* */
  bool process;   /* `isolation: process` or `strict`, its own or the profile's; means nothing for the host */
  bool strict;    /* `isolation: strict`: a plugin whose manifest asks for less is refused */
  bool optional;  /* `optional: true`, or in default.yaml: not there or refused is no error, only listed */
} tni_profile_plugin;

typedef struct tni_profile {
  tni_arena *arena;
  const char *name, *file;
  const tni_profile_plugin *plugins;
  uint32_t n_plugins;
  bool has_phases;
  const char *const *prefill, *const *decode, *const *require;
  uint32_t n_prefill, n_decode, n_require;
  uint32_t threads;
  cpu_set_t cpus; /* none: not said */
  bool cpus_big;  /* "big" is said in their place */
  uint32_t cpus_line, cpus_column;
  int64_t max_seq; /* 0: not said */
  int64_t prefill_chunk, bucket;
  bool chunk_said;           /* prefill_chunk stands in the file */
  uint32_t chunks_in_flight; /* 0: as many as there are */
  uint64_t memory;           /* 0: not limited */
  const char *const *plugin_path;
  uint32_t n_plugin_path;
  const char *cache_dir;    /* NULL: not said */
  uint64_t cache_max_bytes; /* 0: not said */
  uint64_t load_max_bytes, load_max_steps; /* 0: not said */
  bool checked, kv_ring, process, strict;
  bool packed_embeddings; /* `embeddings: packed` */
  bool copy_files;        /* `map: copy` */
  int64_t nchwc_block;    /* channels in a block of models that ONNX Runtime saved in them; 0: as their shapes tell */
  uint32_t kv;            /* TN_DT_*; TN_DT_UNDEFINED: not said */
  int64_t timeout_ms, probe_timeout_ms;
  uint32_t priority; /* TN_PRIORITY_* */
  uint32_t power;    /* TN_POWER_*; TN_POWER_NONE: nothing is asked for */
  uint32_t watch;    /* steps from one task that is looked at for NaN to the next; 0: nothing is looked at */
  bool has_timeout; /* it says timeout_ms: that holds for calls of plugins in this process, too */
  const char *calibration; /* NULL: none; TNI_BESIDE_MODEL and a name: in the model's folder */
} tni_profile;

/* file: for messages and relative paths; need not exist. */
TN_MUST_CHECK tn_status tni_profile_parse(const char *text, size_t n, const char *file, tni_profile **out,
                                          tn_error *err);
/* name_or_file: a path if it has a separator or ends in .yaml, else NAME.yaml looked up in dirs (in order; folders that
 * are not there are passed over). A name that is nowhere is TN_E_INVALID with the folders and the nearest name. */
TN_MUST_CHECK tn_status tni_profile_load(const char *name_or_file, const char *const *dirs, uint32_t n_dirs,
                                         tni_profile **out, tn_error *err);
void tni_profile_destroy(tni_profile *p);

/* Whether name may name a plugin or profile: 1 to 63 of [a-z0-9-], first a letter or digit. */
bool tni_name_ok(const char *name);

#endif
