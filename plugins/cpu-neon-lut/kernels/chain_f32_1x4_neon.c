/* SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>

#include "plugins/cpu-neon-lut/kernels/kernels.h"

enum { LANES = 4 };
typedef float32x4_t vf;
typedef float64x2_t vd;
typedef int32x4_t vi;

/* A double per lane. */
typedef struct wide {
  vd lo, hi;
} wide;

#define SET(v) vdupq_n_f32(v)
#define ADD(a, b) vaddq_f32(a, b)
#define SUB(a, b) vsubq_f32(a, b)
#define MUL(a, b) vmulq_f32(a, b)
#define DIV(a, b) vdivq_f32(a, b)
#define MAX(a, b) vmaxq_f32(a, b)
#define MIN(a, b) vminq_f32(a, b)
#define OR(a, b) FLOATS(vorrq_s32(INTS(a), INTS(b)))
#define AND(a, b) FLOATS(vandq_s32(INTS(a), INTS(b)))
#define ANDNOT(a, b) FLOATS(vbicq_s32(INTS(b), INTS(a)))
#define XOR(a, b) FLOATS(veorq_s32(INTS(a), INTS(b)))
#define LOAD(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define BY_SIGN(a, b, z) vbslq_f32(vreinterpretq_u32_s32(SRA(INTS(z), 31)), b, a)
#define WHERE_LESS(x, y, a, b) vbslq_f32(vcltq_f32(x, y), a, b)
#define RELU(x) WHERE_LESS(x, SET(0.0f), SET(0.0f), x)
#define SETD(v) vdupq_n_f64(v)
#define ADDD(a, b) vaddq_f64(a, b)
#define SUBD(a, b) vsubq_f64(a, b)
#define MULD(a, b) vmulq_f64(a, b)
#define MAXD(a, b) vmaxq_f64(a, b)
#define SETI(v) vdupq_n_s32(v)
#define ADDI(a, b) vaddq_s32(a, b)
#define SUBI(a, b) vsubq_s32(a, b)
#define SRA(v, n) vshrq_n_s32(v, n)
#define SHL(v, n) vshlq_n_s32(v, n)
#define FLOATS(v) vreinterpretq_f32_s32(v)
#define INTS(v) vreinterpretq_s32_f32(v)

static inline wide widen_floats(vf x) { return (wide){vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)}; }

static inline vf narrow_doubles(wide w) { return vcvt_high_f32_f64(vcvt_f32_f64(w.lo), w.hi); }

static inline wide wide_neg_abs(wide a) { return (wide){vnegq_f64(vabsq_f64(a.lo)), vnegq_f64(vabsq_f64(a.hi))}; }

#include "plugins/common/cpu/kernels/chain_template.h"

static const tni_cm_chain_kernels neon_chain_kernels = {CHAIN_KERNELS};

const tni_cm_chain_kernels *tni_arm_chain_f32_1x4_neon(void) { return &neon_chain_kernels; }
