/* SPDX-License-Identifier: Apache-2.0
 *
 * A panel of weights times rows of x by SMOPA (tiles_sme.h), two tiles of L rows by L outputs at a time, where L = 4, 8
 * or 16 are the words of a vector. za0 and za1 hold the sums of a group, za2 and za3 the results. In assembly because
 * gcc 12 has no intrinsics for it, and because in streaming mode a compiler may not put in what it likes.
 *
 * tni_arm_tiles_sme ends a group row by row. tni_arm_tiles_sme2 takes four rows at a time, makes their scales by an
 * outer product (FMOPA on zeros rounds once, as FMUL does), and has LUTI4 and LUTI2 make bytes of codes. Both give the
 * bits of every other tier: y = fma((float)sum, weight scale * activation scale, y).
 *
 * Instructions of SME2 are numbers here, since Debian 12's assembler knows SME alone. A test puts sequences of others in
 * their place and in SMOPA's (TNI_SME_MACROS, a file): Debian 12's emulator lacks SME2, and its SMOPA is wrong.
 */
#include "plugins/cpu-neon-lut/kernels/macros_sme.h"

/* tni_sme_call. */
#define CODES 0
#define SCALE 8
#define WHOLE 16
#define REST 24
#define Q 32
#define X_SCALE 40
#define START 48
#define ACC 56
#define Q_STRIDE 64
#define S_STRIDE 72
#define Z_STRIDE 80
#define GROUPS 88
#define QUADS 96
#define BEGIN 104
#define END 112
#define KIND 120
#define ENDING 128
#define TABLE 136

/* x8 to x12, x27: for a moment, but w8 = 0 and w9 = 8 pick rows of ZA in SME2's instructions, w12 in SME's. z24, z28,
 * z29, z30: words where sums begin, rest, whole and scale of a group. z0 to z3: four quads of weights; z4 to z7 and z8
 * to z11: of x. p0: everything; pn8 too. */
call .req x0
column .req x3 /* first output of the tiles, in bytes */
row .req x4 /* their first row */
group .req x5 /* groups left */
codes .req x6
scale .req x7
at64 .req x13
at128 .req x14
at192 .req x15
x_codes0 .req x16
x_codes1 .req x17
x_scale0 .req x19
x_scale1 .req x20
start0 .req x21
start1 .req x22
w .req x23
left .req x24
whole .req x25
rest .req x26
end .req x28

#ifndef TNI_SME_MACROS
/* Four rows of a tile: t: the tile; u, of units: rows u, u + units, u + 2 units, u + 3 units, which as rows of the whole
 * of ZA are 4 u + t and those a quarter, a half and three quarters of it further. d, a, b: the first of four
 * registers. */
#define PLACE(t, u) ((4 * (u) + (t)) % 8)
#define BASE(u) (((u) / 2) << 13)
    .macro rows_out d, t, u, units /* mova {d ..}.d, za.d[w8, .., vgx4] */
    .inst 0xc0060c00 | BASE(\u) | PLACE(\t, \u) << 5 | (\d)
    .endm
    .macro rows_in a, t, u, units /* mova za.d[w8, .., vgx4], {a ..}.d */
    .inst 0xc0040c00 | BASE(\u) | (\a) << 5 | PLACE(\t, \u)
    .endm
    .macro rows_fma a, b, t, u, units /* fmla za.s[w8, .., vgx4], {a ..}.s, {b ..}.s */
    .inst 0xc1a11800 | (\b) << 16 | BASE(\u) | (\a) << 5 | PLACE(\t, \u)
    .endm
    .macro to_floats a /* scvtf {a ..}.s, {a ..}.s */
    .inst 0xc132e000 | (\a) << 5 | (\a)
    .endm
    .macro load_table /* ldr zt0, [x27] */
    .inst 0xe11f8360
    .endm
    .macro lut4 d, n /* luti4 {d, d + 1}.b, zt0, n[0] */
    .inst 0xc08a4000 | (\n) << 5 | (\d)
    .endm
    .macro lut2 d, n /* luti2 {d .. d + 3}.b, zt0, n[0] */
    .inst 0xc08c8000 | (\n) << 5 | (\d)
    .endm
    .macro apart2 d, n /* uzp {d, d + 1}.b, n.b, (n + 1).b */
    .inst 0xc120d001 | ((\n) + 1) << 16 | (\n) << 5 | (\d)
    .endm
    .macro apart4 d, n /* uzp {d .. d + 3}.b, {n .. n + 3}.b */
    .inst 0xc136e002 | (\n) << 5 | (\d)
    .endm
    .macro all_pn8 /* ptrue pn8.b */
    .inst 0x25207810
    .endm
    .macro load_four d, from, x /* ld1b {d .. d + 3}.b, pn8/z, [x] */
    .inst 0xa0408000 | (\x) << 5 | (\d)
    .endm
#endif

