/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a rendering, as Python has them. All memory is the rendering's arena and goes with it; values are immutable
 * but for namespaces and generators, as in jinja2's immutable sandbox.
 *
 * Errors stick: the first one is kept in the run, functions give UNDEFINED then, and loops look at tni_jj_failed.
 */
#ifndef TENON_LLM_JINJA_VALUE_H
#define TENON_LLM_JINJA_VALUE_H

#include <stdbool.h>

#include "runtime/base/base.h"

typedef enum tni_jj_type {
  TNI_JJ_UNDEFINED,
  TNI_JJ_NONE,
  TNI_JJ_BOOL,
  TNI_JJ_INT,
  TNI_JJ_FLOAT,
  TNI_JJ_STR,
  TNI_JJ_LIST,
  TNI_JJ_DICT,
  TNI_JJ_NAMESPACE,
  TNI_JJ_MACRO,
  TNI_JJ_FUNCTION,
  TNI_JJ_METHOD,
  TNI_JJ_LOOP,
  TNI_JJ_MISSING /* an argument that was not given */
} tni_jj_type;

/* What a TNI_JJ_LIST is in Python. VIEW: keys(), items(), range(). LAZY: a generator; it has no length, and what was
 * taken of it is gone. */
typedef enum tni_jj_kind { TNI_JJ_OF_LIST, TNI_JJ_OF_TUPLE, TNI_JJ_OF_VIEW, TNI_JJ_OF_LAZY } tni_jj_kind;

typedef struct tni_jj_str {
  const char *v;    /* valid UTF-8, not terminated */
  const uint8_t *m; /* [n] 1: of the template; NULL: all of it is */
  size_t n;
} tni_jj_str;

typedef struct tni_jj_val tni_jj_val;
typedef struct tni_jj_dict tni_jj_dict;
typedef struct tni_jj_run tni_jj_run;
typedef struct tni_jj_args tni_jj_args;
typedef struct tni_jj_builtin tni_jj_builtin;

typedef struct tni_jj_list {
  const tni_jj_val *v; /* LAZY: what is left */
  size_t n;
  bool is_group; /* a tuple of groupby: (grouper, list) */
  const char *type;                 /* VIEW: Python's name of it */
  const struct tni_jj_list *bounds; /* of a range: what it was made of; NULL: no range, and nothing has an index */
} tni_jj_list;

struct tni_jj_val {
  uint8_t type, kind;
  union {
    bool b;
    int64_t i;
    double f;
    const tni_jj_str *s;
    tni_jj_list *l;
    tni_jj_dict *d;   /* of namespaces too */
    const char *hint; /* UNDEFINED: what was looked for, or NULL */
    const tni_jj_builtin *fn;
    const struct tni_jj_method *method;
    const struct tni_jj_macro *macro;
    struct tni_jj_loop *loop;
  };
};

struct tni_jj_dict {
  tni_jj_val *keys, *values;
  size_t n, cap;
};

typedef struct tni_jj_method {
  tni_jj_val self;
  const tni_jj_builtin *fn;
} tni_jj_method;

typedef struct tni_jj_kw {
  const tni_jj_str *name;
  tni_jj_val v;
} tni_jj_kw;
struct tni_jj_args {
  tni_jj_val *pos;
  size_t n;
  tni_jj_kw *kw;
  size_t n_kw;
};

/* A filter, test, method or function. names: its parameters after the value itself, with spaces between; those up to
 * `need` must be given. a: [TNI_JJ_PARAMS] in that order, TNI_JJ_MISSING where not given. NULL names: fn gets all as
 * `raw`. */
enum { TNI_JJ_PARAMS = 6 };
struct tni_jj_builtin {
  const char *name, *names;
  int need;
  tni_jj_val (*fn)(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw);
};

/* A string that grows. */
typedef struct tni_jj_buf {
  char *v;
  uint8_t *m;
  size_t n, cap, most; /* most: 0, or a bound of its own */
} tni_jj_buf;

enum { TNI_JJ_DEPTH = 300 };

struct tni_jj_run {
  tni_arena *arena;
  tn_error *err;
  tn_status st;
  const char *name; /* of the template */
  uint32_t line, depth;
  uint64_t steps;        /* left */
  size_t memory, output; /* left; bound */
  int64_t now;
  tni_jj_buf *out;
  struct tni_jj_scope *scope, *root;
};

