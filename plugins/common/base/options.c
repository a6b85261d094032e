/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/options.h"

const tn_option tni_cm_opt_min_k = {.h = TN_HDR(tn_option),
                                    .key = "min_k",
                                    .dflt = "32",
                                    .type = TN_OPT_INT,
                                    .lo = 1,
                                    .hi = 1 << 20,
                                    .help = "smallest K whose weights are packed"};
const tn_option tni_cm_opt_min_n = {.h = TN_HDR(tn_option),
                                    .key = "min_n",
                                    .dflt = "16",
                                    .type = TN_OPT_INT,
                                    .lo = 1,
                                    .hi = 1 << 20,
                                    .help = "smallest N whose weights are packed"};
