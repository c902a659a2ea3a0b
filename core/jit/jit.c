/* SPDX-License-Identifier: MIT */
/*
 * The public jit: which kind of call comes next, errors, handles of results.
 *
 * A call runs between tn__error_take and tn__error_put of what was pending before it, so that any error in it
 * is its own.  One call at a time a jit; a jit inside a jit's function is refused.
 */
#include "jit/jit.h"
#include "engine/engine.h"
#include "tensor/slot.h"
#include <string.h>
#include <tenon/core.h>

/* ---- life ---- */

tn_jit *(tn_jit_new)(tn_jit_fn *fn, void *user, const tn_jit_opts *o)
{
    if (!fn) {
        tn__enter("tn_jit_new");
        tn__fail(TN_ENULL, "jit: the function is NULL");
        tn__leave();
        return NULL;
    }
    tn_jit *j = tn__calloc(1, sizeof *j);
    if (!j) return NULL;
    atomic_flag_clear(&j->busy);
    j->fn = fn;
    j->user = user;
    j->prune = o && o->size >= sizeof *o && o->prune;
    return j;
}

static bool enter(tn_jit *j, const char *what)
{
    if (!j) return tn__fail(TN_ENULL, "%s: the jit is NULL", what);
    if (!atomic_flag_test_and_set(&j->busy)) return true;
    return tn__fail(
        TN_EBUSY,
        "%s: this jit is running already, in its own function or on another thread: use a jit for "
        "each",
        what);
}

static void leave(tn_jit *j) { atomic_flag_clear(&j->busy); }

/* Results of the call before end here, but for those that were kept. */
static void retire(tn_jit *j)
{
    while (j->nissued) tn__handle_retire(j->issued[--j->nissued]);
    for (size_t i = 0; i < j->nname; i++) {
        tn__node_unref(j->name[i].node);
        j->name[i].node = NULL;
    }
}

void tn_jit_free(tn_jit *j)
{
    if (!j) return;
    tn__enter("tn_jit_free");
    if (enter(j, "jit_free")) {
        retire(j);
        tn__jit_drop(j);
        tn__free(j->in);
        tn__free(j->issued);
        tn__free(j);
    }
    tn__leave();
}

void tn_jit_reset(tn_jit *j)
{
    tn__enter("tn_jit_reset");
    if (enter(j, "jit_reset")) {
        retire(j);
        tn__jit_drop(j);
        j->calls = 0;
        leave(j);
    }
    tn__leave();
}

void tn_jit_free_intermediates(tn_jit *j)
{
    tn__enter("tn_jit_free_intermediates");
    if (enter(j, "jit_free_intermediates")) {
        if (j->captured) tn__jit_intermediates(j);
        leave(j);
    }
    tn__leave();
}

/* ---- results ---- */

/* Room for one more handle, so that a call that has run cannot fail any more; NULL: an error is pending. */
static tn__slot *reserve(tn_jit *j)
{
    return tn__grow(&j->issued, j->nissued, &j->cap_issued, sizeof *j->issued) ? tn__slot_new()
                                                                               : NULL;
}

/* The reserved slot becomes a handle that ends with the jit's next call; takes the node. */
static tn_tensor *issue(tn_jit *j, tn__slot *s, tn__node *n)
{
    s->node = n;
    return j->issued[j->nissued++] = tn__slot_handle(s);
}

/* A realised node without its history; with it where there is no memory. */
static tn__node *leaf_of(tn__node *node)
{
    tn__node *n = tn__stored(node), *l = NULL;
    tn__value *v = tn__stored_value(n);
    tn__error e;
    if (v && n->op != TN_OP_BUFFER) {
        tn__build b;
        tn__build_begin(&b);
        tn__value_ref(v);
        l = tn__leaf(v, (tn_dtype)n->dt, n->dims, n->rank, v->place);
        if (l) {
            l->flags = TN__NODE_LEAFED;
            l->loc = n->loc;
        }
        l = tn__build_end(&b, l);
        if (!l) tn__error_take(&e);
    }
    if (l) return l;
    tn__node_ref(n);
    return n;
}

static bool reserve_names(tn_jit *j, const tn__trace *t)
{
    while (j->cap_name < t->nout)
        if (!tn__grow(&j->name, j->cap_name, &j->cap_name, sizeof *j->name)) return false;
    return true;
}