static inline bool tni_jj_failed(const tni_jj_run *x) { return x->st != TN_OK; }
tni_jj_val tni_jj_fail(tni_jj_run *x, const char *fmt, ...) TN_PRINTF(2, 3);
tni_jj_val tni_jj_limit(tni_jj_run *x, const char *what);
/* n steps are taken. False: there are no more. */
bool tni_jj_step(tni_jj_run *x, uint64_t n);
/* One level deeper; false: too deep. tni_jj_leave after a true one. */
bool tni_jj_enter(tni_jj_run *x);
void tni_jj_leave(tni_jj_run *x);
void *tni_jj_alloc(tni_jj_run *x, size_t count, size_t size); /* NULL: failed */

static inline tni_jj_val tni_jj_of(tni_jj_type t) { return (tni_jj_val){.type = (uint8_t)t}; }
static inline tni_jj_val tni_jj_bool(bool b) { return (tni_jj_val){.type = TNI_JJ_BOOL, .b = b}; }
static inline tni_jj_val tni_jj_int(int64_t i) { return (tni_jj_val){.type = TNI_JJ_INT, .i = i}; }
static inline tni_jj_val tni_jj_float(double f) { return (tni_jj_val){.type = TNI_JJ_FLOAT, .f = f}; }
static inline bool tni_jj_is(tni_jj_val v, tni_jj_type t) { return v.type == t; }
static inline bool tni_jj_given(tni_jj_val v) { return v.type != TNI_JJ_MISSING; }
static inline bool tni_jj_is_int(tni_jj_val v) { return v.type == TNI_JJ_INT || v.type == TNI_JJ_BOOL; }
static inline int64_t tni_jj_as_int(tni_jj_val v) { return v.type == TNI_JJ_BOOL ? v.b : v.i; }
static inline bool tni_jj_is_number(tni_jj_val v) { return tni_jj_is_int(v) || v.type == TNI_JJ_FLOAT; }
static inline double tni_jj_as_float(tni_jj_val v) { return v.type == TNI_JJ_FLOAT ? v.f : (double)tni_jj_as_int(v); }
static inline bool tni_jj_is_callable(tni_jj_val v) {
  return v.type == TNI_JJ_MACRO || v.type == TNI_JJ_FUNCTION || v.type == TNI_JJ_METHOD || v.type == TNI_JJ_LOOP;
}
/* A TNI_JJ_LIST: v[0] is asked for, not only what comes next. */
static inline bool tni_jj_has_index(tni_jj_val v) {
  return v.kind == TNI_JJ_OF_VIEW ? v.l->bounds != NULL : v.kind != TNI_JJ_OF_LAZY;
}
/* n bytes at v and marks at m (or NULL) that live as long as the run, not copied. */
tni_jj_val tni_jj_text(tni_jj_run *x, const char *v, const uint8_t *m, size_t n);
tni_jj_val tni_jj_literal(tni_jj_run *x, const char *s); /* of the template; s is static */
static inline tni_jj_val tni_jj_cut(tni_jj_run *x, const tni_jj_str *s, size_t from, size_t to) {
  return tni_jj_text(x, s->v + from, s->m ? s->m + from : NULL, to - from);
}
bool tni_jj_str_is(const tni_jj_str *s, const char *t);
bool tni_jj_str_same(const tni_jj_str *a, const tni_jj_str *b);

/* A list of n items that live as long as the run, not copied. */
tni_jj_val tni_jj_list_of(tni_jj_run *x, const tni_jj_val *v, size_t n, tni_jj_kind kind);
tni_jj_val tni_jj_pair(tni_jj_run *x, tni_jj_val a, tni_jj_val b); /* a tuple */
typedef struct tni_jj_items {
  tni_jj_val *v;
  size_t n, cap;
} tni_jj_items;
void tni_jj_push(tni_jj_run *x, tni_jj_items *l, tni_jj_val v);
static inline tni_jj_val tni_jj_items_val(tni_jj_run *x, const tni_jj_items *l, tni_jj_kind kind) {
  return tni_jj_list_of(x, l->v, l->n, kind);
}

