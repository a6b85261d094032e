/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_TESTS_LIAR_H
#define TENON_TESTS_LIAR_H

#include <sys/socket.h>
#include <sys/types.h>

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);

/* Sends it, with what TENON_LIAR_ORDER adds (liar_order.c). */
ssize_t liar_send_in_order(const char *order, int fd, const struct msghdr *m, int flags);

#endif
