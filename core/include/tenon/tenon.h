/* SPDX-License-Identifier: MIT */
/* The umbrella: everything that a program includes.  (plugin.h and linear.h are for plugins.) */
#ifndef TENON_TENON_H
#define TENON_TENON_H
#include <tenon/base.h>
#include <tenon/types.h>
#include <tenon/macros.h>
#include <tenon/core.h>
#include <tenon/tensor.h>
#include <tenon/jit.h>
#include <tenon/io.h>
#include <tenon/nn.h>
#include <tenon/device.h>
#endif
