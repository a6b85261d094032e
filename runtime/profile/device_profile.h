/* SPDX-License-Identifier: Apache-2.0
 *
 * Device profiles: YAML -> struct. An unknown key, a wrong type or a value out of range is TN_E_INVALID with
 * file:line:column in err->where.
 *
 *   plugins:                 # ordered by preference; "host" may be named, and is always there at the end
 *     - cpu-avx2-lut
 *     - name: cpu-neon-lut
 *       options: {group: 32}
 *       probe: isolated      # or inprocess: whether it is first loaded in a child (docs/security.md). Not said:
 * isolated # outside the installed folder phases: {prefill: [npu-int8-sim, host], decode: [cpu-avx2-lut]}   # optional;
 * names of `plugins`, in order require: [cpu-avx2-lut]  # these must load and take at least one node, and no
 * MatMul/Gemm with constant weights may # fall back to the host threads: 0               # 0: all processors that the
 * process may use cpus: [0, 2-3]           # processors that the pool's threads run on; threads 0: as many as these
 *   max_seq: 2048            # upper bound of context
 *   prefill_chunk: 512       # most positions that one step of a prompt computes; 0: the whole prompt at once. A plugin
 *                            # that takes prompts in pieces of one length only decides it; saying another is an error
 *   chunks_in_flight: 0      # pieces of a prompt that such a plugin may work on at once; 0: all there are
 *   memory: 512M             # what those may take together (four may always be in flight); 0: not limited
 *   bucket: 0                # lengths of the context are rounded up to a multiple; 0: nothing changes with the length
 *   plugin_path: [dir, ...]  # searched before the built-in path; relative to the profile's file
 *   cache: {dir: PATH, max_bytes: 8G}
 *   load: {max_bytes: 8G, max_steps: 100000000000}   # what loading a model may take; not said: by its size
 *   isolation: none          # or process: every plugin in a process of its own (docs/isolation.md); or strict: so, and
 *                            # none that is confined less; `isolation` in a plugin's entry is for that plugin
 *   checked: false
 *   probe_timeout_ms: 30000  # a plugin that does not come back from a probe for so long hangs; the
 *                            # probing program's own start is not counted
 *   timeout_ms: 60000        # an engine that completes nothing for so long is lost; where it is stated, a run in this
 *                            # process too (docs/isolation.md)
 *   watch: 16                # results are looked at for NaN and infinities that a plugin is to blame for: the last row
 *                            # of outputs in each step, one task every so many steps; 0: not at all
 *   priority: normal         # a wish to engines: low, normal, high (tn_item.priority)
 *   power: none              # a wish to devices while there are sessions: none, save, balanced, sustained, burst
 *                            # (tenon/power.h)
 *   kv: f32                  # what caches are kept as: f32, f16, bf16, int8 or int4 (quantized by row and head);
 * devices that # do not take it keep theirs. Not said: what devices ask for, else the model's own kv_ring: true     #
 * caches whose readers look back a fixed window keep only what that needs embeddings: source       # or packed: rows of
 * an embedding come from the weight that a plugin packs for the product # with the same table (tied embeddings), where
 * there is one map: shared              # or copy: the model's files and packed weights are copied into memory when
 * they are loaded, so # that nothing that happens to the files later is seen calibration: FILE        # statistics of
 * activations (docs/calibration.md), of the model that is run; ${model}/FILE: # in its folder
 *
 * Paths are relative to the profile's folder and come out absolute. A phase that `phases` leaves out gets `plugins` in
 * their order. Limits: 64 plugins, 64 options each, 64 folders; threads 0..1024; max_seq, prefill_chunk 0..2^31-1;
 * chunks_in_flight 0..64; bucket 0..65536; watch 0..1000000; timeout_ms and probe_timeout_ms 1..3600000. Sizes: 512M, 8G. A profile is
 * immutable; any thread.
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
