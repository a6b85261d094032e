/* SPDX-License-Identifier: Apache-2.0
 *
 * A small writer of protobuf's wire format, and of ONNX messages with it: the tests build their models by hand, also
 * those that no ONNX library would write. Buffers grow and abort without memory (these are tests).
 */
#ifndef TENON_TESTS_ONNX_WIRE_H
#define TENON_TESTS_ONNX_WIRE_H

#include <stddef.h>
#include <stdint.h>

typedef struct wbuf {
  uint8_t *p;
  size_t n, cap;
} wbuf;

void wb_raw(wbuf *b, const void *p, size_t n);
void wb_free(wbuf *b);
void wb_varint(wbuf *b, uint64_t v);
void wb_int(wbuf *b, uint32_t field, int64_t v);
void wb_f32(wbuf *b, uint32_t field, float v);
void wb_bytes(wbuf *b, uint32_t field, const void *p, size_t n);
void wb_str(wbuf *b, uint32_t field, const char *s);
/* Takes sub over and frees it. */
void wb_msg(wbuf *b, uint32_t field, wbuf sub);
/* Packed varints. */
void wb_packed(wbuf *b, uint32_t field, const int64_t *v, size_t n);

/* Fields of the messages that follow. */
enum { G_NODE = 1, G_NAME = 2, G_INIT = 5, G_INPUT = 11, G_OUTPUT = 12, G_INFO = 13, G_SPARSE = 15 };
enum { M_IR = 1, M_GRAPH = 7, M_OPSET = 8, M_FUNCTION = 25 };
enum { F_NAME = 1, F_INPUT = 4, F_OUTPUT = 5, F_NODE = 7, F_OPSET = 9, F_DOMAIN = 10, F_DEFAULT = 11 };
enum {
  T_DIMS = 1,
  T_TYPE = 2,
  T_FLOAT = 4,
  T_INT32 = 5,
  T_STRING = 6,
  T_INT64 = 7,
  T_NAME = 8,
  T_RAW = 9,
  T_DOUBLE = 10,
  T_UINT64 = 11,
  T_EXTERNAL = 13,
  T_LOCATION = 14
};

/* dims as text: "2,seq,?": numbers, names, unknown; "'-1": that text as a name. NULL: no shape. */
wbuf onnx_value(const char *name, int dtype, const char *dims);
/* Without data. dims: "2,3"; "" is a scalar. */
wbuf onnx_tensor(const char *name, int dtype, const char *dims);
wbuf onnx_tensor_raw(const char *name, int dtype, const char *dims, const void *data, size_t n);
wbuf onnx_external(const char *name, int dtype, const char *dims, const char *location, const char *offset,
                   const char *length);
/* in, out: "a,b,,c"; an empty text is no name at all. Attributes are added to the result with wb_msg(n, 5, attr). */
wbuf onnx_node(const char *type, const char *name, const char *in, const char *out);
wbuf onnx_attr_int(const char *name, int64_t v);
wbuf onnx_attr_float(const char *name, float v);
wbuf onnx_attr_str(const char *name, const char *v);
wbuf onnx_attr_ints(const char *name, const int64_t *v, size_t n);
wbuf onnx_attr_msg(const char *name, int type, uint32_t field, wbuf sub); /* 4: tensor (field 5), 5: graph (field 6) */
wbuf onnx_attr_ref(const char *name, int type, const char *ref);
wbuf onnx_opset(const char *domain, int64_t version);
/* IR 8, opset, graph (taken over). */
wbuf onnx_model(wbuf graph, int64_t opset);

#endif
