/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/oracle: the format reference.
 * Other rooms include this file and no other of it.
 */
#ifndef TENON_ORACLE_ORACLE_H
#define TENON_ORACLE_ORACLE_H

#include "runtime/oracle/reference_attend.h"
#include "runtime/oracle/reference_bytes.h"
#include "runtime/oracle/reference_chain.h"

#endif
