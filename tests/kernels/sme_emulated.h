/* SPDX-License-Identifier: Apache-2.0
 *
 * What the SME kernels have as numbers, made of instructions that Debian 12's emulator has and has right: its SMOPA leaves
 * out every other row, and it has no SME2. Registers and rows are those of the instructions, z18 to z23, z25 to z27 and
 * z31 serve for a moment, and x23 with bytes; z27 holds what would be ZT0. Assembly, whatever the name.
 */
/* With registers picked by number; of two macros, since an assembler takes "\r.s" in a loop for one name. */
    .macro out_to n, t
    mova z\n\().s, p0/m, za\t\()h.s[w12, 0]
    .endm
    .macro in_from n, t
    mova za\t\()h.s[w12, 0], p0/m, z\n\().s
    .endm
    .macro from_z n, d
    mov \d, z\n\().d
    .endm
    .macro to_z n, d
    mov z\n\().d, \d
    .endm
    .macro level_of n
    and z\n\().b, z\n\().b, #3
    tbl z\n\().b, z27.b, z\n\().b
    .endm
    .macro pick op, n, more
    .irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23
    .if \r == (\n)
    \op \r, \more
    .endif
    .endr
    .endm
    .macro copy_out d, t
    pick out_to, \d, \t
    .endm
    .macro copy_in a, t
    pick in_from, \a, \t
    .endm
    .macro copy_z d, n
    pick from_z, \n, \d
    .endm
    .macro put_z d, n
    pick to_z, \d, \n
    .endm

/* Row by row, a row's word of x to all lanes. */
    .macro outer_row i, t, dot
    cmp lanes, #\i
    b.ls .Lall\@
    mov w12, #\i
    dup z25.s, z25.s[0]
    mova z31.s, p0/m, za\t\()h.s[w12, 0]
    \dot
    mova za\t\()h.s[w12, 0], p0/m, z31.s
    ext z18.b, z18.b, z18.b, #4
    mov z25.d, z18.d
.Lall\@:
    .endm
    .macro signed_dot
    sdot z31.s, z26.b, z25.b
    .endm
    .macro mixed_dot
    .inst 0x449a7b3f /* usdot z31.s, z25.b, z26.b: clang 14 will not have it beside .arch */
    .endm
    .macro outer_by t, x, w, dot
    copy_z z18.d, \x
    copy_z z26.d, \w
    mov z25.d, z18.d
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    outer_row \i, \t, \dot
    .endr
    .endm
    .macro outer t, x, w
    outer_by \t, \x, \w, signed_dot
    .endm
    .macro outer_us t, x, w
    mov x23, x12
    outer_by \t, \x, \w, mixed_dot
    mov x12, x23
    .endm

    .macro rows_out d, t, u, units
    .irp i, 0, 1, 2, 3
    mov w12, #(\u + \i * \units)
    copy_out \d + \i, \t
    .endr
    .endm
    .macro rows_in a, t, u, units
    .irp i, 0, 1, 2, 3
    mov w12, #(\u + \i * \units)
    copy_in \a + \i, \t
    .endr
    .endm
    .macro rows_fma a, b, t, u, units
    .irp i, 0, 1, 2, 3
    mov w12, #(\u + \i * \units)
    copy_z z18.d, \a + \i
    copy_z z19.d, \b + \i
    mova z31.s, p0/m, za\t\()h.s[w12, 0]
    fmla z31.s, p0/m, z18.s, z19.s
    mova za\t\()h.s[w12, 0], p0/m, z31.s
    .endr
    .endm
    .macro to_floats a
    .irp i, 0, 1, 2, 3
    copy_z z18.d, \a + \i
    scvtf z18.s, p0/m, z18.s
    put_z \a + \i, z18.d
    .endr
    .endm

/* The lowest bytes of 16 words, the last first. */
    .macro load_table
    add x27, x27, #60
    mov w12, #16
.Lentry\@:
    ldrb w10, [x27], #-4
    insr z27.b, w10
    subs w12, w12, #1
    b.ne .Lentry\@
    .endm
    .macro lut4 d, n
    copy_z z18.d, \n
    lsr z19.b, z18.b, #4
    and z18.b, z18.b, #15
    tbl z18.b, z27.b, z18.b
    tbl z19.b, z27.b, z19.b
    zip1 z20.b, z18.b, z19.b
    zip2 z21.b, z18.b, z19.b
    put_z \d, z20.d
    put_z \d + 1, z21.d
    .endm
    .macro lut2 d, n
    copy_z z18.d, \n
    lsr z19.b, z18.b, #2
    lsr z20.b, z18.b, #4
    lsr z21.b, z18.b, #6
    level_of 18
    level_of 19
    level_of 20
    level_of 21
    zip1 z22.b, z18.b, z20.b
    zip2 z23.b, z18.b, z20.b
    zip1 z25.b, z19.b, z21.b
    zip2 z26.b, z19.b, z21.b
    zip1 z18.b, z22.b, z25.b
    zip2 z19.b, z22.b, z25.b
    zip1 z20.b, z23.b, z26.b
    zip2 z21.b, z23.b, z26.b
    put_z \d, z18.d
    put_z \d + 1, z19.d
    put_z \d + 2, z20.d
    put_z \d + 3, z21.d
    .endm
    .macro apart2 d, n
    copy_z z18.d, \n
    copy_z z19.d, \n + 1
    uzp1 z20.b, z18.b, z19.b
    uzp2 z21.b, z18.b, z19.b
    put_z \d, z20.d
    put_z \d + 1, z21.d
    .endm
    .macro apart4 d, n
    copy_z z18.d, \n
    copy_z z19.d, \n + 1
    copy_z z20.d, \n + 2
    copy_z z21.d, \n + 3
    uzp1 z22.b, z18.b, z19.b
    uzp2 z23.b, z18.b, z19.b
    uzp1 z25.b, z20.b, z21.b
    uzp2 z26.b, z20.b, z21.b
    uzp1 z18.b, z22.b, z25.b
    uzp1 z19.b, z23.b, z26.b
    uzp2 z20.b, z22.b, z25.b
    uzp2 z21.b, z23.b, z26.b
    put_z \d, z18.d
    put_z \d + 1, z19.d
    put_z \d + 2, z20.d
    put_z \d + 3, z21.d
    .endm
    .macro all_pn8
    .endm
    .macro load_four d, from, x
    .irp r, 0, 4, 8
    .if \r == \d
    load_four_\r \from
    .endif
    .endr
    .endm
    .macro load_four_0 from
    ld4_ z0, z1, z2, z3, \from
    .endm
    .macro load_four_4 from
    ld4_ z4, z5, z6, z7, \from
    .endm
    .macro load_four_8 from
    ld4_ z8, z9, z10, z11, \from
    .endm
    .macro ld4_ a, b, c, d, from
    ld1b {\a\().b}, p0/z, [\from]
    ld1b {\b\().b}, p0/z, [\from, #1, mul vl]
    ld1b {\c\().b}, p0/z, [\from, #2, mul vl]
    ld1b {\d\().b}, p0/z, [\from, #3, mul vl]
    .endm
