/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by outer products whose left side lies in rows: a block of L rows by L words is written to the rows of za3 and
 * read by its columns. L: words of a vector.
 */
#include "plugins/cpu-neon-lut/kernels/macros_sme.h"

/* A block of words to za3: at most `left` rows of those from `base` on, pitch bytes apart, and of these the words from
 * `at` on, of `of`. x11: how many columns it has; w12 is 0. */
    .macro block_in_za base, pitch, left, at, of
    whilelo p1.s, \at, \of
    add x10, \base, \at, lsl #2
    mov w12, #0
.Lin\@:
    cmp x12, \left
    b.hs .Lall\@
    ld1w {za3h.s[w12, 0]}, p1/z, [x10]
    add x10, x10, \pitch
    add w12, w12, #1
    cmp x12, lanes
    b.lo .Lin\@
.Lall\@:
    sub x11, \of, \at
    cmp x11, lanes
    csel x11, x11, lanes, lo
    mov w12, #0
    .endm

/* c[M,N] = a[M,K] * b[K,N] in f32 (kernel.h: tni_clt_matmul, in x0): FMOPA adds to each element one product, rounded
 * once, and so it is the chain over k that is declared. L rows by 3 L columns at a time. */
#define A 0
#define B 8
#define C 16
#define LDA 24
#define LDB 32
#define LDC 40
#define M 48
#define N 56
#define K 64

    .text
    .p2align 4
    .globl tni_arm_matmul_f32_f32_f32_16x48_sme
    .type tni_arm_matmul_f32_f32_f32_16x48_sme, %function
