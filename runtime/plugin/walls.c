/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/walls.h"

#include <stdio.h>

const char *tni_confine_name(uint32_t level) { return level == TNI_CONFINE_DRIVER ? "driver" : "strict"; }

const char *tni_wall_name(uint32_t i) {
  static const char *const names[TNI_WALLS] = {"no-new-privileges", "no-capabilities", "namespaces", "files",
                                               "system-calls",      "supervised"};
  return i < TNI_WALLS ? names[i] : "";
}

uint32_t tni_walls_of(uint32_t level) {
  const uint32_t all = (1u << TNI_WALLS) - 1;
  return level == TNI_CONFINE_DRIVER ? all & ~(uint32_t)TNI_WALL_NAMESPACES : all;
}

static size_t put_names(uint32_t set, char *buf, size_t size, size_t at) {
  const char *gap = "";
  for (uint32_t i = 0; i < TNI_WALLS; i++) {
    if (!(set & 1u << i)) continue;
    at += (size_t)snprintf(buf + (at < size ? at : size), at < size ? size - at : 0, "%s%s", gap, tni_wall_name(i));
    gap = ", ";
  }
  return at;
}

void tni_walls_text(const tni_walls *w, char *buf, size_t size) {
  const uint32_t missing = tni_walls_of(w->level) & ~w->stand;
  size_t at = (size_t)snprintf(buf, size, "%s: %s", tni_confine_name(w->level), w->stand ? "" : "nothing");
  at = put_names(w->stand, buf, size, at);
  if (!missing) return;
  at += (size_t)snprintf(buf + (at < size ? at : size), at < size ? size - at : 0, "; missing here: ");
  (void)put_names(missing, buf, size, at);
}
