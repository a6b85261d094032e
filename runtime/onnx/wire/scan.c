/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/onnx/wire/scan.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"

enum { SPAN_FIELD = 536870911, WIRE_VARINT = 0, WIRE_64 = 1, WIRE_LEN = 2, WIRE_32 = 5 };

/* One open message; the chain leads to the root. */
typedef struct scan_frame {
  const struct scan_frame *up;
  const ProtobufCMessageDescriptor *desc;
  const char *name; /* the field it stands in; NULL for the root */
  uint64_t end;     /* offset after it */
  uint32_t depth, graphs;
  uint64_t seen; /* bit i: the i-th field, singular and a message, was there */
} scan_frame;

typedef struct scan {
  const uint8_t *p;
  uint64_t n, at;
  const tni_scan_limits *lim;
  const char *file;
  tn_error *err;
  uint8_t *out;
  size_t out_n, out_cap;
  tni_payload *spans;
  uint32_t n_spans, cap_spans;
} scan;

/* A field's tag as read, and where it began. */
typedef struct tag {
  uint64_t at;
  uint32_t number, wire;
  const ProtobufCFieldDescriptor *field; /* NULL: not in the schema */
} tag;

unsigned tni_varint(const uint8_t *p, const uint8_t *end, uint64_t *v) {
  uint64_t x = 0;
  for (unsigned i = 0; i < 10 && p + i < end; i++) {
    x |= (uint64_t)(p[i] & 0x7f) << (7 * i);
    if (!(p[i] & 0x80)) {
      *v = x;
      return i + 1;
    }
  }
  return 0;
}

/* "graph.node.attribute"; the outer part is cut where it is too long. */
static void path_of(const scan_frame *f, const ProtobufCFieldDescriptor *field, char *buf, size_t cap) {
  size_t at = cap - 1;
  buf[at] = '\0';
  const char *name = field ? field->name : NULL;
  while (name || f) {
    if (name) {
      size_t n = strlen(name);
      if (n + 4 > at) {
        at -= 3;
        memcpy(buf + at, "...", 3);
        break;
      }
      if (buf[at]) buf[--at] = '.';
      at -= n;
      memcpy(buf + at, name, n);
    }
    if (!f) break;
    name = f->name;
    f = f->up;
  }
  memmove(buf, buf + at, cap - at);
}

static tn_status corrupt_message(scan *s, const scan_frame *f, const tag *t, const char *what) {
  char path[120];
  path_of(f, t ? t->field : NULL, path, sizeof path);
  return tni_fail(s->err, TN_E_CORRUPT, s->file, "offset %" PRIu64 "%s%s: %s", t ? t->at : s->at, *path ? ", " : "",
                  path, what);
}

static tn_status emit_payload(scan *s, const uint8_t *p, size_t n) {
  if (n > s->out_cap - s->out_n) {
    if (n > s->lim->max_meta || s->out_n > s->lim->max_meta - n)
      return tni_fail(s->err, TN_E_LIMIT, s->file,
                      "the model without tensor data passes the limit of %" PRIu64 " bytes", s->lim->max_meta);
    size_t cap = s->out_cap ? s->out_cap * 2 : 4096;
    while (cap - s->out_n < n) cap *= 2; /* n and out_n are below max_meta */
    uint8_t *bigger = realloc(s->out, cap);
    if (!bigger) return tni_fail_memory(s->err, s->file);
    s->out = bigger;
    s->out_cap = cap;
  }
  memcpy(s->out + s->out_n, p, n);
  s->out_n += n;
  return TN_OK;
}

