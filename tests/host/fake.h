/* SPDX-License-Identifier: Apache-2.0
 *
 * A host of its own for the device: it counts what is allocated, and can let an allocation fail.
 */
#ifndef TENON_TESTS_HOST_FAKE_H
#define TENON_TESTS_HOST_FAKE_H

#include <stdbool.h>

#include <tenon/plugin.h>

typedef struct fake {
  tn_host host;
  int live, fail_at; /* fail_at > 0: that allocation from now returns NULL */
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

#endif