/* Names of a call that was not replayed. */
static void take_names(tn_jit *j, tn__trace *t, bool leaves)
{
    for (size_t i = 0; i < j->nname; i++) {
        tn__free(j->name[i].name);
        tn__node_unref(j->name[i].node);
    }
    for (j->nname = 0; j->nname < t->nout; j->nname++) {
        tn__trace_out *o = &t->out[j->nname];
        tn__node *n = leaves ? leaf_of(o->node) : o->node;
        if (!leaves) tn__node_ref(n);
        j->name[j->nname] = (tn__jit_name){.name = o->name, .node = n};
        o->name = NULL;
    }
}

/* ---- calls ---- */

/* Runs the function as it is. */
static bool plain(tn_jit *j, const tn_inputs *in, tn__trace_mode mode, tn__node **out)
{
    tn__trace t;
    const bool leaves = mode == TN__TRACE_PLAIN, names = leaves || !j->captured;
    bool ok = tn__trace_run(&t, j->fn, j->user, in, j->in, mode);
    if (ok && names && !reserve_names(j, &t)) ok = tn__trace_undone(&t, mode);
    ok = ok && tn__trace_finish(&t, mode);
    if (ok && names) take_names(j, &t, leaves);
    if (ok && t.result) *out = leaves ? leaf_of(t.result) : t.result;
    if (ok && t.result && !leaves) tn__node_ref(t.result);
    tn__trace_free(&t);
    return ok;
}

/* DEBUG=1: a line a capture and a line a replay. */
static void say(const tn_jit *j, const char *what)
{
    if (tn_context_get(TN_DEBUG) < 1) return;
    tn__log(TN_LOG_INFO, "jit %-8s %5d kernels, %d once | %zu inputs, %zu leaves", what,
            j->plan->ncall, j->once ? j->once->ncall : 0, j->nin, j->nslot);
}

static bool capture(tn_jit *j, const tn_inputs *in)
{
    tn__trace t;
    bool ok = tn__trace_run(&t, j->fn, j->user, in, j->in, TN__TRACE_CAPTURE) &&
              tn__jit_capture(j, &t);
    tn__trace_free(&t);
    if (ok) say(j, "captures");
    return ok;
}

/* Every n-th replay: would the function do the same? */
static bool check(tn_jit *j, const tn_inputs *in)
{
    const int64_t every = tn_context_get(TN_JIT_CHECK);
    if (every <= 0 || (j->replays + 1) % (uint64_t)every) return true;
    tn__trace t;
    bool ok = tn__trace_run(&t, j->fn, j->user, in, j->in, TN__TRACE_CAPTURE) &&
              tn__jit_same(j, &t);
    tn__trace_free(&t);
    return ok;
}

static bool settle_writes(void)
{
    tn__cell **cells;
    return !tn__effects(&cells) || tn__run(NULL, 0);
}

/* A call that may be captured or replayed. */
static bool jitted(tn_jit *j, const tn_inputs *in, tn__node **out)
{
    if (!settle_writes() || !tn__jit_inputs(j, in) ||
        !tn__grow(&j->issued, j->nissued, &j->cap_issued, sizeof *j->issued))
        return false;
    if (!j->captured && !j->calls) {
        if (!plain(j, in, TN__TRACE_PLAIN, out)) return false;
        j->calls = 1;
        return true;
    }
    if (j->captured && (!tn__jit_match(j) || !check(j, in))) return false;
    retire(j);
    const bool fresh = !j->captured;
    if (fresh && !capture(j, in)) return false;
    tn__jit_rc rc = tn__jit_replay(j, in);
    if (rc == TN__JIT_STALE) rc = capture(j, in) ? tn__jit_replay(j, in) : TN__JIT_FAILED;
    if (rc == TN__JIT_STALE)
        tn__fail(TN_EINTERNAL, "jit: a capture does not fit the call it was made for");
    if (rc == TN__JIT_OK) {
        if (!fresh) say(j, "replays");
        j->replays += !fresh;
        if (j->has_result) *out = j->item[0].node;
        return true;
    }
    if (fresh) tn__jit_drop(j);
    return false;
}