tni_jj_val tni_jj_dict_new(tni_jj_run *x);
void tni_jj_dict_set(tni_jj_run *x, tni_jj_dict *d, tni_jj_val key, tni_jj_val v);
const tni_jj_val *tni_jj_dict_get(tni_jj_run *x, const tni_jj_dict *d, tni_jj_val key); /* NULL: none */
const tni_jj_val *tni_jj_dict_name(const tni_jj_dict *d, const tni_jj_str *key);

void tni_jj_put(tni_jj_run *x, tni_jj_buf *b, const char *v, const uint8_t *m, size_t n);
/* Bytes that come out of a value: mine says whether they are the template's. */
void tni_jj_put_as(tni_jj_run *x, tni_jj_buf *b, const char *v, size_t n, bool mine);
static inline void tni_jj_put_str(tni_jj_run *x, tni_jj_buf *b, const tni_jj_str *s) {
  tni_jj_put(x, b, s->v, s->m, s->n);
}
void tni_jj_put_cp(tni_jj_run *x, tni_jj_buf *b, uint32_t cp, bool mine);
tni_jj_val tni_jj_buf_val(tni_jj_run *x, const tni_jj_buf *b);
static inline bool tni_jj_mine(const tni_jj_str *s, size_t i) { return !s->m || s->m[i]; }

/* --- what Python does with values (python.c) --- */
bool tni_jj_truth(tni_jj_val v);
bool tni_jj_equal(tni_jj_run *x, tni_jj_val a, tni_jj_val b);
/* -1, 0, 1; an error where Python cannot order them. */
int tni_jj_compare(tni_jj_run *x, tni_jj_val a, tni_jj_val b);
bool tni_jj_contains(tni_jj_run *x, tni_jj_val box, tni_jj_val item);
/* All items of v; a generator is at its end then. */
const tni_jj_list *tni_jj_iterate(tni_jj_run *x, tni_jj_val v);
/* Takes the first item that is left; TNI_JJ_MISSING: none. */
tni_jj_val tni_jj_next(tni_jj_list *rest);
/* -1: it has none, and the run fails. */
int64_t tni_jj_length(tni_jj_run *x, tni_jj_val v);
const char *tni_jj_type_name(tni_jj_val v);
void tni_jj_put_val(tni_jj_run *x, tni_jj_buf *b, tni_jj_val v);  /* str(v) */
void tni_jj_put_repr(tni_jj_run *x, tni_jj_buf *b, tni_jj_val v); /* repr(v) */
const tni_jj_str *tni_jj_to_str(tni_jj_run *x, tni_jj_val v);     /* str(v), never NULL */
void tni_jj_float_repr(double f, char out[40]);
bool tni_jj_hashable(tni_jj_val v);

/* keys(), values(), items(), range(). */
tni_jj_val tni_jj_view(tni_jj_run *x, const tni_jj_val *v, size_t n, const char *type, const tni_jj_list *bounds);

/* part: the items of a range from cut[0] to cut[1] in steps of cut[2]. */
tni_jj_val tni_jj_range_part(tni_jj_run *x, const tni_jj_list *range, const tni_jj_items *part, const int64_t cut[3]);

/* --- names and operators (access.c, arith.c) --- */
tni_jj_val tni_jj_attribute(tni_jj_run *x, tni_jj_val v, const tni_jj_str *name); /* v.name */
tni_jj_val tni_jj_item(tni_jj_run *x, tni_jj_val v, tni_jj_val key);              /* v[key] */
/* v[a:b:c] of integers or NONE. */
tni_jj_val tni_jj_slice(tni_jj_run *x, tni_jj_val v, tni_jj_val a, tni_jj_val b, tni_jj_val c);
/* "a.b.0" of items of filters. */
tni_jj_val tni_jj_path(tni_jj_run *x, tni_jj_val v, tni_jj_val path);
typedef enum tni_jj_op {
  TNI_JJ_ADD,
  TNI_JJ_SUB,
  TNI_JJ_MUL,
  TNI_JJ_DIV,
  TNI_JJ_FLOORDIV,
  TNI_JJ_MOD,
  TNI_JJ_POW,
  TNI_JJ_EQ,
  TNI_JJ_NE,
  TNI_JJ_LT,
  TNI_JJ_LE,
  TNI_JJ_GT,
  TNI_JJ_GE,
  TNI_JJ_IN,
  TNI_JJ_NOT_IN
} tni_jj_op;
tni_jj_val tni_jj_binary(tni_jj_run *x, tni_jj_op op, tni_jj_val a, tni_jj_val b);
tni_jj_val tni_jj_negate(tni_jj_run *x, tni_jj_val v);

