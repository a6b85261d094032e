/* SPDX-License-Identifier: Apache-2.0
 *
 * What names mean while a template runs: scopes, macros and loops.
 */
#ifndef TENON_LLM_JINJA_SCOPE_H
#define TENON_LLM_JINJA_SCOPE_H

#include "runtime/llm/jinja/tree.h"
#include "runtime/llm/jinja/value.h"

typedef struct tni_jj_scope {
  struct tni_jj_scope *up;
  tni_jj_dict names;
} tni_jj_scope;

/* Kept with the template's run: where it was defined says what its names mean. */
typedef struct tni_jj_macro {
  const tni_jj_node *node; /* S_MACRO or S_CALL */
  tni_jj_scope *scope;
  bool is_caller;
} tni_jj_macro;

/* Items are taken as the loop goes, as jinja2's LoopContext does: one ahead where the body asks what follows, all where
 * it asks how many there are. */
typedef struct tni_jj_loop {
  tni_jj_list *rest;       /* not looked at yet; of a generator its own */
  const tni_jj_node *node; /* S_FOR, whose condition each item of `rest` must fulfil; NULL: all do */
  tni_jj_scope *scope;     /* of the condition */
  int64_t at, length;      /* at: -1 before the first round; length: -1: not known */
  tni_jj_val before, now, after; /* TNI_JJ_MISSING: none; after: taken ahead */
  uint32_t depth;
  bool has_changed;
  tni_jj_val changed; /* what loop.changed was given last */
} tni_jj_loop;

tni_jj_scope *tni_jj_scope_new(tni_jj_run *x, tni_jj_scope *up);
void tni_jj_bind(tni_jj_run *x, tni_jj_scope *s, const tni_jj_str *name, tni_jj_val v);
/* TNI_JJ_MISSING: nobody has it. */
tni_jj_val tni_jj_lookup(const tni_jj_run *x, const tni_jj_scope *s, const tni_jj_str *name);
/* TNI_JJ_MISSING: a loop has no such attribute. */
tni_jj_val tni_jj_loop_attribute(tni_jj_run *x, tni_jj_loop *l, const tni_jj_str *name);

tni_jj_val tni_jj_eval(tni_jj_run *x, const tni_jj_node *n);
tni_jj_val tni_jj_call(tni_jj_run *x, tni_jj_val fn, const tni_jj_args *a);
/* What a macro or the body of a call block gives. */
tni_jj_val tni_jj_call_macro(tni_jj_run *x, const tni_jj_macro *m, const tni_jj_args *a);
/* A list of statements. What stopped it: a break or continue of the loop around. */
typedef enum tni_jj_flow { TNI_JJ_ON, TNI_JJ_BREAK, TNI_JJ_CONTINUE } tni_jj_flow;
tni_jj_flow tni_jj_exec(tni_jj_run *x, const tni_jj_node *list);
/* The list's output as a string, in a scope of its own below `scope`. */
tni_jj_val tni_jj_captured(tni_jj_run *x, const tni_jj_node *list, tni_jj_scope *scope);
bool tni_jj_args_eval(tni_jj_run *x, const tni_jj_node *list, tni_jj_args *out);

#endif
