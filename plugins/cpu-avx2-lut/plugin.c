/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/cpu.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

enum { NEEDED = TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C };

/* Fetching ahead is no instruction set: whatever is allowed does it where the processor gains by it. */
enum {
  AVX2 = NEEDED | TNI_CPU_PREFETCH,
  AVXVNNI = AVX2 | TNI_CPU_AVXVNNI | TNI_CPU_GFNI,
  AVX512 = AVXVNNI | TNI_CPU_AVX512VNNI,
  ALL = AVX512 | TNI_CPU_AMX
};
static const tni_clt_isa avx2_isas[] = {{"auto", ALL},        {"scalar", 0},          {"avx2", AVX2},
                                        {"avxvnni", AVXVNNI}, {"avx512vnni", AVX512}, {"amx", ALL}};

static const tni_clt_format *const avx2_formats[] = {
    &tni_clt_w4g,   &tni_clt_lut1,    &tni_clt_lut2,    &tni_clt_lut3,    &tni_clt_lut4,    &tni_clt_lutt,
    &tni_clt_w8g,   &tni_clt_w3g,     &tni_clt_w2g,     &tni_clt_w1g,     &tni_clt_tern20,  &tni_clt_tern17,
    &tni_clt_pal16, &tni_clt_levs[0], &tni_clt_levs[1], &tni_clt_levs[2], &tni_clt_levs[3], &tni_clt_levs[4]};

/* Dot products first, lookup after them: both have the same groups. tern: the same weights with either. */
static const tni_clt_width avx2_widths[] = {{.option = "b1", .n = 2, .formats = {&tni_clt_w1g, &tni_clt_lut1}},
                                            {.option = "b2", .n = 2, .formats = {&tni_clt_w2g, &tni_clt_lut2}},
                                            {.option = "b3", .n = 2, .formats = {&tni_clt_w3g, &tni_clt_lut3}},
                                            {.option = "b4", .n = 2, .formats = {&tni_clt_w4g, &tni_clt_lut4}},
                                            {.option = "tern", .n = 2, .formats = {&tni_clt_tern20, &tni_clt_tern17}}};

static const tni_clt_backend avx2_backend = {.name = "cpu-avx2-lut",
                                             .version = "0.1.0",
                                             .driver = "avx2 fma f16c",
                                             .isas = avx2_isas,
                                             .isa_choices = "auto|scalar|avx2|avxvnni|avx512vnni|amx",
                                             .n_isas = sizeof avx2_isas / sizeof *avx2_isas,
                                             .needed = NEEDED,
                                             .kernels = &tni_x86_kernels,
                                             .formats = avx2_formats,
                                             .format_choices =
                                                 "auto|w4g|lut1|lut2|lut3|lut4|lutt|w8g|w3g|w2g|w1g|tern20|tern17|"
                                                 "pal16|lev4|lev4s|lev3|lev2|lev1|b1|b2|b3|b4|tern",
                                             .n_formats = sizeof avx2_formats / sizeof *avx2_formats,
                                             .n_widths = sizeof avx2_widths / sizeof *avx2_widths,
                                             .widths = avx2_widths,
                                             .averages = true};

static tn_status avx2_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  return tni_clt_entry(&avx2_backend, host, neg, out);
}

TN_PLUGIN(cpu_avx2_lut, avx2_entry)
