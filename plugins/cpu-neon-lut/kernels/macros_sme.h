/* SPDX-License-Identifier: Apache-2.0
 *
 * What the SME kernels share: the way into streaming mode and out of it, outer products of bytes. Assembly, whatever the
 * name. TNI_SME_MACROS: a file that has what is a number here (tests/kernels/sme_emulated.h).
 */
    .arch armv9-a+sme

/* A vector in streaming mode: its bytes and its words, L. p0: all of them. */
bytes .req x1
lanes .req x2

#ifdef TNI_SME_MACROS
#include TNI_SME_MACROS
#else
    .macro outer t, x, w /* smopa za t.s, p0/m, p0/m, x.b, w.b */
    .inst 0xa0800000 | (\w) << 16 | (\x) << 5 | (\t)
    .endm
    .macro outer_us t, x, w /* usmopa za t.s, p0/m, p0/m, x.b, w.b: bytes of x are unsigned */
    .inst 0xa1800000 | (\w) << 16 | (\x) << 5 | (\t)
    .endm
#endif

/* Another function's ZA, as the ABI has it: TPIDR2_EL0 leads to where it is to be saved, and is then 0. Vector lengths
 * are in `bytes`. */
    .macro save_za
    mrs x9, S3_3_C13_C0_5
    cbz x9, .Lnobodys\@
    ldr x10, [x9]
    ldrh w11, [x9, #8]
    cbz x10, .Lsaved\@
    mov w12, #0
.Lslice\@:
    cmp w12, w11
    b.hs .Lsaved\@
    str za[w12, 0], [x10]
    add x10, x10, bytes
    add w12, w12, #1
    b .Lslice\@
.Lsaved\@:
    msr S3_3_C13_C0_5, xzr
.Lnobodys\@:
    .endm

    .macro enter
    stp x19, x20, [sp, #-160]!
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp d8, d9, [sp, #80]
    stp d10, d11, [sp, #96]
    stp d12, d13, [sp, #112]
    stp d14, d15, [sp, #128]
    mrs x9, fpsr
    str x9, [sp, #144]
    .inst 0x04bf5821 /* rdsvl x1, #1 */
    save_za
    smstart
    ptrue p0.b
    lsr lanes, bytes, #2
    .endm

    .macro leave
    smstop
    ldr x9, [sp, #144]
    msr fpsr, x9
    ldp d14, d15, [sp, #128]
    ldp d12, d13, [sp, #112]
    ldp d10, d11, [sp, #96]
    ldp d8, d9, [sp, #80]
    ldp x27, x28, [sp, #64]
    ldp x25, x26, [sp, #48]
    ldp x23, x24, [sp, #32]
    ldp x21, x22, [sp, #16]
    ldp x19, x20, [sp], #160
    ret
    .endm