/* Four quads of x or of weights, to z\a .. z\d; x: the number of register `from`. */
    .macro quads units, a, b, c, d, from, x
    .if \units == 4 /* they lie side by side */
    load_four \a, \from, \x
    .else
    ld1b {z\a\().b}, p0/z, [\from]
    ld1b {z\b\().b}, p0/z, [\from, at64]
    ld1b {z\c\().b}, p0/z, [\from, at128]
    ld1b {z\d\().b}, p0/z, [\from, at192]
    .endif
    add \from, \from, #256
    .endm

    .macro multiply two
    .irp k, 0, 1, 2, 3
    outer 0, 4 + \k, \k
    .if \two
    outer 1, 8 + \k, \k
    .endif
    .endr
    .endm

/* The sums of a group, 16 k at a time. */
    .macro sums units, two, kind
.Lquads\@:
    quads \units, 4, 5, 6, 7, x_codes0, 16
    .if \two
    quads \units, 8, 9, 10, 11, x_codes1, 17
    .endif
    .if \kind == 0
    quads \units, 0, 1, 2, 3, w, 23
    .elseif \kind == 1
    ld1b {z16.b}, p0/z, [w]
    ld1b {z17.b}, p0/z, [w, at64]
    add w, w, #128
    lut4 12, 16
    lut4 14, 17
    apart2 0, 12
    apart2 2, 14
    .else
    ld1b {z16.b}, p0/z, [w]
    add w, w, #64
    lut2 12, 16
    apart4 0, 12
    .endif
    multiply \two
    subs left, left, #4
    b.ne .Lquads\@
    .endm

