/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/program.h"

#include <string.h>

#include "plugins/common/base/entry.h"
#include "plugins/common/base/mem.h"

void tni_cm_graph_head(tn_graph *mine, const tn_graph *theirs) {
  tni_cm_take(mine, sizeof *mine, theirs);
  mine->nodes = NULL;
  mine->values = NULL;
  mine->symbols = NULL;
}

void tni_cm_info_lists(tn_program_info *info, const void *needs, const void *slots, const void *tasks) {
  info->h = (tn_hdr)TN_HDR(tn_program_info);
  info->needs = needs;
  info->slots = slots;
  info->tasks = tasks;
}

void *tni_cm_plan_new(const tn_host *host, size_t bytes, const char *name, tn_error *err) {
  void *p = host->alloc(host->ctx, bytes, 16, TN_TAG_PLUGIN);
  if (p)
    memset(p, 0, bytes);
  else
    (void)tni_cm_fail(err, TN_E_NO_MEMORY, name, "out of memory");
  return p;
}

tn_status tni_cm_args_new(const tn_host *host, const tn_task *t, uint32_t n, size_t bytes, void **out, tn_error *err) {
  if (n != t->n_uses + 1)
    return tni_cm_fail(err, TN_E_INVALID, t->name, "%u views given, %u expected", n, t->n_uses + 1);
  *out = tni_cm_plan_new(host, bytes, t->name, err);
  return *out ? TN_OK : TN_E_NO_MEMORY;
}

tn_status tni_cm_too_small(tn_error *err, const char *task, const char *what, uint64_t bytes, uint64_t wanted) {
  return tni_cm_fail(err, TN_E_INVALID, task, "'%s' has %llu bytes, %llu are needed", what, (unsigned long long)bytes,
                     (unsigned long long)wanted);
}
