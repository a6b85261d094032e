/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements.
 */
#include <string.h>

#include "runtime/llm/jinja/tree.h"

static tni_jj_node *parse_list(tni_jj_parser *p, const char *ends, uint32_t loops);

static void next(tni_jj_parser *p) {
  if (p->at->kind != T_EOF) p->at++;
  p->x->line = p->at->line;
}

static void want(tni_jj_parser *p, tni_jj_token_kind kind, const char *what) {
  if (tni_jj_failed(p->x)) return;
  if (p->at->kind != kind)
    tni_jj_bad_token(p, what);
  else
    next(p);
}

/* What stands between a statement's tag and its end tag, which is skipped up to its "%}". */
static tni_jj_node *parse_body(tni_jj_parser *p, const char *end, uint32_t loops) {
  want(p, T_BLOCK_END, "'%}'");
  tni_jj_node *list = parse_list(p, end, loops);
  if (!tni_jj_failed(p->x)) next(p);
  return list;
}

static tni_jj_node *parse_if(tni_jj_parser *p) {
  tni_jj_node *top = tni_jj_new_node(p, S_IF), *n = top;
  while (!tni_jj_failed(p->x)) {
    n->a = tni_jj_parse_tuple(p, false);
    want(p, T_BLOCK_END, "'%}'");
    n->first = parse_list(p, "elif else endif", p->loops);
    if (tni_jj_failed(p->x) || !tni_jj_skip_name(p, "elif")) break;
    tni_jj_node *more = tni_jj_new_node(p, S_IF);
    n->b = more;
    n = more;
  }
  if (tni_jj_skip_name(p, "else"))
    n->b = parse_body(p, "endif", p->loops);
  else if (!tni_jj_failed(p->x))
    next(p);
  return top;
}

static tni_jj_node *parse_for(tni_jj_parser *p) {
  tni_jj_node *n = tni_jj_new_node(p, S_FOR);
  n->a = tni_jj_parse_target(p, false);
  if (!tni_jj_failed(p->x) && !tni_jj_skip_name(p, "in")) tni_jj_bad_token(p, "'in'");
  n->b = tni_jj_parse_tuple(p, false);
  if (tni_jj_skip_name(p, "if")) n->c = tni_jj_parse_expr(p);
  if (tni_jj_at_name(p, "recursive")) tni_jj_fail(p->x, "loops with 'recursive' are not known here");
  want(p, T_BLOCK_END, "'%}'");
  n->first = parse_list(p, "else endfor", p->loops + 1);
  if (tni_jj_failed(p->x)) return n;
  if (tni_jj_skip_name(p, "else"))
    n->d = parse_body(p, "endfor", p->loops);
  else
    next(p);
  return n;
}

static tni_jj_node *parse_set(tni_jj_parser *p) {
  tni_jj_node *n = tni_jj_new_node(p, S_SET);
  n->a = tni_jj_parse_target(p, true);
  if (tni_jj_skip_op(p, "=")) {
    n->b = tni_jj_parse_tuple(p, true);
    return n;
  }
  n->kind = S_SET_BLOCK;
  n->b = tni_jj_parse_filters(p, NULL, false);
  n->first = parse_body(p, "endset", 0);
  return n;
}

/* Names, of which the last may have values where they are not given. */
static tni_jj_node *parse_signature(tni_jj_parser *p) {
  tni_jj_node *list = NULL, **tail = &list;
  while (!tni_jj_failed(p->x) && !tni_jj_at_op(p, ")")) {
    if (list) tni_jj_want_op(p, ",");
    tni_jj_node *n = tni_jj_new_node(p, N_KW);
    n->name = p->at->text;
    want(p, T_NAME, "a name");
    if (tni_jj_skip_op(p, "=")) n->a = tni_jj_parse_expr(p);
    if (tni_jj_failed(p->x)) break;
    *tail = n;
    tail = &n->next;
  }
  tni_jj_want_op(p, ")");
  return list;
}

static tni_jj_node *parse_macro(tni_jj_parser *p) {
  tni_jj_node *n = tni_jj_new_node(p, S_MACRO);
  n->name = p->at->text;
  want(p, T_NAME, "a macro's name");
  tni_jj_want_op(p, "(");
  const uint32_t around = p->seen;
  p->seen = 0;
  n->first = parse_signature(p);
  n->d = parse_body(p, "endmacro", 0);
  n->value = tni_jj_int(p->seen);
  p->seen |= around;
  return n;
}

static tni_jj_node *parse_call(tni_jj_parser *p) {
  tni_jj_node *n = tni_jj_new_node(p, S_CALL);
  if (tni_jj_skip_op(p, "(")) n->first = parse_signature(p);
  n->a = tni_jj_parse_expr(p);
  if (!tni_jj_failed(p->x) && n->a->kind != N_CALL) tni_jj_bad_token(p, "a call");
  n->d = parse_body(p, "endcall", 0);
  return n;
}

