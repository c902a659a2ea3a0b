/* SPDX-License-Identifier: MIT */
/*
 * Private header of the INTERP plugin: a device that walks linear code row by row.
 *
 * It is the oracle of every other backend, so it is written to be obviously right, not fast: one value
 * representation (64 bits a lane, the bits as they stand in memory, zero-extended), one evaluator,
 * every memory access checked.  A program is checked in full when it is loaded (interp_load.c); the
 * walk (interp_walk.c) relies on that and checks only what data decide: bounds, division, shifts, casts.
 *
 * Threads: a program is immutable once loaded; a launch keeps all its state in memory of its own.
 */
#ifndef TENON_INTERP_H
#define TENON_INTERP_H
#include <stdbool.h>
#include <tenon/linear.h>
#include <tenon/plugin.h>

extern const tnp_host *interp__host;
uint64_t interp__max_buffer(void);
#define TNK_NAME      "INTERP"
#define TNK_HOST      interp__host
#define TNK_MAX_BYTES interp__max_buffer()
#include <tenon/hostdev.h>

/* Base ops in the order of TNL_BASE_OPS, with a prefix: the numbers are private to this plugin. */
typedef enum {
#define X(name) OP_##name,
    TNL_BASE_OPS(X)
#undef X
        OP_COUNT
} op_id;

/* A row, decoded.  Slots count 64-bit lanes in the walk's value array. */
typedef struct {
    uint8_t op, dtype, lanes; /* lanes: of the value, or of what a store writes */
    uint8_t from;             /* dtype of source 0 (cast, bitcast, compare), else 0 */
    uint32_t slot;            /* of the row's own value */
    uint32_t src[3];          /* slots of the sources */
    uint32_t row[3];          /* rows of the sources */
    uint32_t jump;            /* loop, if: row behind the matching end; end: its loop */
    bool gated;               /* load, store: the last source is a gate */
    int64_t imm;
} interp_row;

struct tnp_prog {
    void *blob;       /* own, aligned */
    tnl_view v;       /* into blob */
    interp_row *rows; /* own, v.head->nrows */
    uint32_t nslots;  /* 64-bit lanes of the value array */
};

/* ---- interp_plugin.c: host services ---- */
static inline void *interp__alloc(size_t n) /* contents undefined; NULL when there is none */
{
    return interp__host->realloc(interp__host->ctx, NULL, n ? n : 1);
}
#define interp__free(p)            tnk_give(interp__host, p)
#define interp__fail(err, rc, ...) tnk_fail(err, rc, 0, __VA_ARGS__)
#define interp__now_ns()           tnk_now_ns()
/* Checks a reference; *p is its first byte. */
tnp_rc interp__ref(const tnp_ref *r, const char *what, unsigned char **p, tnp_err *err);

/* ---- interp_value.c: dtypes and arithmetic ---- */
uint32_t interp__size(uint32_t dtype); /* bytes, 0 for an unknown dtype */
const char *interp__dtype(uint32_t dtype);
bool interp__is_float(uint32_t dtype);
bool interp__is_int(uint32_t dtype); /* not bool */
double interp__to_double(uint32_t dtype, uint64_t bits);
uint64_t interp__from_double(uint32_t dtype, double v); /* float dtypes: round to nearest even */
int64_t interp__to_int(uint32_t dtype, uint64_t bits);  /* sign- or zero-extended */
uint64_t interp__get(const unsigned char *p, uint32_t size);
void interp__put(unsigned char *p, uint32_t size, uint64_t bits);
/* One lane of a value op.  NULL, or the text of what the operands break. */
const char *interp__eval(const interp_row *r, uint64_t a, uint64_t b, uint64_t c, uint64_t *out);

/* ---- interp_load.c ---- */
extern const char *const interp__op_names[OP_COUNT];
tnp_rc interp__load(tnp_dev *, const tnp_load *, tnp_prog **, tnp_err *);
void interp__unload(tnp_dev *, tnp_prog *);

/* ---- interp_walk.c ---- */
/* Runs all work-groups; `bufs` and `lens` (bytes): one an argument. */
tnp_rc interp__walk(const tnp_prog *p, unsigned char *const *bufs, const uint64_t *lens,
                    const uint64_t *imms, const uint32_t grid[3], tnp_err *err);
/* A checked launch: arguments against the program, then the walk. */
tnp_rc interp__launch(const tnp_prog *p, const tnp_launch *l, tnp_err *err);

/* ---- interp_graph.c: extension "tenon.graph/1" ---- */
extern const tnp_graph_ops interp__graph_ops;
#endif