tni_arm_matmul_f32_f32_f32_16x48_sme:
    enter
    ldr x19, [x0, #A]
    ldr x20, [x0, #LDA]
    ldr x21, [x0, #LDB]
    ldr x22, [x0, #LDC]
    lsl x20, x20, #2
    lsl x21, x21, #2
    lsl x22, x22, #2
    ldr x23, [x0, #M] /* rows left */
    ldr x24, [x0, #N]
    ldr x25, [x0, #K]
    ldr x26, [x0, #C]
    cbz x23, .Lmatmul_end
    cbz x24, .Lmatmul_end
.Lmatmul_rows:
    mov x3, #0 /* column */
.Lmatmul_columns:
    whilelo p2.s, x3, x24
    add x9, x3, lanes
    whilelo p3.s, x9, x24
    add x9, x9, lanes
    whilelo p4.s, x9, x24
    zero {za0.s, za1.s, za2.s}
    mov x4, #0 /* k */
    ldr x5, [x0, #B]
    add x5, x5, x3, lsl #2
    cbz x25, .Lmatmul_store
.Lmatmul_k:
    block_in_za x19, x20, x23, x4, x25
.Lmatmul_column:
    mova z0.s, p0/m, za3v.s[w12, 0]
    ld1w {z1.s}, p2/z, [x5]
    ld1w {z2.s}, p3/z, [x5, #1, mul vl]
    ld1w {z3.s}, p4/z, [x5, #2, mul vl]
    fmopa za0.s, p0/m, p0/m, z0.s, z1.s
    fmopa za1.s, p0/m, p0/m, z0.s, z2.s
    fmopa za2.s, p0/m, p0/m, z0.s, z3.s
    add x5, x5, x21
    add w12, w12, #1
    cmp x12, x11
    b.lo .Lmatmul_column
    add x4, x4, lanes
    cmp x4, x25
    b.lo .Lmatmul_k
.Lmatmul_store:
    mov w12, #0
    add x10, x26, x3, lsl #2
    lsl x9, bytes, #1
.Lmatmul_out:
    st1w {za0h.s[w12, 0]}, p2, [x10]
    add x11, x10, bytes
    st1w {za1h.s[w12, 0]}, p3, [x11]
    add x11, x10, x9
    st1w {za2h.s[w12, 0]}, p4, [x11]
    add x10, x10, x22
    add w12, w12, #1
    cmp x12, x23
    b.hs .Lmatmul_next
    cmp x12, lanes
    b.lo .Lmatmul_out
.Lmatmul_next:
    add x3, x3, lanes
    add x3, x3, lanes, lsl #1
    cmp x3, x24
    b.lo .Lmatmul_columns
    madd x19, x20, lanes, x19
    madd x26, x22, lanes, x26
    subs x23, x23, lanes
    b.hi .Lmatmul_rows
.Lmatmul_end:
    leave
    .size tni_arm_matmul_f32_f32_f32_16x48_sme, . - tni_arm_matmul_f32_f32_f32_16x48_sme

/* Sums of bytes (kernel.h: tni_clt_bytes_fn): x0: the two blocks; x1: quads; x2: a; x3: lda; x4: rows; x5: next, not
 * asked for; x6: acc. L rows by 2 L outputs at a time. */
    .p2align 4
    .globl tni_arm_bytes_s32_u8_s8_16x32_sme
    .type tni_arm_bytes_s32_u8_s8_16x32_sme, %function
tni_arm_bytes_s32_u8_s8_16x32_sme:
    mov x5, x1
    mov x7, x2
    enter
    ldp x20, x21, [x0]
    cbz x4, .Lbytes_end
.Lbytes_rows:
    mov x22, #0 /* bytes of a quad before the first of the tiles' outputs, of both blocks */
.Lbytes_columns:
    add x9, x22, bytes
    and x13, x22, #63
    and x14, x9, #63
    cmp x22, #64
    csel x15, x20, x21, lo
    cmp x9, #64
    csel x16, x20, x21, lo
    add x15, x15, x13
    add x16, x16, x14
    zero {za0.s, za1.s}
    mov x17, #0 /* quad */
.Lbytes_k:
    block_in_za x7, x3, x4, x17, x5
.Lbytes_column:
    mova z0.s, p0/m, za3v.s[w12, 0]
    ld1b {z1.b}, p0/z, [x15]
    ld1b {z2.b}, p0/z, [x16]
    add x15, x15, #64
    add x16, x16, #64
    add w12, w12, #1
    outer_us 0, 0, 1
    outer_us 1, 0, 2
    cmp x12, x11
    b.lo .Lbytes_column
    add x17, x17, lanes
    cmp x17, x5
    b.lo .Lbytes_k
    mov w12, #0
    add x10, x6, x22
.Lbytes_out:
    st1w {za0h.s[w12, 0]}, p0, [x10]
    add x11, x10, bytes
    st1w {za1h.s[w12, 0]}, p0, [x11]
    add x10, x10, #128
    add w12, w12, #1
    cmp x12, x4
    b.hs .Lbytes_next
    cmp x12, lanes
    b.lo .Lbytes_out
.Lbytes_next:
    add x22, x22, bytes, lsl #1
    cmp x22, #128
    b.lo .Lbytes_columns
    madd x7, x3, lanes, x7
    add x6, x6, lanes, lsl #7
    subs x4, x4, lanes
    b.hi .Lbytes_rows
.Lbytes_end:
    leave
    .size tni_arm_bytes_s32_u8_s8_16x32_sme, . - tni_arm_bytes_s32_u8_s8_16x32_sme

/* One SMOPA: x0: x; x1: weights, a vector of each; x2: sums, rows 64 bytes apart. */
    .p2align 4
    .globl tni_arm_smopa
    .type tni_arm_smopa, %function
tni_arm_smopa:
    mov x3, x1
    mov x4, x2
    enter
    ptrue p0.b
    zero {za}
    ld1b {z0.b}, p0/z, [x0]
    ld1b {z1.b}, p0/z, [x3]
    outer 0, 0, 1
    mov w12, #0
.Lrow:
    st1w {za0h.s[w12, 0]}, p0, [x4]
    add x4, x4, #64
    add w12, w12, #1
    cmp x12, lanes
    b.lo .Lrow
    leave
    .size tni_arm_smopa, . - tni_arm_smopa

    .section .note.GNU-stack, "", %progbits
