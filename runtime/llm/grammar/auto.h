/* SPDX-License-Identifier: Apache-2.0
 *
 * An automaton over bytes whose edges may call rules: what schemas, regexes and GBNF become. A rule has one state to
 * begin and one to end; an edge that calls a rule goes on where it leads when the rule has ended.
 *
 * States, rules and edges are added first; a failure (no memory, too many states) stays and is told by
 * tni_auto_finish. After that nothing changes, and any thread may read.
 */
#ifndef TENON_LLM_GRAMMAR_AUTO_H
#define TENON_LLM_GRAMMAR_AUTO_H

#include <stdbool.h>

#include "runtime/base/base.h"

enum {
  TNI_AUTO_STATES = 1 << 20, /* at most; edges: four times as many */
  TNI_AUTO_DEPTH = 256       /* calls inside of calls while a text is read */
};
#define TNI_AUTO_FAR UINT32_MAX /* a distance: never */

typedef enum tni_edge_kind { TNI_EDGE_FREE, TNI_EDGE_BYTES, TNI_EDGE_CALL } tni_edge_kind;
typedef struct tni_edge {
  uint32_t from, to, rule;
  uint8_t kind, lo, hi;
} tni_edge;
typedef struct tni_rule {
  uint32_t begin, end;
} tni_rule;

typedef struct tni_auto {
  tni_edge *edges; /* by `from` once it is finished */
  tni_rule *rules;
  size_t n_edges, n_rules, edges_cap, rules_cap;
  uint32_t n_states, root;
  tn_status failed;
  /* From here on after tni_auto_finish. */
  uint32_t *first; /* [n_states + 1] edges of a state */
  uint32_t *dist;  /* [n_states] fewest bytes to the end of its rule; TNI_AUTO_FAR: there is no way */
  uint32_t *need;  /* [n_states] fewest calls inside of calls on a way there */
  bool *ends;      /* [n_states] the end of a rule */
  uint8_t class_of[256], byte_of[256]; /* bytes that no edge tells apart; one of each class */
  uint32_t n_classes;
} tni_auto;

void tni_auto_destroy(tni_auto *a);
uint32_t tni_auto_state(tni_auto *a);
uint32_t tni_auto_rule(tni_auto *a);
void tni_auto_free(tni_auto *a, uint32_t from, uint32_t to);
void tni_auto_bytes(tni_auto *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
void tni_auto_call(tni_auto *a, uint32_t from, uint32_t rule, uint32_t to);
/* n bytes in this order; n 0 is a free edge. */
void tni_auto_text(tni_auto *a, uint32_t from, const char *s, size_t n, uint32_t to);
/* Texts are those of rule root. TN_E_INVALID: there is none, or a rule begins with itself. */
TN_MUST_CHECK tn_status tni_auto_finish(tni_auto *a, uint32_t root, tn_error *err);

#endif