/* The end of a group of tile t by SME, a row at a time. ending: tiles_sme.h. */
    .macro row_end t, to, ending, i
    mova z0.s, p0/m, za\t\()h.s[w12, \i]
    scvtf z0.s, p0/m, z0.s
    ld1rw {z1.s}, p0/z, [x10, #4 * \i]
    fmul z1.s, z1.s, z30.s
    .if \ending == 1 || \ending == 2
    ld1rw {z2.s}, p0/z, [x11, #4 * \i]
    sub z2.s, z24.s, z2.s
    asr z2.s, z2.s, #3
    scvtf z2.s, p0/m, z2.s
    fmla z0.s, p0/m, z2.s, z29.s
    .endif
    .if \ending == 2
    fmla z0.s, p0/m, z2.s, z28.s
    .endif
    mova z3.s, p0/m, za\to\()h.s[w12, \i]
    fmla z3.s, p0/m, z0.s, z1.s
    mova za\to\()h.s[w12, \i], p0/m, z3.s
    .endm

    .macro rows_end t, to, ending
    mov w12, #0
    mov x10, x_scale\t
    mov x11, start\t
.Lrows\@:
    row_end \t, \to, \ending, 0
    row_end \t, \to, \ending, 1
    row_end \t, \to, \ending, 2
    row_end \t, \to, \ending, 3
    add w12, w12, #4
    add x10, x10, #16
    add x11, x11, #16
    cmp x12, lanes
    b.lo .Lrows\@
    .endm

/* The same by SME2: all rows as floats in z0 .. z15, then their scales by an outer product. */
    .macro tile_end units, t, to, ending
    .irp u, 0, 1, 2, 3
    .if \u < \units
    rows_out 4 * \u, \t, \u, \units
    to_floats 4 * \u
    .if \ending == 1 || \ending == 2
    rows_in 4 * \u, \t, \u, \units
    .endif
    .endif
    .endr
    .if \ending == 1 || \ending == 2
    ld1w {z16.s}, p0/z, [start\t]
    sub z16.s, z24.s, z16.s
    asr z16.s, z16.s, #3
    scvtf z16.s, p0/m, z16.s
    fmopa za\t\().s, p0/m, p0/m, z16.s, z29.s
    .if \ending == 2
    fmopa za\t\().s, p0/m, p0/m, z16.s, z28.s
    .endif
    .irp u, 0, 1, 2, 3
    .if \u < \units
    rows_out 4 * \u, \t, \u, \units
    .endif
    .endr
    .endif
    zero {za\t\().s}
    ld1w {z17.s}, p0/z, [x_scale\t]
    fmopa za\t\().s, p0/m, p0/m, z17.s, z30.s
    .irp u, 0, 1, 2, 3
    .if \u < \units
    rows_out 20, \t, \u, \units
    rows_fma 4 * \u, 20, \to, \u, \units
    .endif
    .endr
    .endm

    .macro group_end units, two, ending
    .if \units
    tile_end \units, 0, 2, \ending
    .if \two
    tile_end \units, 1, 3, \ending
    .endif
    .else
    rows_end 0, 2, \ending
    .if \two
    rows_end 1, 3, \ending
    .endif
    .endif
    .endm

/* All groups of a panel over one tile or two. */
    .macro groups units, two
    ldr codes, [call, #CODES]
    ldr scale, [call, #SCALE]
    ldr whole, [call, #WHOLE]
    ldr rest, [call, #REST]
    ldr group, [call, #GROUPS]
    add scale, scale, column
.Lgroup\@:
    ldr w, [codes], #8
    add w, w, column
    ldr left, [call, #QUADS]
    .if \units
    ldr x10, [call, #KIND]
    cbz x10, .Lbytes\@
    cmp x10, #1
    b.eq .Llut4\@
    sums \units, \two, 2
    b .Lend\@
.Llut4\@:
    sums \units, \two, 1
    b .Lend\@
    .endif
.Lbytes\@:
    sums \units, \two, 0
.Lend\@:
    ld1w {z30.s}, p0/z, [scale]
    ldr x10, [call, #ENDING]
    cbz x10, .Lfma\@
    ldr x11, [call, #GROUPS] /* whole and rest of the group */
    sub x11, x11, group
    add x11, column, x11, lsl #6
    add x27, whole, x11
    ld1w {z29.s}, p0/z, [x27]
    cmp x10, #1
    b.eq .Ltaking\@
    add x27, rest, x11
    ld1w {z28.s}, p0/z, [x27]
    group_end \units, \two, 2
    b .Lnext\@
.Ltaking\@:
    group_end \units, \two, 1
    b .Lnext\@
.Lfma\@:
    group_end \units, \two, 0
.Lnext\@:
    zero {za0.s, za1.s}
    add scale, scale, #64
    add x_scale0, x_scale0, #64
    add start0, start0, #64
    .if \two
    add x_scale1, x_scale1, #64
    add start1, start1, #64
    .endif
    subs group, group, #1
    b.ne .Lgroup\@
    .endm

/* Where the tile lies in x whose first row is in x10. */
    .macro place t
    lsr x11, x10, #4
    and x27, x10, #15
    ldr x_codes\t, [call, #Q]
    add x_codes\t, x_codes\t, x27, lsl #2
    ldr x_scale\t, [call, #X_SCALE]
    add x_scale\t, x_scale\t, x27, lsl #2
    ldr start\t, [call, #START]
    add start\t, start\t, x27, lsl #2
    ldr x27, [call, #Q_STRIDE]
    madd x_codes\t, x27, x11, x_codes\t
    ldr x27, [call, #S_STRIDE]
    madd x_scale\t, x27, x11, x_scale\t
    ldr x27, [call, #Z_STRIDE]
    madd start\t, x27, x11, start\t
    .endm

/* Rows of results in and out, of those from `begin` to `end`; the first is in x10. */
    .macro results op, to, p
    mov w12, #0
    ldr x11, [call, #BEGIN]
.Lresult\@:
    cmp x10, x11
    b.lo .Lnone\@
    cmp x10, end
    b.hs .Lall\@
    ldr x27, [call, #ACC]
    sub left, x10, x11
    add x27, x27, left, lsl #6
    add x27, x27, column
    \op {za\to\()h.s[w12, 0]}, \p, [x27]
.Lnone\@:
    add x10, x10, #1
    add w12, w12, #1
    cmp x12, lanes
    b.lo .Lresult\@
.Lall\@:
    .endm

    .macro tiles units
    ldr end, [call, #END]
    mov at64, #64
    mov at128, #128
    mov at192, #192
    movz w10, #0x4b40, lsl #16
    dup z24.s, w10
    ldr row, [call, #BEGIN]
    sub x10, lanes, #1
    bic row, row, x10
.Lrows\@:
    mov column, #0
.Lcolumns\@:
    zero {za}
    mov x10, row
    results ld1w, 2, p0/z
    mov x10, row
    place 0
    add x10, row, lanes
    cmp x10, end
    b.hs .Lone\@
    results ld1w, 3, p0/z
    add x10, row, lanes
    place 1
    groups \units, 1
    add x10, row, lanes
    results st1w, 3, p0
    b .Lout\@
.Lone\@:
    groups \units, 0
.Lout\@:
    mov x10, row
    results st1w, 2, p0
    add column, column, bytes
    cmp column, #64
    b.lo .Lcolumns\@
    add row, row, lanes, lsl #1
    cmp row, end
    b.lo .Lrows\@
    .endm

    .text
    .p2align 4
    .globl tni_arm_tiles_sme
    .type tni_arm_tiles_sme, %function
tni_arm_tiles_sme:
    enter
    tiles 0
    leave
    .size tni_arm_tiles_sme, . - tni_arm_tiles_sme

    .p2align 4
    .globl tni_arm_tiles_sme2
    .type tni_arm_tiles_sme2, %function
tni_arm_tiles_sme2:
    enter
    mov w8, #0
    mov w9, #8
    all_pn8
    ldr x27, [call, #TABLE]
    cbz x27, .Lno_table
    load_table
.Lno_table:
    cmp lanes, #8
    b.hi .Lsixteen
    b.eq .Leight
    tiles 1
    leave
.Leight:
    tiles 2
    leave
.Lsixteen:
    tiles 4
    leave
    .size tni_arm_tiles_sme2, . - tni_arm_tiles_sme2

    .section .note.GNU-stack, "", %progbits