static tni_jj_node *parse_filter(tni_jj_parser *p) {
  tni_jj_node *n = tni_jj_new_node(p, S_FILTER);
  n->a = tni_jj_parse_filters(p, NULL, true);
  n->first = parse_body(p, "endfilter", 0);
  return n;
}

static tni_jj_node *parse_with(tni_jj_parser *p) {
  tni_jj_node *n = tni_jj_new_node(p, S_WITH), **tail = &n->first;
  while (!tni_jj_failed(p->x) && p->at->kind != T_BLOCK_END) {
    if (n->first) tni_jj_want_op(p, ",");
    tni_jj_node *set = tni_jj_new_node(p, S_SET);
    set->a = tni_jj_new_node(p, N_NAME);
    set->a->name = p->at->text;
    want(p, T_NAME, "a name");
    tni_jj_want_op(p, "=");
    set->b = tni_jj_parse_expr(p);
    if (tni_jj_failed(p->x)) break;
    *tail = set;
    tail = &set->next;
  }
  n->d = parse_body(p, "endwith", p->loops);
  return n;
}

static tni_jj_node *parse_generation(tni_jj_parser *p) {
  tni_jj_node *n = tni_jj_new_node(p, S_GENERATION);
  n->d = parse_body(p, "endgeneration", 0);
  return n;
}

static tni_jj_node *parse_break(tni_jj_parser *p, tni_jj_node_kind kind) {
  if (!p->loops) tni_jj_fail(p->x, "'break' or 'continue' outside of a loop");
  return tni_jj_new_node(p, kind);
}

static tni_jj_node *parse_print(tni_jj_parser *p) {
  tni_jj_node *n = tni_jj_new_node(p, S_PRINT);
  n->a = tni_jj_parse_tuple(p, true);
  return n;
}

static tni_jj_node *parse_statement(tni_jj_parser *p) {
  static const struct {
    const char *name;
    tni_jj_node *(*parse)(tni_jj_parser *p);
  } known[] = {{"if", parse_if},
               {"for", parse_for},
               {"set", parse_set},
               {"macro", parse_macro},
               {"filter", parse_filter},
               {"with", parse_with},
               {"generation", parse_generation},
               {"call", parse_call},
               {"print", parse_print}};
  static const char *const unknown[] = {"include", "import", "from", "extends", "block", "autoescape"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (tni_jj_skip_name(p, known[i].name)) return known[i].parse(p);
  if (tni_jj_skip_name(p, "break")) return parse_break(p, S_BREAK);
  if (tni_jj_skip_name(p, "continue")) return parse_break(p, S_CONTINUE);
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
    if (tni_jj_at_name(p, unknown[i])) {
      p->x->st = tni_fail(p->x->err, TN_E_UNSUPPORTED, p->x->name, "%s: line %u: '%s' is not known in chat templates",
                          p->x->name, p->x->line, unknown[i]);
      return NULL;
    }
  return tni_jj_bad_token(p, "a statement");
}

/* Is the current name one of those in `ends`, with spaces between? */
static bool at_end(const tni_jj_parser *p, const char *ends) {
  if (p->at[1].kind != T_NAME) return false;
  const tni_jj_str *name = &p->at[1].text;
  for (const char *e = ends; *e; e += *e == ' ') {
    const size_t n = strcspn(e, " ");
    if (n == name->n && memcmp(e, name->v, n) == 0) return true;
    e += n;
  }
  return false;
}

static tni_jj_node *parse_one(tni_jj_parser *p) {
  const tni_jj_token *t = p->at;
  tni_jj_node *n = NULL;
  next(p);
  if (t->kind == T_DATA) {
    p->x->line = t->line;
    n = tni_jj_new_node(p, S_DATA);
    n->value = tni_jj_text(p->x, t->text.v, NULL, t->text.n);
  } else if (t->kind == T_VAR_BEGIN) {
    n = parse_print(p);
    want(p, T_VAR_END, "'}}'");
  } else {
    const uint32_t line = p->at->line;
    n = parse_statement(p);
    want(p, T_BLOCK_END, "'%}'");
    if (n) n->line = line;
  }
  return n;
}

/* Statements up to one of the end names, which is left current; ends NULL: up to the end. */
static tni_jj_node *parse_list(tni_jj_parser *p, const char *ends, uint32_t loops) {
  tni_jj_node *list = NULL, **tail = &list;
  const uint32_t before = p->loops;
  if (!tni_jj_enter(p->x)) return NULL;
  p->loops = loops;
  while (!tni_jj_failed(p->x)) {
    if (p->at->kind == T_EOF) {
      if (ends) tni_jj_fail(p->x, "the template ends where '%s' is wanted", ends);
      break;
    }
    if (ends && p->at->kind == T_BLOCK_BEGIN && at_end(p, ends)) {
      next(p);
      break;
    }
    tni_jj_node *n = parse_one(p);
    if (tni_jj_failed(p->x) || !n) break;
    *tail = n;
    tail = &n->next;
  }
  p->loops = before;
  tni_jj_leave(p->x);
  return list;
}

tni_jj_node *tni_jj_parse_template(tni_jj_parser *p) { return parse_list(p, NULL, 0); }
