/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands behind the ticket of an item that the drive submits. done counts how often it was answered.
 */
#ifndef TENON_CONFORM_DRIVE_TICKET_H
#define TENON_CONFORM_DRIVE_TICKET_H

#include <pthread.h>
#include <tenon/plugin.h>

struct tni_cf_ticket {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  uint32_t done, reserved;
  tn_status st;
  tn_times times;
  char message[256];
};

#endif