/* *result: NULL where the function gives none. */
static bool call(tn_jit *j, const tn_inputs *in, tn_tensor **result)
{
    tn__node *n = NULL;
    bool ok;
    if (!tn_context_get(TN_JIT)) {
        ok = plain(j, in, TN__TRACE_FREE, &n);
        if (ok && n) *result = tn__handle_new(n);
        return ok;
    }
    if (tn__capture)
        return tn__fail(
            TN_ESTATE,
            "jit: a jit is called inside another jit's function: call its function itself");
    tn__slot *s = tn__slot_new();
    ok = s && jitted(j, in, &n);
    tn__jit_inputs_done(j);
    if (ok && n)
        *result = issue(j, s, n);
    else if (s)
        tn__slot_kill(s);
    return ok;
}

tn_tensor *(tn_jit_call)(tn_jit *j, const tn_inputs *in)
{
    static const tn_inputs none = {0, NULL};
    tn__error before;
    tn_tensor *result = NULL;
    const bool pending = !tn_ok();
    if (pending) tn__error_take(&before);
    tn__enter("tn_jit_call");
    bool ok = enter(j, "jit");
    if (ok) {
        ok = call(j, in ? in : &none, &result);
        leave(j);
    }
    if (!ok) result = tn__handle_new(NULL);
    tn__leave();
    if (pending) {
        tn_clear_error();
        tn__error_put(&before);
    }
    return result;
}

/* ---- further results ---- */

static bool output(const char *name, tn_tensor *t)
{
    tn__trace *tr = tn__tracing;
    if (!tr)
        return tn__fail(TN_ESTATE,
                        "jit_output: there is no jit's function here: call it inside of one");
    if (!name || !*name)
        return tn__fail(TN_EVALUE, "jit_output: the name is empty: give each output one");
    for (size_t i = 0; i < tr->nout; i++)
        if (!strcmp(tr->out[i].name, name))
            return tn__fail(TN_EVALUE,
                            "jit_output: '%s' is there already: give each output a name of its own",
                            name);
    tn__node *n = tn__in(t);
    if (!n || !tn__grow(&tr->out, tr->nout, &tr->cap_out, sizeof *tr->out)) return false;
    char *copy = tn__strdup(name);
    if (!copy) return false;
    tn__node_ref(n);
    tr->out[tr->nout++] = (tn__trace_out){copy, n};
    return true;
}

tn_tensor *(tn_jit_output)(const char *name, tn_tensor *t)
{
    tn__call c;
    tn__call_begin(&c, "tn_jit_output");
    if (!output(name, t)) return tn__call_end(&c, NULL);
    tn__call_done(&c);
    return t;
}

static tn__node *named(tn_jit *j, const char *name)
{
    const char *there[16];
    size_t n = 0;
    for (size_t i = 0; i < j->nname; i++) {
        if (name && j->name[i].node && !strcmp(j->name[i].name, name)) return j->name[i].node;
        if (n < TN_LEN(there)) there[n++] = j->name[i].name;
    }
    const char *near = name ? tn__nearest(name, there, n) : NULL;
    tn__fail(TN_EVALUE,
             "jit_get: no output '%s' of the latest call%s%s%s: name it by tn_jit_output inside "
             "the function",
             name ? name : "", near ? ": did you mean '" : "", near ? near : "", near ? "'" : "");
    return NULL;
}

tn_tensor *(tn_jit_get)(tn_jit *j, const char *name)
{
    tn__enter("tn_jit_get");
    tn_tensor *t = NULL;
    if (enter(j, "jit_get")) {
        tn__node *n = named(j, name);
        tn__slot *s = n ? reserve(j) : NULL;
        tn__node_ref(s ? n : NULL);
        if (s) t = issue(j, s, n);
        leave(j);
    }
    if (!t) t = tn__handle_new(NULL);
    tn__leave();
    return t;
}

/* ---- named sub-graphs ---- */

tn_tensor *(tn_function)(const char *name, tn_jit_fn *fn, void *user, const tn_inputs *in)
{
    static const tn_inputs none = {0, NULL};
    if (!fn) {
        tn__enter("tn_function");
        tn__fail(TN_ENULL, "function: the function of '%s' is NULL", name ? name : "");
        tn_tensor *bad = tn__handle_new(NULL);
        tn__leave();
        return bad;
    }
    const uint64_t start = tn__now_ns();
    tn_scope s;
    tn_scope_open(&s);
    tn_tensor *t = fn(user, in ? in : &none);
    if (t) tn_return(t);
    tn_scope_end(&s);
    if (tn_context_get(TN_DEBUG) >= 2)
        tn__log(TN_LOG_INFO, "function %s in %.2f ms", name ? name : "",
                (double)(tn__now_ns() - start) * 1e-6);
    return t;
}
