/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend's own structs: plugin, device, buffers. Programs, plans and args are in program.h.
 */
#ifndef TENON_NPU_INT8_DEVICE_H
#define TENON_NPU_INT8_DEVICE_H

#include <stdbool.h>
#include <tenon/plugin.h>

#include "plugins/common/base/base.h"
#include "plugins/npu-int8-sim/sim/sim.h"

#define TNI_NPU_NAME "npu-int8-sim"
enum { TNI_NPU_TILE = 32, TNI_NPU_ALIGN = 128, TNI_NPU_ENGINE = 1, TNI_NPU_MAX_PIECES = 8 };

enum { TNI_NPU_SHADOW_NONE = 0, TNI_NPU_SHADOW_PRUNED = 1, TNI_NPU_SHADOW_ALL = 2 };

/* The options, as the profile of the device set them. */
typedef struct tni_npu_settings {
  const npusim_profile *profile;
  int64_t chunk;                       /* rows of every product */
  int64_t lengths[TNI_NPU_MAX_PIECES]; /* [n_lengths] of a piece of a prompt: multiples of chunk */
  uint32_t n_lengths;
  uint32_t shadow; /* TNI_NPU_SHADOW_* */
  bool wake;
  bool one_ffn; /* gate, up and down in one graph where they have no shadow */
  double hot;   /* part of all outliers whose weight rows stay in memory */
  double prune; /* part of the products that run without shadow where shadow is pruned */
  uint64_t window_bytes;
  npusim_faults faults;
} tni_npu_settings;

typedef struct tni_npu_plugin {
  tn_plugin pub; /* first */
  tni_cm_mem mem;
  const tn_host *host;
  uint16_t minor; /* as agreed */
  tn_engine engine;
  const tn_engine *engines[1];
  tn_clock clock;
  tn_caps caps; /* clock and window are the opened device's */
} tni_npu_plugin;

typedef struct tni_npu_device {
  tn_device pub; /* first */
  tni_cm_mem mem;
  const tn_host *host;
  tn_clock clock;
  tn_caps caps;
  tni_npu_settings set;
  npusim *sim;
} tni_npu_device;

/* Memory that the simulator has registered; the CPU maps it on first use. */
typedef struct tni_npu_buffer {
  tn_buffer pub; /* first */
  int fd;
  uint32_t handle;
  uint64_t offset; /* of byte 0 in fd */
  void *map;       /* whole pages around it, or NULL */
  uint64_t map_bytes;
  uint8_t *base; /* byte 0 */
} tni_npu_buffer;

tn_status tni_npu_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out);
/* Options of a device that is being opened (options.c). */
TN_MUST_CHECK tn_status tni_npu_read_options(const tn_host *h, tni_npu_settings *set, tn_error *err);
extern const tn_option *const tni_npu_options[];
extern const uint32_t tni_npu_n_options;
/* A failure of the simulator as one of ours. */
TN_MUST_CHECK tn_status tni_npu_fail(tn_error *err, int rc, const char *where, const char *what);

/* The device's functions, one file each group. */
tn_status tni_npu_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
tn_status tni_npu_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
const tn_program_info *tni_npu_info(const tn_program *p);
tn_status tni_npu_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status tni_npu_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
void tni_npu_release(tn_program *p);
tn_status tni_npu_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void tni_npu_unbind(tn_plan *plan);
tn_status tni_npu_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status tni_npu_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void tni_npu_args_free(tn_args *a);
tn_status tni_npu_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err);
tn_status tni_npu_submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                         tn_error *err);
tn_status tni_npu_create(tn_device *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err);
tn_status tni_npu_share(tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err);
void tni_npu_destroy(tn_buffer *b);
tn_status tni_npu_map(tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr, tn_error *err);
tn_status tni_npu_unmap(tn_buffer *b, void *ptr, tn_error *err);

#endif
