/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plugin's own code holds of the process. Private to the room.
 */
#ifndef TENON_CONFORM_LIFE_FOLLOW_H
#define TENON_CONFORM_LIFE_FOLLOW_H

#include "runtime/conform/drive/drive.h"

enum {
  TNI_CF_BLOCKS,   /* of malloc, asked for by the plugin's code itself */
  TNI_CF_HEAP,     /* bytes of the whole process */
  TNI_CF_MAPPINGS, /* mmap less munmap, called by the plugin's code */
  TNI_CF_FDS,
  TNI_CF_TASKS,
  TNI_CF_CHILDREN,
  TNI_CF_HOSTS, /* blocks of the host's services */
  TNI_CF_HOLDS
};
typedef struct tni_cf_held {
  long long n[TNI_CF_HOLDS];
  bool lone; /* no driver lies below the plugin: the heap is its own and the kit's */
} tni_cf_held;

/* Loads the plugin's file, if it has one, and begins to follow what its code asks for. */
void tni_cf_follow_begin(const tni_cf *cf);
/* h: an open host, or one that is all zeros. */
tni_cf_held tni_cf_hold(tni_cf_host *h);

#endif
