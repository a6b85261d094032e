/* SPDX-License-Identifier: Apache-2.0
 *
 * What making an instance and running it share. Private to the room.
 */
#ifndef TENON_CONFORM_DRIVE_INST_H
#define TENON_CONFORM_DRIVE_INST_H

#include "runtime/conform/drive/memory.h"

/* Notes why; false. */
bool tni_cf_inst_failed(tni_cf_inst *i, const char *what, const char *detail);
/* Weights and private memory belong to the drive. */
static inline bool tni_cf_slot_is_fixed(const tn_slot *s) {
  return s->kind == TN_SLOT_WEIGHT || s->kind == TN_SLOT_PRIVATE;
}
/* The input that an output overwrites in this instance, or TN_NONE. */
static inline uint32_t tni_cf_slot_alias(const tni_cf_drive *d, uint32_t slot) {
  const tn_slot *s = d->info->slots[slot];
  const bool has = d->aliased && s->kind == TN_SLOT_OUTPUT && s->alias < d->info->n_slots;
  return has && d->info->slots[s->alias]->kind == TN_SLOT_INPUT ? s->alias : TN_NONE;
}
static inline tni_cf_memory *tni_cf_inst_memory(tni_cf_inst *i, uint32_t slot) {
  const uint32_t alias = tni_cf_slot_alias(i->d, slot);
  if (alias != TN_NONE) slot = alias;
  return tni_cf_slot_is_fixed(i->d->info->slots[slot]) ? &i->d->fixed[slot] : &i->slot[slot];
}
/* The CPU has it at one address, also in a buffer; constants are not mapped for it (memory.c). */
static inline bool tni_cf_slot_is_cpus(const tni_cf_inst *i, uint32_t slot) {
  const tn_slot *s = i->d->info->slots[slot];
  return s->kind != TN_SLOT_WEIGHT && s->engines & 1;
}
/* Makes args[task] over views, the last of which is the scratch. Every other time over memory that is taken away again,
 * and then args_set over the right one, use by use: what a session does when it grows. */
bool tni_cf_inst_attach(tni_cf_inst *i, uint32_t task, const tn_view **views);

#endif
