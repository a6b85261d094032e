/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of slots, on the device or on the host, between guards. Private to the room.
 */
#ifndef TENON_CONFORM_DRIVE_MEMORY_H
#define TENON_CONFORM_DRIVE_MEMORY_H

#include "runtime/conform/drive/device.h"

/* Makes memory of a slot, where the real host has it: of a weight as its need's residency says, else on the device where
 * an engine uses it. */
bool tni_cf_memory_make(tni_cf_drive *d, uint32_t slot, uint64_t bytes, uint8_t fill, tni_cf_memory *m, char *why,
                        size_t n_why);
/* Scratch of a task, as the real host has it: on the device where an engine runs the task, aligned as measure says. */
bool tni_cf_memory_scratch(tni_cf_drive *d, uint32_t task, uint64_t bytes, uint64_t align, uint8_t fill,
                           tni_cf_memory *m, char *why, size_t n_why);
void tni_cf_memory_finish(tni_cf_host *h, tni_cf_memory *m);
bool tni_cf_memory_look(tni_cf_host *h, tni_cf_memory *m, uint32_t access, uint8_t **at);
bool tni_cf_memory_release(tni_cf_host *h, tni_cf_memory *m, bool keep);
bool tni_cf_memory_guards(tni_cf_host *h, tni_cf_memory *m, bool keep);

#endif