static tn_status add_span(scan *s, uint32_t field, uint64_t offset, uint64_t bytes) {
  if (s->n_spans == s->cap_spans) {
    if (s->n_spans >= TNI_MAX_SPANS)
      return tni_fail(s->err, TN_E_LIMIT, s->file, "more than %d tensors", TNI_MAX_SPANS);
    uint32_t cap = s->cap_spans ? s->cap_spans * 2 : 64;
    tni_payload *bigger = realloc(s->spans, cap * sizeof *bigger);
    if (!bigger) return tni_fail_memory(s->err, s->file);
    s->spans = bigger;
    s->cap_spans = cap;
  }
  s->spans[s->n_spans] = (tni_payload){offset, bytes, field, 0};
  /* Tag of field 2^29 - 1 with wire type 0, then the index. */
  uint8_t mark[10] = {0xf8, 0xff, 0xff, 0xff, 0x0f};
  size_t n = 5;
  for (uint32_t v = s->n_spans++;; v >>= 7) {
    mark[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
    if (v <= 0x7f) break;
  }
  return emit_payload(s, mark, n);
}

static uint32_t wire_of(const ProtobufCFieldDescriptor *f) {
  switch (f->type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
      return WIRE_32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
      return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
      return WIRE_LEN;
    default:
      return WIRE_VARINT;
  }
}

static bool is_payload(const scan_frame *f, const ProtobufCFieldDescriptor *field) {
  if (f->desc != &onnx__tensor_proto__descriptor) return false;
  switch (field->id) {
    case 4:
    case 5:
    case 7:
    case 9:
    case 10:
    case 11:
      return true;
    default:
      return false;
  }
}

/* Packed elements must end where their field ends: protobuf-c would only say "no". */
static bool packed_ok(uint32_t wire, const uint8_t *p, uint64_t n) {
  if (wire == WIRE_32) return n % 4 == 0;
  if (wire == WIRE_64) return n % 8 == 0;
  const uint8_t *end = p + n;
  uint64_t v;
  while (p < end) {
    unsigned k = tni_varint(p, end, &v);
    if (!k) return false;
    p += k;
  }
  return true;
}

static tn_status read_tag(scan *s, const scan_frame *f, tag *t) {
  *t = (tag){.at = s->at};
  uint64_t v;
  unsigned k = tni_varint(s->p + s->at, s->p + f->end, &v);
  if (!k || k > 5 || v > UINT32_MAX || v >> 3 == 0) return corrupt_message(s, f, t, "not a field tag");
  s->at += k;
  t->number = (uint32_t)(v >> 3);
  t->wire = (uint32_t)(v & 7);
  if (t->number != SPAN_FIELD) t->field = protobuf_c_message_descriptor_get_field(f->desc, t->number);
  return TN_OK;
}

static tn_status scan_message(scan *s, scan_frame *f);

static tn_status scan_nested(scan *s, scan_frame *f, const tag *t, unsigned len_bytes, uint64_t len) {
  const ProtobufCMessageDescriptor *d = t->field->descriptor;
  bool graph = d == &onnx__graph_proto__descriptor || d == &onnx__function_proto__descriptor;
  scan_frame sub = {.up = f, .desc = d, .name = t->field->name, .end = s->at + len, .depth = f->depth + 1};
  sub.graphs = f->graphs + graph;
  if (sub.graphs > s->lim->max_graphs)
    return tni_fail(s->err, TN_E_LIMIT, s->file, "offset %" PRIu64 ": graphs nest deeper than %u", t->at,
                    s->lim->max_graphs);
  if (sub.depth > 4 * s->lim->max_graphs + 8)
    return tni_fail(s->err, TN_E_LIMIT, s->file, "offset %" PRIu64 ": messages nest deeper than %u", t->at,
                    4 * s->lim->max_graphs + 8);
  if (t->field->label != PROTOBUF_C_LABEL_REPEATED) {
    uint64_t bit = UINT64_C(1) << (size_t)(t->field - f->desc->fields);
    if (f->seen & bit) return corrupt_message(s, f, t, "stands twice");
    f->seen |= bit;
  }
  /* Tag and length as they are in the file; the length is set afterwards. */
  tn_status st = emit_payload(s, s->p + t->at, (size_t)(s->at - t->at));
  if (st) return st;
  size_t body = s->out_n;
  st = scan_message(s, &sub);
  if (st) return st;
  uint64_t left = s->out_n - body;
  for (unsigned i = 0; i < len_bytes; i++, left >>= 7)
    s->out[body - len_bytes + i] = (uint8_t)((left & 0x7f) | (i + 1 < len_bytes ? 0x80 : 0));
  return TN_OK;
}

static tn_status scan_length(scan *s, scan_frame *f, const tag *t) {
  uint64_t len;
  unsigned k = tni_varint(s->p + s->at, s->p + f->end, &len);
  if (!k || k > 5) return corrupt_message(s, f, t, "its length is not a number");
  s->at += k;
  if (len > f->end - s->at) {
    char why[120];
    snprintf(why, sizeof why, "%" PRIu64 " bytes are announced, %s has %" PRIu64 " left", len,
             f->end == s->n ? "the file" : "its message", f->end - s->at);
    return corrupt_message(s, f, t, why);
  }
  const ProtobufCFieldDescriptor *field = t->field;
  if (!field) {
    s->at += len;
    return TN_OK;
  }
  if (field->type == PROTOBUF_C_TYPE_MESSAGE) return scan_nested(s, f, t, k, len);
  uint32_t wire = wire_of(field);
  if (wire != WIRE_LEN && field->label != PROTOBUF_C_LABEL_REPEATED) return corrupt_message(s, f, t, "wrong wire type");
  uint64_t body = s->at;
  s->at += len;
  if (len >= TNI_SPAN_MIN && is_payload(f, field)) return add_span(s, field->id, body, len);
  if (wire != WIRE_LEN && !packed_ok(wire, s->p + body, len)) return corrupt_message(s, f, t, "broken packed numbers");
  return emit_payload(s, s->p + t->at, (size_t)(s->at - t->at));
}

static tn_status scan_scalar(scan *s, scan_frame *f, const tag *t) {
  uint64_t v, n = t->wire == WIRE_64 ? 8 : 4;
  if (t->wire == WIRE_VARINT) n = tni_varint(s->p + s->at, s->p + f->end, &v);
  if (n == 0 || n > f->end - s->at) return corrupt_message(s, f, t, "a number is cut off");
  s->at += n;
  if (!t->field) return TN_OK;
  if (wire_of(t->field) != t->wire) return corrupt_message(s, f, t, "wrong wire type");
  return emit_payload(s, s->p + t->at, (size_t)(s->at - t->at));
}

static tn_status scan_message(scan *s, scan_frame *f) {
  while (s->at < f->end) {
    tag t;
    tn_status st = read_tag(s, f, &t);
    if (st) return st;
    if (t.wire == WIRE_LEN) {
      st = scan_length(s, f, &t);
    } else if (t.wire == WIRE_VARINT || t.wire == WIRE_32 || t.wire == WIRE_64) {
      st = scan_scalar(s, f, &t);
    } else {
      st = corrupt_message(s, f, &t, "unknown wire type");
    }
    if (st) return st;
  }
  return TN_OK;
}

tn_status tni_scan(const ProtobufCMessageDescriptor *root, const void *bytes, uint64_t n, const tni_scan_limits *lim,
                   const char *file, tni_stripped *out, tn_error *err) {
  scan s = {.p = bytes, .n = n, .lim = lim, .file = file, .err = err};
  scan_frame f = {.desc = root, .end = n, .depth = 1};
  tn_status st = n ? scan_message(&s, &f) : tni_fail(err, TN_E_CORRUPT, file, "the file is empty");
  if (st) {
    free(s.out);
    free(s.spans);
    return st;
  }
  *out = (tni_stripped){s.out, s.out_n, s.spans, s.n_spans};
  return TN_OK;
}

void tni_stripped_finish(tni_stripped *s) {
  free(s->msg);
  free(s->spans);
  *s = (tni_stripped){0};
}

typedef struct budget {
  tni_arena *arena;
  uint64_t left;
  bool over, no_memory;
} budget;

static void *take_scanned(void *user, size_t n) {
  budget *b = user;
  if (n > b->left) {
    b->over = true;
    return NULL;
  }
  b->left -= n;
  void *p = tni_arena_alloc(b->arena, n ? n : 1, 16);
  if (!p) b->no_memory = true;
  return p;
}

static void drop_scanned(void *user, void *p) { (void)user, (void)p; }

tn_status tni_unpack(const ProtobufCMessageDescriptor *root, const tni_stripped *s, uint64_t max_bytes,
                     const char *file, tni_arena **arena, ProtobufCMessage **out, tn_error *err) {
  budget b = {.arena = tni_arena_create(), .left = max_bytes};
  if (!b.arena) return tni_fail_memory(err, file);
  ProtobufCAllocator alloc = {take_scanned, drop_scanned, &b};
  ProtobufCMessage *m = protobuf_c_message_unpack(root, &alloc, s->bytes, s->msg ? s->msg : (const uint8_t *)"");
  if (!m) {
    tni_arena_destroy(b.arena);
    if (b.over)
      return tni_fail(err, TN_E_LIMIT, file, "the model without tensor data takes more than %" PRIu64 " bytes unpacked",
                      max_bytes);
    if (b.no_memory) return tni_fail_memory(err, file);
    return tni_fail(err, TN_E_CORRUPT, file, "not a protobuf message of type %s", root->name);
  }
  *arena = b.arena;
  *out = m;
  return TN_OK;
}
