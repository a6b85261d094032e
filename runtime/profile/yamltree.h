/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML text -> a small tree with places, for profiles, manifests and calibration files.
 *
 * One document of mappings, sequences and scalars. Anchors, aliases, tags and a second document are refused, duplicate
 * keys too; depth, node count and bytes are bounded, so the size of the tree is bounded by the size of the text. All
 * memory is the arena's. Every error is TN_E_INVALID with `file:line:column` in err->where.
 */
#ifndef TENON_PROFILE_YAMLTREE_H
#define TENON_PROFILE_YAMLTREE_H

#include <stdbool.h>

#include "runtime/base/base.h"

enum { TNI_YAML_MAX_BYTES = 256 * 1024, TNI_YAML_MAX_NODES = 8192, TNI_YAML_MAX_DEPTH = 8 };

typedef enum { TNI_YAML_SCALAR, TNI_YAML_SEQ, TNI_YAML_MAP } tni_yaml_kind;

typedef struct tni_yaml tni_yaml;
struct tni_yaml {
  tni_yaml_kind kind;
  bool plain;            /* a scalar without quotes */
  uint32_t line, column; /* from 1; columns count characters */
  const char *text;      /* of a scalar; terminated, holds no other NUL */
  const tni_yaml *key;   /* of a mapping's entry: the key's scalar */
  tni_yaml *child, *next;
  uint32_t n; /* entries */
};

typedef struct tni_yaml_doc {
  tni_arena *arena;
  const char *file; /* for messages */
  const tni_yaml *root;
  uint64_t max_bytes; /* 0: TNI_YAML_MAX_BYTES */
  uint32_t max_nodes; /* 0: TNI_YAML_MAX_NODES */
} tni_yaml_doc;

/* Parses n bytes. doc->arena, doc->file and the limits are set by the caller; root is NULL for an empty document. */
TN_MUST_CHECK tn_status tni_yaml_parse(tni_yaml_doc *doc, const char *text, size_t n, tn_error *err);

/* TN_E_INVALID at a node. at NULL: the file. */
tn_status tni_yaml_fail(const tni_yaml_doc *doc, const tni_yaml *at, tn_error *err, const char *fmt, ...)
    TN_PRINTF(4, 5);
/* "file:line:column" into buf of n bytes; a file name that is too long loses its beginning, never the numbers. */
void tni_place(char *buf, size_t n, const char *file, uint32_t line, uint32_t column);

/* Entry of a mapping, or NULL. */
const tni_yaml *tni_yaml_get(const tni_yaml *map, const char *key);
/* Every key of map must be one of known (ended by NULL); the message suggests the nearest. what: "profile", ... */
TN_MUST_CHECK tn_status tni_yaml_keys(const tni_yaml_doc *doc, const tni_yaml *map, const char *const *known,
                                      const char *what, tn_error *err);
/* name is the key as messages show it ("cache.max_bytes"). */
TN_MUST_CHECK tn_status tni_yaml_want(const tni_yaml_doc *doc, const tni_yaml *y, tni_yaml_kind kind, const char *name,
                                      tn_error *err);
TN_MUST_CHECK tn_status tni_yaml_str(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, const char **out,
                                     tn_error *err);
TN_MUST_CHECK tn_status tni_yaml_bool(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, bool *out,
                                      tn_error *err);
/* A finite number. */
TN_MUST_CHECK tn_status tni_yaml_float(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, double lo, double hi,
                                       double *out, tn_error *err);
TN_MUST_CHECK tn_status tni_yaml_int(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, int64_t lo,
                                     int64_t hi, int64_t *out, tn_error *err);
/* 4096, 512K, 512M, 8G, 1T (powers of 1024). */
TN_MUST_CHECK tn_status tni_yaml_size(const tni_yaml_doc *doc, const tni_yaml *y, const char *name, uint64_t *out,
                                      tn_error *err);
/* A sequence of non-empty strings, on the document's arena. */
TN_MUST_CHECK tn_status tni_yaml_strs(const tni_yaml_doc *doc, const tni_yaml *y, const char *name,
                                      const char *const **out, uint32_t *n, tn_error *err);

/* YAML spelling of values, shared with plugins' options. false: text is no such value. */
bool tni_text_bool(const char *text, bool *out);
bool tni_text_int(const char *text, int64_t *out);  /* decimal or 0x, optional sign */
bool tni_text_float(const char *text, double *out); /* finite */

#endif
