/* SPDX-License-Identifier: Apache-2.0
 *
 * A CPU backend: what makes one plugin of this code, and the family's own structs. A plugin holds the host and the one
 * device's caps, a device the options (a host can check them only once it has the plugin's table); programs, plans and
 * args are in program.h.
 *
 * A backend whose hardware is another than this one's (another architecture) has no kernels and is OFFLINE: its
 * device claims, lowers, measures and packs, and bind refuses.
 */
#ifndef TENON_COMMON_CPU_BACKEND_H
#define TENON_COMMON_CPU_BACKEND_H

#include <stdbool.h>
#include <tenon/plugin.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/format.h"
#include "plugins/common/cpu/kernels/kernels.h"

/* A value of option `isa`: kernels may use these features. */
typedef struct tni_clt_isa {
  const char *name;
  uint32_t features; /* TNI_CPU_* */
} tni_clt_isa;

/* A value of option `format` that leaves the format to a measurement (choice.h). */
enum { TNI_CLT_MAX_CANDIDATES = 3 };
typedef struct tni_clt_width {
  const char *option; /* "b2" */
  uint32_t n, reserved;
  const tni_clt_format *formats[TNI_CLT_MAX_CANDIDATES]; /* [n]; the first where nothing can be measured */
} tni_clt_width;

/* One plugin; a constant. */
typedef struct tni_clt_backend {
  const char *name, *version, *driver;
  const tni_clt_isa *isas;              /* [n_isas]; the first is "auto": all that the backend has a use for */
  const char *isa_choices;              /* "auto|scalar|.." */
  uint32_t n_isas, needed;              /* TNI_CPU_* without which no device is offered */
  const tni_clt_table *kernels;         /* NULL: offline */
  uint32_t (*usable)(uint32_t);         /* of TNI_CPU_* found those to rely on; NULL: all */
  const tni_clt_format *const *formats; /* [n_formats]; the first is for floats where `format` is auto */
  const char *format_choices;           /* "auto|w4g|lut1|..": auto is the first, and keeps grids */
  uint32_t n_formats, n_widths;
  const tni_clt_width *widths; /* [n_widths] */
  bool averages;               /* kernels of TNI_CLT_AVERAGES: option `fast_aggregation` */
} tni_clt_backend;

typedef struct tni_clt_plugin tni_clt_plugin;

/* The options, as the profile set them. */
typedef struct tni_clt_settings {
  const tni_clt_format *format;
  int64_t params[TNI_CLT_MAX_PARAMS]; /* of the format */
  int64_t min_k, min_n;
  bool act_matmul;
  bool by_row;       /* one scale for a row of x */
  bool keep;         /* grids that the model brings (keep.h); false where the profile names a format */
  uint32_t features; /* TNI_CPU_* that kernels may use: what the CPU has, cut by `isa`; TNI_CLT_AVERAGES, NARROW */
} tni_clt_settings;

enum { TNI_CLT_MAX_OPTIONS = 9, TNI_CLT_MAX_FORMATS = 24 };
/* A format as a plugin lists it: its numerics hang on options. */
typedef struct tni_clt_listed {
  tn_format pub; /* first */
  const tn_format *of;
  const tni_clt_plugin *plugin;
} tni_clt_listed;

struct tni_clt_plugin {
  tn_plugin pub; /* first */
  tni_cm_mem mem;
  const tn_host *host;
  const tni_clt_backend *backend;
  uint32_t cpu; /* TNI_CPU_* found */
  tn_option isa, format;
  const tn_option *options[TNI_CLT_MAX_OPTIONS];
  const tn_format *formats[TNI_CLT_MAX_FORMATS]; /* as the backend's, then grids */
  tni_clt_listed listed[TNI_CLT_MAX_FORMATS];
  tn_caps caps;
};

typedef struct tni_clt_device {
  tn_device pub; /* first */
  tni_cm_mem mem;
  const tn_host *host;
  const tni_clt_backend *backend;
  const tni_clt_plugin *plugin;
  tni_clt_settings set;
  tn_caps caps; /* the plugin's; the driver's name says what was chosen */
  char driver[256];
} tni_clt_device;

/* Why the CPU cannot run this backend; false (text empty) where it can. features as tni_cm_cpu_features gives them. */
bool tni_clt_cpu_refusal(const tni_clt_backend *b, uint32_t features, char *text, size_t n);

/* A plugin's entry is this with its backend. */
tn_status tni_clt_entry(const tni_clt_backend *b, const tn_host *host, tn_negotiate *neg, tn_plugin **out);

/* The device's functions, one file each group. */
tn_status tni_clt_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err);
tn_status tni_clt_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err);
const tn_program_info *tni_clt_info(const tn_program *p);
tn_status tni_clt_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out);
tn_status tni_clt_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err);
void tni_clt_release(tn_program *p);
tn_status tni_clt_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err);
void tni_clt_unbind(tn_plan *plan);
tn_status tni_clt_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err);
tn_status tni_clt_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err);
void tni_clt_args_free(tn_args *a);
tn_status tni_clt_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err);

#endif
