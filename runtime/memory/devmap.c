/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares of devices in a memory, as the CPU reaches them.
 */
#include "runtime/base/base.h"
#include "runtime/memory/devmem.h"
#include "runtime/place/place.h"

tn_status tni_mem_map(tni_mem *m, const tni_mem_part *p, uint64_t offset, uint64_t n, uint32_t access, void **ptr,
                      tn_error *err) {
  const tni_dev *d = &m->devs[p->dev];
  const tn_status st = tni_dev_map(d, p->buffer, offset, n, access, ptr, err);
  m->counts->maps++;
  if (st == TN_OK) return TN_OK;
  tni_fail(err, st, d->name, "no reason given");
  tni_error_prefix(err, "plugin '%s' cannot map its memory", d->name);
  return st;
}

tn_status tni_mem_unmap(const tni_mem *m, const tni_mem_part *p, void *ptr, tn_error *err) {
  const tni_dev *d = &m->devs[p->dev];
  const tn_status st = tni_dev_unmap(d, p->buffer, ptr, err);
  if (st == TN_OK) return st;
  tni_fail(err, st, d->name, "no reason given");
  tni_error_prefix(err, "plugin '%s' cannot unmap its memory", d->name);
  return st;
}

tn_buffer *tni_mem_buffer(const tni_mem *m, uint32_t dev) {
  for (uint32_t i = 0; i < m->n_parts; i++)
    if (m->parts[i].dev == dev) return m->parts[i].buffer;
  return NULL;
}
