/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/roles/roles.h"

uint32_t tni_state_of_past(const tni_graph *g, tn_id v) {
  for (uint32_t i = 0; i < g->n_states; i++)
    if (g->states[i].past == v) return i;
  return TN_NONE;
}

uint32_t tni_state_of_present(const tni_graph *g, tn_id v) {
  for (uint32_t i = 0; i < g->n_states; i++)
    if (g->states[i].present == v) return i;
  return TN_NONE;
}
