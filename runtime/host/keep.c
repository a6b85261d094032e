/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's blocks of memory, and what it keeps on them of the graph that lower() was lent.
 */
#include "runtime/host/device.h"

struct tni_hblock {
  tni_hblock *next, *pad;
};

enum { FIRST_BLOCK = 1 << 10, MAX_BLOCK = 1 << 16 };

static unsigned char *add_block(tni_hpool *p, size_t bytes) {
  tni_hblock *b = p->host->alloc(p->host->ctx, sizeof *b + bytes, 16, TN_TAG_PLUGIN);
  if (!b) return NULL;
  b->next = p->first;
  p->first = b;
  return (unsigned char *)(b + 1);
}

void *tni_hpool_array(tni_hpool *p, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count ? count : 1, size, &bytes) || bytes > PTRDIFF_MAX - MAX_BLOCK) return NULL;
  bytes = (bytes + 15) & ~(size_t)15;
  const size_t next = !p->last ? FIRST_BLOCK : p->last < MAX_BLOCK ? 2 * p->last : MAX_BLOCK;
  unsigned char *at = p->at;
  if (bytes > next / 4 && bytes > p->room) { /* a block of its own: the current one stays in use */
    at = add_block(p, bytes);
    return at ? memset(at, 0, bytes) : NULL;
  }
  if (bytes > p->room) {
    if (!(at = add_block(p, next))) return NULL;
    p->room = p->last = next;
  }
  p->at = at + bytes;
  p->room -= bytes;
  return memset(at, 0, bytes);
}

void tni_hpool_free(tni_hpool *p) {
  while (p->first) {
    tni_hblock *next = p->first->next;
    p->host->free(p->host->ctx, p->first);
    p->first = next;
  }
  *p = (tni_hpool){.host = p->host};
}

/* *to is NULL where src is: an attribute that is absent differs from an empty list. */
static bool keep_bytes(tni_hpool *p, const void *src, size_t count, size_t size, const void **to) {
  void *copy = src ? tni_hpool_array(p, count, size) : NULL;
  if (copy && count) memcpy(copy, src, count * size);
  *to = copy;
  return copy || !src;
}

static const char *keep_text(tni_hpool *p, const char *text) {
  const void *copy;
  return keep_bytes(p, text ? text : "", text ? strlen(text) + 1 : 1, 1, &copy) ? copy : NULL;
}

static bool keep_texts(tni_hpool *p, tn_attr *a) {
  const char *const *from = a->u.strings;
  if (!from) return true;
  const char **to = tni_hpool_array(p, a->n, sizeof *to);
  a->u.strings = to;
  for (uint64_t i = 0; to && i < a->n; i++)
    if (!(to[i] = keep_text(p, from[i]))) return false;
  return to != NULL;
}

static bool keep_tensor(tni_hpool *p, tn_attr *a) {
  const tni_tensor *from = a->u.p;
  if (!from) return true;
  tni_tensor *to = tni_hpool_array(p, 1, sizeof *to);
  const void *data = NULL;
  if (!to || !keep_bytes(p, from->data, (size_t)from->bytes, 1, &data)) return false;
  *to = *from;
  to->data = (void *)(uintptr_t)data;
  a->u.p = to;
  return true;
}

/* Subgraphs are the session's: no kernel reads them. */
static bool keep_attr(tni_hpool *p, const tn_attr *from, tn_attr *a) {
  *a = *from;
  switch (a->type) {
    case TN_ATTR_INTS:
      return keep_bytes(p, from->u.ints, (size_t)a->n, sizeof *a->u.ints, &a->u.p);
    case TN_ATTR_FLOATS:
      return keep_bytes(p, from->u.floats, (size_t)a->n, sizeof *a->u.floats, &a->u.p);
    case TN_ATTR_STRING:
      return !a->u.s || (a->u.s = keep_text(p, from->u.s)) != NULL;
    case TN_ATTR_STRINGS:
      return keep_texts(p, a);
    case TN_ATTR_TENSOR:
      return keep_tensor(p, a);
    case TN_ATTR_GRAPH:
      a->n = 0;
      a->u.p = NULL;
      return true;
    default:
      return true;
  }
}

const tn_node *tni_hkeep_node(tni_hpool *p, const tn_node *from) {
  tn_node *n = tni_hpool_array(p, 1, sizeof *n);
  tn_attr *attrs = tni_hpool_array(p, from->n_attr, sizeof *attrs);
  const tn_attr **list = tni_hpool_array(p, from->n_attr, sizeof *list);
  const void *in, *out;
  if (!n || !attrs || !list || !keep_bytes(p, from->in, from->n_in, sizeof *from->in, &in) ||
      !keep_bytes(p, from->out, from->n_out, sizeof *from->out, &out))
    return NULL;
  *n = *from;
  n->in = in;
  n->out = out;
  n->attr = list;
  n->name = keep_text(p, from->name);
  n->domain = keep_text(p, from->domain);
  for (uint32_t i = 0; i < from->n_attr; i++) {
    if (from->attr[i] && !keep_attr(p, from->attr[i], &attrs[i])) return NULL;
    list[i] = from->attr[i] ? &attrs[i] : NULL;
  }
  return n->name && n->domain ? n : NULL;
}

const tn_value *tni_hkeep_value(tni_hpool *p, const tn_value *from) {
  tn_value *v = tni_hpool_array(p, 1, sizeof *v);
  const void *dims, *state;
  if (!v || !keep_bytes(p, from->dims, from->rank <= TN_MAX_RANK ? from->rank : 0, sizeof *from->dims, &dims) ||
      !keep_bytes(p, from->state, from->state ? 1 : 0, sizeof *from->state, &state))
    return NULL;
  *v = (tn_value){.h = from->h,
                  .kind = from->kind,
                  .dtype = from->dtype,
                  .rank = from->rank,
                  .dims = dims,
                  .producer = TN_NONE,
                  .origin = TN_NONE,
                  .state = state,
                  .name = keep_text(p, from->name)};
  return v->name ? v : NULL;
}
