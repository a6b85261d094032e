/* SPDX-License-Identifier: Apache-2.0
 *
 * On another architecture than aarch64 an offline device: the same claims, programs and blobs, no kernels.
 */
#include "plugins/common/cpu/cpu.h"
#if defined(__aarch64__)
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#define KERNELS &tni_arm_kernels
#define USABLE tni_arm_usable
#else
#define KERNELS NULL
#define USABLE NULL
#endif

enum {
  NEON = TNI_CPU_NEON,
  DOTPROD = NEON | TNI_CPU_DOTPROD,
  I8MM = DOTPROD | TNI_CPU_I8MM,
  SME = I8MM | TNI_CPU_SME,
  SME2 = SME | TNI_CPU_SME2
};

/* auto leaves SME out: nobody has timed it, and several cores may share its unit. */
static const tni_clt_isa neon_isas[] = {{"auto", I8MM}, {"scalar", 0}, {"neon", NEON}, {"dotprod", DOTPROD},
                                        {"i8mm", I8MM}, {"sme", SME},  {"sme2", SME2}};

static const tni_clt_format *const neon_formats[] = {
    &tni_clt_w4g,   &tni_clt_lut1p,   &tni_clt_lut2p,   &tni_clt_lut3p,   &tni_clt_lut4p,   &tni_clt_luttp,
    &tni_clt_w8g,   &tni_clt_w3g,     &tni_clt_w2g,     &tni_clt_w1g,     &tni_clt_tern20,  &tni_clt_tern17,
    &tni_clt_pal16, &tni_clt_levs[0], &tni_clt_levs[1], &tni_clt_levs[2], &tni_clt_levs[3], &tni_clt_levs[4]};

/* Dot products first, lookup after them: both have the same groups. */
static const tni_clt_width neon_widths[] = {{.option = "b1", .n = 2, .formats = {&tni_clt_w1g, &tni_clt_lut1p}},
                                            {.option = "b2", .n = 2, .formats = {&tni_clt_w2g, &tni_clt_lut2p}},
                                            {.option = "b3", .n = 2, .formats = {&tni_clt_w3g, &tni_clt_lut3p}},
                                            {.option = "b4", .n = 2, .formats = {&tni_clt_w4g, &tni_clt_lut4p}}};

static const tni_clt_backend neon_backend = {
    .name = "cpu-neon-lut",
    .version = "0.1.0",
    .driver = "aarch64 neon",
    .isas = neon_isas,
    .isa_choices = "auto|scalar|neon|dotprod|i8mm|sme|sme2",
    .n_isas = sizeof neon_isas / sizeof *neon_isas,
    .needed = NEON,
    .kernels = KERNELS,
    .usable = USABLE,
    .formats = neon_formats,
    .format_choices =
        "auto|w4g|lut1|lut2|lut3|lut4|lutt|w8g|w3g|w2g|w1g|tern20|tern17|pal16|lev4|lev4s|lev3|lev2|lev1|b1|b2|b3|b4",
    .n_formats = sizeof neon_formats / sizeof *neon_formats,
    .n_widths = sizeof neon_widths / sizeof *neon_widths,
    .widths = neon_widths};

static tn_status neon_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  return tni_clt_entry(&neon_backend, host, neg, out);
}

TN_PLUGIN(cpu_neon_lut, neon_entry)
