/* SPDX-License-Identifier: MIT */
/*
 * What people see of kernels and plans: readable names, the lines of DEBUG, the search for the op that made a
 * NaN.  None of it changes a result; what costs time runs only where a variable asks for it.
 */
#ifndef TN_ENGINE_INSPECT_H
#define TN_ENGINE_INSPECT_H
#include "codegen/codegen.h"
#include "device/device.h"
#include "schedule/normal.h"

struct tn__plan;
struct tn__plan_call;

/* A kernel's name for people: "r" where it reduces, else "E", then the sizes of its ranges, loops first. */
enum { TN__LABEL_SIZES = 14 };
typedef struct {
    bool reduce, copy;             /* copy: from another device */
    uint8_t n, more;               /* more: kernels beside this one in the launch */
    uint8_t kind[TN__LABEL_SIZES]; /* tn__axis_kind */
    uint32_t size[TN__LABEL_SIZES];
} tn__label;
void tn__label_make(tn__label *l, tn__kernel *const *k,
                    int n); /* of a launch of n kernels: the largest gives the name */
/* "r_64_2_11_16_3_3" (several side by side: "E_64_16+5"), with terminal colours by kind where `colour`; returns the visible length. */
int tn__label_text(const tn__label *l, bool colour, char *out, size_t cap);
bool tn__inspect_colour(void); /* stderr is a terminal and NO_COLOR is unset */

/* A record of the graph as the user wrote it; text lives as long as the plan. */
typedef struct {
    const char *op, *file; /* public function, file; "" unknown */
    int line;
    uint16_t kind; /* tn__op */
    bool odd;      /* a constant that is not finite */
} tn__origin;
/* Fills plan->origin and what each buffer's kernel computes; no error is one that matters. */
bool tn__inspect_origins(struct tn__plan *p, const tn__normal *n, const tn__schedule *s);

/* DEBUG >= 3, when a launch of n kernels is made. */
void tn__inspect_unit(tn__kernel *const *k, int n, const char *name, const tn__buf *blob,
                      const tn__buf *source, int64_t debug);
/* DEBUG >= 1, when a plan was found or made. */
void tn__inspect_plan(const struct tn__plan *p, bool hit, uint64_t ns, size_t cached);
/* DEBUG >= 2, after a kernel. */
void tn__inspect_call(const struct tn__plan *p, struct tn__plan_call *c, uint64_t ns, bool replay);
/* Bytes that a launch's code loads and stores, counted at each time it does. */
double tn__inspect_traffic(const tn__buf *blob);

/* CHECK_NAN: the graph whose plan this thread runs next; NULL afterwards. */
void tn__inspect_graph(const tn__normal *n);
/* After call i: an error where its outputs have a NaN or infinity and its inputs have none. */
bool tn__inspect_values(const struct tn__plan *p, int i, const tnp_ref *refs);

/* VIZ=1 (viz.c). */
typedef struct tn__viz tn__viz;
tn__viz *tn__viz_open(void); /* NULL: not wanted or not possible */
void tn__viz_schedule(tn__viz *v, const tn__normal *n,
                      const tn__schedule *s); /* the graph, then its kernels */
void tn__viz_kernels(tn__viz *v, const tn__schedule *s, const char *stage);
void tn__viz_linear(tn__viz *v, tn__kernel *const *k, int n, const char *name, int launch,
                    const tn__buf *blob, const tn__buf *source);
void tn__viz_close(tn__viz *v);
#endif
