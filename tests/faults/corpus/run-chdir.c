/* SPDX-License-Identifier: Apache-2.0
 *
 * Working folder, umask and locale of the whole process.
 */
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "whole.h"

IN_RUN((void)!chdir("/usr"); umask(0); setlocale(LC_ALL, "C.UTF-8"))
