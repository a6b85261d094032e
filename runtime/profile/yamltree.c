/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/profile/yamltree.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

typedef struct builder {
  tni_yaml_doc *doc;
  tn_error *err;
  tni_yaml *root;
  tni_yaml *stack[TNI_YAML_MAX_DEPTH], **tail[TNI_YAML_MAX_DEPTH];
  const tni_yaml *key[TNI_YAML_MAX_DEPTH]; /* of a mapping: the key that waits for its value */
  uint32_t depth, nodes, max_nodes, documents;
} builder;

static tn_status fail_at(const builder *b, const yaml_mark_t *m, const char *text) {
  char where[sizeof b->err->where];
  tni_place(where, sizeof where, b->doc->file, (uint32_t)m->line + 1, (uint32_t)m->column + 1);
  return tni_fail(b->err, TN_E_INVALID, where, "%s", text);
}

static tni_yaml *new_node(builder *b, const yaml_event_t *e, tni_yaml_kind kind) {
  tni_yaml *y = TNI_NEW(b->doc->arena, tni_yaml);
  if (!y) return NULL;
  y->kind = kind;
  y->line = (uint32_t)e->start_mark.line + 1;
  y->column = (uint32_t)e->start_mark.column + 1;
  return y;
}

static tn_status attach_key(builder *b, const yaml_event_t *e, const tni_yaml *y) {
  const tni_yaml *top = b->stack[b->depth - 1];
  if (y->kind != TNI_YAML_SCALAR)
    return fail_at(b, &e->start_mark, "a key must be a single word, not a list or mapping");
  for (const tni_yaml *c = top->child; c; c = c->next)
    if (strcmp(c->key->text, y->text) == 0)
      return tni_yaml_fail(b->doc, y, b->err, "key '%.64s' is given twice (first in line %u)", y->text, c->key->line);
  b->key[b->depth - 1] = y;
  return TN_OK;
}

static tn_status attach_node(builder *b, const yaml_event_t *e, tni_yaml *y) {
  if (!y) return tni_fail_memory(b->err, b->doc->file);
  if (++b->nodes > b->max_nodes) return fail_at(b, &e->start_mark, "too many entries");
  if (b->depth == 0) {
    b->root = y;
    return TN_OK;
  }
  uint32_t d = b->depth - 1;
  tni_yaml *top = b->stack[d];
  if (top->kind == TNI_YAML_MAP) {
    if (!b->key[d]) return attach_key(b, e, y);
    y->key = b->key[d];
    b->key[d] = NULL;
  }
  *b->tail[d] = y;
  b->tail[d] = &y->next;
  top->n++;
  return TN_OK;
}

static tn_status open_node(builder *b, const yaml_event_t *e, tni_yaml_kind kind) {
  tni_yaml *y = new_node(b, e, kind);
  tn_status st = attach_node(b, e, y);
  if (st != TN_OK) return st;
  if (b->depth == TNI_YAML_MAX_DEPTH) return fail_at(b, &e->start_mark, "nested too deeply");
  b->stack[b->depth] = y;
  b->tail[b->depth] = &y->child;
  b->key[b->depth] = NULL;
  b->depth++;
  return TN_OK;
}

static tn_status scalar_node(builder *b, const yaml_event_t *e) {
  const char *text = (const char *)e->data.scalar.value;
  size_t n = e->data.scalar.length;
  if (memchr(text, 0, n)) return fail_at(b, &e->start_mark, "a text holds a NUL character");
  tni_yaml *y = new_node(b, e, TNI_YAML_SCALAR);
  if (!y || !(y->text = tni_arena_strndup(b->doc->arena, text, n))) return tni_fail_memory(b->err, b->doc->file);
  y->plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  return attach_node(b, e, y);
}

static tn_status refuse_decoration(const builder *b, const yaml_event_t *e, const yaml_char_t *anchor,
                                   const yaml_char_t *tag) {
  if (anchor) return fail_at(b, &e->start_mark, "anchors (&name) are not supported here");
  if (tag) return fail_at(b, &e->start_mark, "tags (!name) are not supported here");
  return TN_OK;
}

static tn_status take_event(builder *b, const yaml_event_t *e) {
  tn_status st;
  switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
      return ++b->documents > 1 ? fail_at(b, &e->start_mark, "a second document (---) is not supported here") : TN_OK;
    case YAML_ALIAS_EVENT:
      return fail_at(b, &e->start_mark, "aliases (*name) are not supported here");
    case YAML_SCALAR_EVENT:
      st = refuse_decoration(b, e, e->data.scalar.anchor, e->data.scalar.tag);
      return st == TN_OK ? scalar_node(b, e) : st;
    case YAML_SEQUENCE_START_EVENT:
      st = refuse_decoration(b, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
      return st == TN_OK ? open_node(b, e, TNI_YAML_SEQ) : st;
    case YAML_MAPPING_START_EVENT:
      st = refuse_decoration(b, e, e->data.mapping_start.anchor, e->data.mapping_start.tag);
      return st == TN_OK ? open_node(b, e, TNI_YAML_MAP) : st;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      b->depth--;
      return TN_OK;
    default:
      return TN_OK;
  }
}

static tn_status parser_error(const builder *b, const yaml_parser_t *p) {
  if (p->error == YAML_MEMORY_ERROR) return tni_fail_memory(b->err, b->doc->file);
  char text[160];
  const char *problem = p->problem ? p->problem : "not YAML";
  if (p->error == YAML_READER_ERROR) {
    snprintf(text, sizeof text, "%s (byte %zu)", problem, p->problem_offset);
    return fail_at(b, &p->mark, text);
  }
  snprintf(text, sizeof text, "%s%s%s", p->context ? p->context : "", p->context ? ": " : "", problem);
  return fail_at(b, &p->problem_mark, text);
}

tn_status tni_yaml_parse(tni_yaml_doc *doc, const char *text, size_t n, tn_error *err) {
  const uint64_t max_bytes = doc->max_bytes ? doc->max_bytes : TNI_YAML_MAX_BYTES;
  builder b = {.doc = doc, .err = err, .max_nodes = doc->max_nodes ? doc->max_nodes : TNI_YAML_MAX_NODES};
  if (n > max_bytes)
    return tni_fail(err, TN_E_INVALID, doc->file, "%zu bytes is too large for this file (at most %llu)", n,
                    (unsigned long long)max_bytes);
  yaml_parser_t p;
  if (!yaml_parser_initialize(&p)) return tni_fail_memory(err, doc->file);
  yaml_parser_set_input_string(&p, (const unsigned char *)text, n);
  tn_status st = TN_OK;
  for (bool end = false; st == TN_OK && !end;) {
    yaml_event_t e;
    if (!yaml_parser_parse(&p, &e)) {
      st = parser_error(&b, &p);
      break;
    }
    end = e.type == YAML_STREAM_END_EVENT;
    st = take_event(&b, &e);
    yaml_event_delete(&e);
  }
  yaml_parser_delete(&p);
  if (st == TN_OK) doc->root = b.root;
  return st;
}
