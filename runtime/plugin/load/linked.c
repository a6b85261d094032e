/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/load/linked.h"

#include <string.h>

const tn_static_plugin *tni_linked_find(const char *name) {
  for (uint32_t i = 0; tni_linked_plugins[i]; i++) {
    const tn_static_plugin *p = tni_linked_plugins[i];
    if (TN_HAS(p, tn_static_plugin, entry) && p->name && p->manifest && p->entry && strcmp(p->name, name) == 0)
      return p;
  }
  return NULL;
}
