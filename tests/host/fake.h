/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake host with the graph's own expressions, for the built-in device.
 */
#ifndef TENON_TESTS_HOST_FAKE_H
#define TENON_TESTS_HOST_FAKE_H

#include <stdbool.h>

#include <tenon/plugin.h>

#include "tests/kit/host.h"

typedef struct fake {
  kit_host h; /* first: host.ctx points here */
  bool no_matmul;
} fake;

fake *ht_fake_make(bool no_matmul);

typedef struct dev {
  fake *f;
  tn_plugin *plugin;
  tn_device *d;
} dev;

dev ht_dev_open(bool no_matmul);
/* Nothing may be left allocated. */
void ht_dev_close(dev *v);

bool ht_add_device(void);
bool ht_add_states(void);

#endif
