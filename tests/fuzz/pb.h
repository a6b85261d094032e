/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX messages on an arena. Nothing is freed one by one; running out of memory ends the process.
 */
#ifndef TENON_FUZZ_PB_H
#define TENON_FUZZ_PB_H

#include <stdbool.h>

#include "onnx.pb-c.h"
#include "runtime/base/arena.h"

/* Never NULL. */
void *fz_alloc(tni_arena *a, size_t bytes);
char *fz_text(tni_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A message of its type, empty. */
void *fz_message(tni_arena *a, const ProtobufCMessageDescriptor *d);
#define FZ_NEW(arena, type, name) ((Onnx__##type *)fz_message((arena), &onnx__##name##__descriptor))
/* Room for one more pointer behind n of them: a new array with the old one's content. */
void *fz_grow(tni_arena *a, void *old, size_t n, size_t size);
/* Appends item to MESSAGE->FIELD, counted by MESSAGE->n_FIELD. */
#define FZ_PUSH(arena, m, field, item) \
  ((m)->field = fz_grow((arena), (m)->field, (m)->n_##field, sizeof *(m)->field), (m)->field[(m)->n_##field++] = (item))
#define FZ_SET(m, field, value) ((m)->has_##field = 1, (m)->field = (value))

/* The message in n bytes, or NULL: it is none, or nests deeper than models may. */
Onnx__ModelProto *fz_unpack(tni_arena *a, const void *bytes, size_t n);
/* A copy of the message on the arena. */
void *fz_copy(tni_arena *a, const ProtobufCMessage *m);
/* Packs into out of `room` bytes; 0 where it does not fit. */
size_t fz_pack(const ProtobufCMessage *m, uint8_t *out, size_t room);

/* A tensor of these dims with content from the seed. dims may be NULL for rank 0. */
Onnx__TensorProto *fz_tensor(tni_arena *a, const char *name, uint32_t dtype, const int64_t *dims, uint32_t rank,
                             uint64_t seed);
/* int64 [n], or a scalar where n is negative. */
Onnx__TensorProto *fz_ints(tni_arena *a, const char *name, const int64_t *v, int32_t n);
/* A tensor's type: dims of -1 get a name out of a few. rank -1: unknown. */
Onnx__ValueInfoProto *fz_info(tni_arena *a, const char *name, uint32_t dtype, const int64_t *dims, int32_t rank);
Onnx__ModelProto *fz_new_model(tni_arena *a, int64_t opset);

#endif