/* --- calls (call.c) --- */
tni_jj_val tni_jj_call_builtin(tni_jj_run *x, const tni_jj_builtin *fn, tni_jj_val self, const tni_jj_args *a);
tni_jj_val tni_jj_filter(tni_jj_run *x, const tni_jj_str *name, tni_jj_val v, const tni_jj_args *a);
bool tni_jj_test(tni_jj_run *x, const tni_jj_str *name, tni_jj_val v, const tni_jj_args *a);
const tni_jj_builtin *tni_jj_find_filter(const tni_jj_str *name);
const tni_jj_builtin *tni_jj_find_test(const tni_jj_str *name);
const tni_jj_builtin *tni_jj_find_global(const tni_jj_str *name);
const tni_jj_builtin *tni_jj_find_method(tni_jj_val self, const tni_jj_str *name);
/* What an immutable sandbox keeps templates from calling. */
bool tni_jj_changes(tni_jj_val self, const tni_jj_str *name);
/* One of a table, whose end has a NULL name. */
const tni_jj_builtin *tni_jj_find(const tni_jj_builtin *table, const tni_jj_str *name);
extern const tni_jj_builtin tni_jj_text_filters[], tni_jj_list_filters[], tni_jj_order_filters[], tni_jj_str_methods[],
    tni_jj_split_methods[], tni_jj_dict_methods[], tni_jj_list_methods[];
tni_jj_val tni_jj_tojson(tni_jj_run *x, tni_jj_val self, const tni_jj_val *a, const tni_jj_args *raw);

/* --- text (text.c) --- */
bool tni_jj_is_space(uint32_t cp); /* str.isspace */
/* Bytes of white space at the beginning / at the end of s. */
size_t tni_jj_space_before(const char *s, size_t n);
size_t tni_jj_space_after(const char *s, size_t n);
size_t tni_jj_cp_count(const tni_jj_str *s);
size_t tni_jj_cp_offset(const tni_jj_str *s, size_t cp); /* in bytes */
/* First place of t in s from byte `from` on, SIZE_MAX: none. last: the last one. */
size_t tni_jj_find_str(const tni_jj_str *s, const tni_jj_str *t, size_t from);
size_t tni_jj_find_last(const tni_jj_str *s, const tni_jj_str *t);
typedef enum tni_jj_case { TNI_JJ_UPPER, TNI_JJ_LOWER, TNI_JJ_CAPITAL, TNI_JJ_TITLE, TNI_JJ_SWAP } tni_jj_case;
tni_jj_val tni_jj_recase(tni_jj_run *x, const tni_jj_str *s, tni_jj_case how);
/* sides: 1 left, 2 right. chars: NULL is white space. */
tni_jj_val tni_jj_strip(tni_jj_run *x, const tni_jj_str *s, const tni_jj_str *chars, int sides);
/* count < 0: all. */
tni_jj_val tni_jj_replace(tni_jj_run *x, const tni_jj_str *s, const tni_jj_str *old, const tni_jj_str *with,
                          int64_t count);
void tni_jj_lines(tni_jj_run *x, const tni_jj_str *s, bool keep_ends, tni_jj_items *out); /* str.splitlines */

/* --- formats (format.c, braces.c) --- */
/* v as a spec of str.format says: ">8.2f". */
void tni_jj_put_formed(tni_jj_run *x, tni_jj_buf *b, tni_jj_val v, const tni_jj_str *spec);
tni_jj_val tni_jj_percent(tni_jj_run *x, const tni_jj_str *format, const tni_jj_args *a); /* '%s' % ... */
tni_jj_val tni_jj_format(tni_jj_run *x, const tni_jj_str *s, const tni_jj_args *a);       /* '{}'.format(...) */

#endif
