/* SPDX-License-Identifier: MIT */
/* Layout assertions that C99, C11 and C++11 all understand; see make_abi.py. */
#ifndef TENON_TEST_ABI_H
#define TENON_TEST_ABI_H
#define ABI_PASTE(a, b)     a##b
#define ABI_NAME(a, b)      ABI_PASTE(a, b)
#define ABI_CHECK(c)        extern char ABI_NAME(abi_line_, __LINE__)[(c) ? 1 : -1]
#define AT(type, field, at) ABI_CHECK(offsetof(type, field) == (at))
#define FROZEN(type, bytes) ABI_CHECK(sizeof(type) == (bytes))
#define ROOM(type, bytes)   ABI_CHECK(sizeof(type) >= (bytes))
#define IS(name, value)     ABI_CHECK((long long)(name) == (value))
#endif
