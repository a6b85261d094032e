/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/types.h: what the application API and the vendor ABI share.
 *
 * Statuses, errors, data types and the header that every growing struct starts with. Fixed-width integers only;
 * LP64, little endian. Nothing here allocates and nothing is owned by anybody.
 */
#ifndef TENON_TYPES_H
#define TENON_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_MUST_CHECK __attribute__((warn_unused_result))
#define TN_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define TN_MUST_CHECK
#define TN_PRINTF(f, a)
#endif

/* 0 is success. An unknown code counts as TN_E_INTERNAL, its number is kept in the message. */
typedef int32_t tn_status;
enum {
  TN_OK = 0,
  TN_E_INVALID = 1,      /* bad input: model, profile, tokenizer, data, argument */
  TN_E_UNSUPPORTED = 2,  /* understood, but nobody here can run it */
  TN_E_UNAVAILABLE = 3,  /* a device, driver or file that is not there (now) */
  TN_E_INCOMPATIBLE = 4, /* versions or architectures that do not meet */
  TN_E_DEVICE_LOST = 5,  /* the device failed; what it held is gone */
  TN_E_CORRUPT = 6,      /* data whose checksum or structure is wrong */
  TN_E_NO_MEMORY = 7,    /* allocation failed or over the budget */
  TN_E_CANCELLED = 8,    /* somebody asked to stop */
  TN_E_INTERNAL = 9,     /* our bug, or a plugin's */
  TN_E_IO = 10,          /* the operating system failed a read or write */
  TN_E_LIMIT = 11        /* a stated limit would be passed (context length, depth, count) */
};

/* Index of a node, value, slot, need, task or symbol. */
typedef uint32_t tn_id;
#define TN_NONE UINT32_MAX

/* Interned symbolic integer of one graph: the same id means proved equal. */
typedef uint32_t tn_expr;

/* First member of every growing struct. A field exists if it lies wholly inside `size`; size 0 is always refused. */
typedef struct tn_hdr {
  uint32_t size;
  uint16_t major, minor;
} tn_hdr;

/* Bytes of a growing struct up to and with member m: what h.size of the other side's struct is compared with. Never
 * with sizeof, which is another in each minor; and the other side's struct is never copied by assignment. */
#define TN_UPTO(type, m) (offsetof(type, m) + sizeof(((const type *)0)->m))
/* True if member m of the growing struct *p lies inside p->h.size. */
#define TN_HAS(p, type, m) ((p)->h.size >= TN_UPTO(type, m))

/* Caller-owned error: zero or initialised by the caller, overwritten by each call that fails (an earlier one may have left
 * its code and text there), freed by nobody. `node`/`task` are TN_NONE where unknown. A message that is too long ends with
 * "…"; tn_long_error has room for all of it. */
typedef struct tn_error {
  tn_hdr h;
  int32_t code;        /* TN_E_* */
  int32_t vendor_code; /* the driver's own number, 0 if none */
  tn_id node, task;
  char message[256]; /* what is wrong and with what */
  char where[128];   /* file, file:line:column, node, tensor or key; may be empty */
} tn_error;

/* A tn_error with the whole message after it, for applications: tn_long_error_init, then `&e.error` wherever a call
 * takes a tn_error. The text is the last TN_ERROR_TEXT bytes of error.h.size; tn_error_text reads it. */
#define TN_ERROR_TEXT 3688
typedef struct tn_long_error {
  tn_error error;
  char text[TN_ERROR_TEXT];
} tn_long_error;

/* Data types carry the numbers of ONNX TensorProto.DataType (onnx.proto, 1.23). Appended only. */
typedef uint32_t tn_dtype;
enum {
  TN_DT_UNDEFINED = 0,
  TN_DT_F32 = 1,
  TN_DT_U8 = 2,
  TN_DT_I8 = 3,
  TN_DT_U16 = 4,
  TN_DT_I16 = 5,
  TN_DT_I32 = 6,
  TN_DT_I64 = 7,
  TN_DT_STRING = 8,
  TN_DT_BOOL = 9,
  TN_DT_F16 = 10,
  TN_DT_F64 = 11,
  TN_DT_U32 = 12,
  TN_DT_U64 = 13,
  TN_DT_C64 = 14,
  TN_DT_C128 = 15,
  TN_DT_BF16 = 16,
  TN_DT_F8E4M3FN = 17,
  TN_DT_F8E4M3FNUZ = 18,
  TN_DT_F8E5M2 = 19,
  TN_DT_F8E5M2FNUZ = 20,
  TN_DT_U4 = 21,
  TN_DT_I4 = 22,
  TN_DT_F4E2M1 = 23,
  TN_DT_F8E8M0 = 24,
  TN_DT_U2 = 25,
  TN_DT_I2 = 26,
  TN_DT_COUNT = 27
};

#define TN_MAX_RANK 8

/* Phases of a language model; TN_PHASE_ANY is used where a profile makes no difference between them. */
enum { TN_PHASE_ANY = 0, TN_PHASE_PREFILL = 1, TN_PHASE_DECODE = 2 };

enum { TN_LOG_ERROR = 0, TN_LOG_WARN = 1, TN_LOG_INFO = 2, TN_LOG_DEBUG = 3 };

#ifdef __cplusplus
}
#endif
#endif
