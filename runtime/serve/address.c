/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses that only this machine can reach.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/serve/inside.h"

static bool is_loopback4(const struct in_addr *a) { return ntohl(a->s_addr) >> 24 == 127; }

bool srv_is_loopback(const struct sockaddr *a) {
  if (a->sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
  return is_loopback4(&((const struct sockaddr_in *)(const void *)a)->sin_addr);
}

bool srv_is_loopback_host(const char *host, size_t n) {
  struct in_addr v4;
  struct in6_addr v6;
  char text[INET6_ADDRSTRLEN];
  const bool brackets = n > 1 && host[0] == '[' && host[n - 1] == ']';
  if (brackets) host++, n -= 2;
  if (n >= sizeof text) return false;
  memcpy(text, host, n);
  text[n] = 0;
  if (brackets) return inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
  return inet_pton(AF_INET, text, &v4) == 1 && is_loopback4(&v4);
}
