/* SPDX-License-Identifier: MIT */
/* The umbrella: everything that a program includes. */
#ifndef TENON_TENON_H
#define TENON_TENON_H
#include <tenon/base.h>
#include <tenon/types.h>
#endif
