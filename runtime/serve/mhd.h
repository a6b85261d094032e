/* SPDX-License-Identifier: Apache-2.0
 *
 * libmicrohttpd, opened when a server starts: no other command and no bundle needs it.
 */
#ifndef TENON_SERVE_MHD_H
#define TENON_SERVE_MHD_H

#include <microhttpd.h>
#include <tenon/types.h>

typedef struct srv_mhd {
  void *library;
  __typeof__(MHD_start_daemon) *start_daemon;
  __typeof__(MHD_quiesce_daemon) *quiesce_daemon;
  __typeof__(MHD_stop_daemon) *stop_daemon;
  __typeof__(MHD_queue_response) *queue_response;
  __typeof__(MHD_create_response_from_buffer) *response_of_buffer;
  __typeof__(MHD_create_response_from_callback) *response_of_callback;
  __typeof__(MHD_destroy_response) *destroy_response;
  __typeof__(MHD_add_response_header) *add_header;
  __typeof__(MHD_lookup_connection_value) *value;
  __typeof__(MHD_get_connection_info) *connection_info;
  __typeof__(MHD_set_connection_option) *set_option;
} srv_mhd;

/* TN_E_UNAVAILABLE: it is not there, or lacks a function. */
TN_MUST_CHECK tn_status srv_mhd_open(srv_mhd *m, tn_error *err);
void srv_mhd_close(srv_mhd *m);

#endif
