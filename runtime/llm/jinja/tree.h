/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens and the tree of a template. All memory is the template's arena.
 */
#ifndef TENON_LLM_JINJA_TREE_H
#define TENON_LLM_JINJA_TREE_H

#include "runtime/llm/jinja/value.h"

typedef enum tni_jj_token_kind {
  T_DATA,
  T_VAR_BEGIN,
  T_VAR_END,
  T_BLOCK_BEGIN,
  T_BLOCK_END,
  T_NAME,
  T_STRING, /* escapes are resolved */
  T_INT,
  T_FLOAT,
  T_OP,
  T_EOF
} tni_jj_token_kind;

typedef struct tni_jj_token {
  tni_jj_token_kind kind;
  uint32_t line;
  tni_jj_str text;
  int64_t i;
  double f;
} tni_jj_token;

typedef enum tni_jj_node_kind {
  N_CONST,
  N_NAME,
  N_TUPLE,
  N_LIST,
  N_DICT, /* first: N_PAIR */
  N_PAIR,
  N_NEG,
  N_POS,
  N_NOT,
  N_BINARY,
  N_AND,
  N_OR,
  N_CONCAT,
  N_COMPARE, /* a, then first: N_BINARY without a left side */
  N_COND,    /* b if a else c (NULL: undefined) */
  N_ATTR,
  N_ITEM,
  N_SLICE,  /* d[a:b:c] */
  N_CALL,   /* a(first) */
  N_FILTER, /* a|name(first); a NULL: of a block */
  N_TEST,
  N_KW,
  N_STAR,
  N_STARSTAR,
  S_DATA,
  S_PRINT,
  S_IF,         /* a: first, else b */
  S_FOR,        /* for a in b if c: first, else d */
  S_SET,        /* a = b */
  S_SET_BLOCK,  /* a = first, through the filter b */
  S_MACRO,      /* name(first: N_KW), body d; value: TNI_JJ_SEES_* */
  S_CALL,       /* the call a with a caller(first), body d */
  S_FILTER,     /* first, through the filter a */
  S_WITH,       /* first: S_SET, body d */
  S_GENERATION, /* d, in a scope of its own */
  S_BREAK,
  S_CONTINUE
} tni_jj_node_kind;

typedef struct tni_jj_node tni_jj_node;
struct tni_jj_node {
  tni_jj_node_kind kind;
  tni_jj_op op;
  uint32_t line;
  tni_jj_str name;
  tni_jj_val value;
  tni_jj_node *a, *b, *c, *d, *first, *next;
};

struct tni_jinja {
  tni_arena *arena;
  char *name, *text;
  size_t n;
  tni_jj_node *root;
};

/* Reading: both use a run, whose arena is the template's, for errors and bounds. */
typedef struct tni_jj_tokens {
  tni_jj_token *v;
  size_t n, cap;
} tni_jj_tokens;
void tni_jj_lex(tni_jj_run *x, const char *s, size_t n, tni_jj_tokens *out);

enum { TNI_JJ_SEES_VARARGS = 1, TNI_JJ_SEES_KWARGS = 2, TNI_JJ_SEES_CALLER = 4 };
typedef struct tni_jj_parser {
  tni_jj_run *x;
  const tni_jj_token *at; /* the last is T_EOF */
  uint32_t loops;         /* that break and continue could leave */
  uint32_t seen;          /* TNI_JJ_SEES_*: names that the macro around reads */
  tni_jj_node nothing;    /* what is written to once it has failed; nobody runs it */
} tni_jj_parser;
tni_jj_node *tni_jj_parse_template(tni_jj_parser *p);
/* --- expressions (parse_expr.c) --- */
tni_jj_node *tni_jj_new_node(tni_jj_parser *p, tni_jj_node_kind kind);
tni_jj_node *tni_jj_parse_expr(tni_jj_parser *p);
/* One or several with commas between: then a tuple. cond: a conditional expression may stand there. */
tni_jj_node *tni_jj_parse_tuple(tni_jj_parser *p, bool cond);
/* A name, or a tuple of targets; ns: a namespace's attribute too. */
tni_jj_node *tni_jj_parse_target(tni_jj_parser *p, bool ns);
/* After "(": arguments of a call, up to ")". */
tni_jj_node *tni_jj_parse_args(tni_jj_parser *p);
/* Filters from "|" on, or from a name on (of a block), over a. */
tni_jj_node *tni_jj_parse_filters(tni_jj_parser *p, tni_jj_node *a, bool begins);
tni_jj_node *tni_jj_parse_postfix(tni_jj_parser *p, tni_jj_node *a);
tni_jj_node *tni_jj_parse_unary(tni_jj_parser *p, bool filters);
tni_jj_node *tni_jj_parse_or(tni_jj_parser *p);
tni_jj_node *tni_jj_parse_primary(tni_jj_parser *p);
bool tni_jj_at_op(const tni_jj_parser *p, const char *op);
bool tni_jj_at_name(const tni_jj_parser *p, const char *name);
bool tni_jj_skip_op(tni_jj_parser *p, const char *op);
bool tni_jj_skip_name(tni_jj_parser *p, const char *name);
/* Skips it, or fails. */
void tni_jj_want_op(tni_jj_parser *p, const char *op);
void *tni_jj_bad_token(tni_jj_parser *p, const char *wanted);

#endif
