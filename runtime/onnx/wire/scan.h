/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded scan of the protobuf wire format.
 *
 * protobuf-c copies every byte of a message and recurses as deep as the file says. The scan walks the mapped bytes
 * first, driven by the generated descriptors, and writes a stripped message that protobuf-c may safely take:
 *   - every length, tag and wire type is checked against the bytes that are there;
 *   - payloads of TensorProto of TNI_SPAN_MIN bytes or more (raw_data and the packed typed fields) are left out; in
 * their place stands the private field tenon_span with the index of a tni_payload, so that a tensor finds its payload
 * whatever order or nesting the file has. A field of that number in the file is dropped;
 *   - fields that the schema does not list are dropped;
 *   - nesting, the stripped size and the count of spans are bounded.
 * A stripped message is never longer than the bytes it replaces, so a rewritten length always fits where the old one
 * was (padded with continuation bits).
 */
#ifndef TENON_ONNX_SCAN_H
#define TENON_ONNX_SCAN_H

#include <protobuf-c/protobuf-c.h>

#include "runtime/base/base.h"

enum { TNI_SPAN_MIN = 1024, TNI_MAX_SPANS = 1 << 24 };

/* A payload that stayed in the file: bytes [offset, offset + bytes), of TensorProto field `field`. */
typedef struct tni_payload {
  uint64_t offset, bytes;
  uint32_t field, reserved;
} tni_payload;

typedef struct tni_stripped {
  uint8_t *msg; /* malloc'd */
  size_t bytes;
  tni_payload *spans; /* malloc'd */
  uint32_t n_spans;
} tni_stripped;

typedef struct tni_scan_limits {
  uint32_t max_graphs; /* graphs within graphs; messages nest at most 4 * max_graphs + 8 deep */
  uint64_t max_meta;   /* bytes of the stripped message */
} tni_scan_limits;

/* Scans n bytes as a message of type `root`. TN_E_CORRUPT (with the offset and the path of fields), TN_E_LIMIT,
 * TN_E_NO_MEMORY. file is for messages. */
TN_MUST_CHECK tn_status tni_scan(const ProtobufCMessageDescriptor *root, const void *bytes, uint64_t n,
                                 const tni_scan_limits *lim, const char *file, tni_stripped *out, tn_error *err);
void tni_stripped_finish(tni_stripped *s);

/* Unpacks s on an arena made for it (destroy it to free the message). At most max_bytes are taken: TN_E_LIMIT. */
TN_MUST_CHECK tn_status tni_unpack(const ProtobufCMessageDescriptor *root, const tni_stripped *s, uint64_t max_bytes,
                                   const char *file, tni_arena **arena, ProtobufCMessage **out, tn_error *err);

/* Decodes one varint from [p, end). Returns its bytes, 0 when it is cut or longer than 10 bytes. */
unsigned tni_varint(const uint8_t *p, const uint8_t *end, uint64_t *v);

#endif
